"""The format `source`: a folder with `model.py`, `weights.safetensors` and a model card, `README.md`."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save

from genepool.errors import DataError, shown
from genepool.export.facts import Ancestor, Facts, Member, from_properties, to_properties
from genepool.export.layer_names import tensor_names
from genepool.export.network import Network, Predictor, build_named, predictor
from genepool.export.source_text import WEIGHTS, member_names, source_text
from genepool.nn import MAX_BYTES, from_bytes


def card_text(facts: Facts) -> str:
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Facts) -> Iterator[str]:
    size = f"{facts.height} x {facts.width} pixels, {'grey' if facts.channels == 1 else 'red, green, blue'}"
    count, search = len(facts.members), facts.search
    yield f"# {_plain(facts.name)}\n"
    yield f"An image classifier for {len(facts.classes)} classes, evolved by Genepool, after Real et al.,"
    yield "Large-Scale Evolution of Image Classifiers (2017).\n"
    yield "| | |\n|---|---|"
    yield f"| data set | {_plain(facts.data)} |"
    yield f"| images | {size} |"
    yield f"| validation accuracy | {_percent(facts.validation_accuracy)} ({_selection(facts)}) |"
    yield f"| test accuracy | {_percent(facts.test_accuracy)} |"
    yield f"| networks | {count}{', whose probabilities are averaged' if count > 1 else ''} |"
    yield f"| parameters | {facts.parameters:,} |"
    yield f"| FLOPs per image | {facts.flops:,} |"
    yield f"| search | {search.flops:.3g} FLOPs, {search.individuals:,} individuals, {_span(search.seconds)} |"
    yield f"| SHA-256 of the weights | `{facts.digest}` |\n"
    yield from _use(facts)
    yield "## Classes\n"
    yield from (f"{number}. {_plain(name)}" for number, name in enumerate(facts.classes))
    for member in facts.members:
        yield from _member(member)


def _use(facts: Facts) -> Iterator[str]:
    shape = f"(n, {facts.height}, {facts.width}, {facts.channels})"
    yield "## How to use it\n"
    yield "It needs only torch, and Pillow to open image files.\n"
    yield "```sh"
    yield "python model.py photo.png ...    # prints the three likeliest classes of each image"
    yield "```\n"
    yield "```python"
    yield "import model\n"
    yield "classifier = model.load()"
    yield f"probabilities = classifier(images)    # images: a uint8 tensor {shape}, any n"
    yield "```\n"
    yield f"Photographs are turned upright, put on white and resized to {facts.width} x {facts.height} (bicubic)."
    yield "The network normalises them itself. `genepool predict` also reads this folder.\n"


def _selection(facts: Facts) -> str:
    if all(member.accuracy in (None, member.fitness) for member in facts.members):
        return "evolution selected by it"
    return "evolution selected by a fitness that also counts FLOPs"


def _member(member: Member) -> Iterator[str]:
    needs = f"{member.parameters:,} parameters, {member.flops:,} FLOPs per image"
    yield f"\n## Individual {member.id}\n"
    yield f"`{member.network}`\n"
    yield f"Accuracy {_percent(_accuracy(member))}, {needs}. Its lineage:\n"
    yield "| mutation | accuracy |\n|---|---|"
    for link in member.lineage:
        yield f"| {_plain(' + '.join(link.mutations)) or '(first network)'} | {_percent(_accuracy(link))} |"


def _accuracy(of: Member | Ancestor) -> float | None:
    return of.fitness if of.accuracy is None else of.accuracy


def _plain(text: str) -> str:
    """Return the text as one line without Markdown markup."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|!" else letter for letter in shown(text))


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.1f} %"


def _span(seconds: float) -> str:
    total = round(seconds)
    return f"{total // 3600} h {total % 3600 // 60:02d} m {total % 60:02d} s" if total >= 60 else f"{total} s"


MODEL, CARD = "model.py", "README.md"
COUNTER = ".num_batches_tracked"  # a tensor that torch's batch normalisation expects but that has no meaning here


def write(network: Network, facts: Facts, folder: Path) -> None:
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(document(network, facts))
    (folder / MODEL).write_text(source_text(facts), encoding="utf-8")
    (folder / CARD).write_text(card_text(facts), encoding="utf-8")


def document(network: Network, facts: Facts, **more: str) -> bytes:
    """Return a safetensors document: weights by their names in `model.py`, facts and `more` as metadata."""
    tensors = {}
    for prefix, member, model in zip(member_names(len(facts.members)), facts.members, network.members, strict=True):
        state = model.state_dict()
        for ours, name in tensor_names(member.decoded(), facts.image).items():
            tensors[f"{prefix}.{name}"] = state[ours].contiguous()
            if name.endswith("running_var"):
                tensors[f"{prefix}.{name.rpartition('.')[0]}{COUNTER}"] = torch.zeros((), dtype=torch.int64)
    return save(tensors, metadata={**to_properties(facts), **more})


def load(folder: Path) -> Predictor:
    """Load by running `model.py`; only for folders that we just wrote."""
    return predictor(runpy.run_path(str(folder / MODEL))["load"]())


def read(path: Path) -> tuple[Facts, Network]:
    """Read the facts and the network; of a folder, only the weights file is read."""
    file = path / WEIGHTS if path.is_dir() else path
    if file.stat().st_size > MAX_BYTES:
        raise DataError(f"its weights exceed {MAX_BYTES / 2**30:.0f} GiB.")
    return read_document(file.read_bytes())


def read_document(data: bytes) -> tuple[Facts, Network]:
    facts = from_properties(metadata(data))
    prefixes = [f"{name}." for name in member_names(len(facts.members))]
    return facts, build_named(facts, prefixes, from_bytes(data))


def metadata(data: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors document; the library reads them only from files, not from bytes."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= len(data) - 8:
        raise DataError("its weights are not a complete safetensors file.")
    try:
        return msgspec.json.decode(data[8 : 8 + length], type=_Header).metadata
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise DataError("its weights have no metadata, so they were not exported by Genepool.") from None


class _Header(msgspec.Struct):
    metadata: dict[str, str] = msgspec.field(name="__metadata__")
