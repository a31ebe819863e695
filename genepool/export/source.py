"""The text of a model's README.md: what it is, how good, on what data, how it came about, how to use it."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save

from genepool.errors import DataError, shown
from genepool.export.facts import Facts, Link, Member, from_properties, to_properties
from genepool.export.layer_names import tensor_names
from genepool.export.network import Network, Stranger, build_checked
from genepool.export.source_text import WEIGHTS, member_names, source_text
from genepool.nn.weights import MAX_BYTES, from_bytes


def card_text(facts: Facts) -> str:
    """The whole of `README.md`."""
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: Facts) -> Iterator[str]:
    size = f"{facts.height} x {facts.width} pixels, {'grey' if facts.channels == 1 else 'red, green, blue'}"
    count, search = len(facts.members), facts.search
    yield f"# {_plain(facts.name)}"
    yield ""
    yield f"An image classifier for {len(facts.classes)} classes, evolved by Genepool, after Real et al.,"
    yield "Large-Scale Evolution of Image Classifiers (2017)."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| data set | {_plain(facts.data)} |"
    yield f"| images | {size} |"
    yield f"| validation accuracy | {_percent(facts.validation_accuracy)} ({_selection(facts)}) |"
    yield f"| test accuracy | {_percent(facts.test_accuracy)} |"
    yield f"| networks | {count}{', whose probabilities are averaged' if count > 1 else ''} |"
    yield f"| parameters | {facts.parameters:,} |"
    yield f"| FLOPs an image | {facts.flops:,} |"
    yield f"| the search cost | {search.flops:.3g} FLOPs, {search.individuals:,} individuals, {_span(search.seconds)} |"
    yield f"| SHA-256 of the weights | `{facts.digest}` |"
    yield ""
    yield from _use(facts)
    yield "## Classes"
    yield ""
    for number, name in enumerate(facts.classes):
        yield f"{number}. {_plain(name)}"
    for member in facts.members:
        yield from _member(member)


def _use(facts: Facts) -> Iterator[str]:
    shape = f"(n, {facts.height}, {facts.width}, {facts.channels})"
    yield "## How to use it"
    yield ""
    yield "It needs torch and nothing else; opening image files needs Pillow too."
    yield ""
    yield "```sh"
    yield "python model.py photo.png ...    # the three likeliest classes of each image"
    yield "```"
    yield ""
    yield "```python"
    yield "import model"
    yield ""
    yield "classifier = model.load()"
    yield f"probabilities = classifier(images)    # images: a uint8 tensor {shape}, n as you like"
    yield "```"
    yield ""
    yield f"Photographs are turned upright, laid on white, resized to {facts.width} x {facts.height} pixels (bicubic)."
    yield "The network itself normalises them. `genepool predict` takes this folder too."
    yield ""


def _selection(facts: Facts) -> str:
    if all(member.accuracy in (None, member.fitness) for member in facts.members):
        return "evolution selects by it"
    return "evolution selected by a fitness that counts the cost too"


def _member(member: Member) -> Iterator[str]:
    yield ""
    yield f"## Individual {member.id}"
    yield ""
    yield f"`{member.network}`"
    yield ""
    needs = f"{member.parameters:,} parameters, {member.flops:,} FLOPs an image"
    yield f"Accuracy {_percent(_accuracy(member))}, {needs}. From the beginning to here:"
    yield ""
    yield "| mutation | accuracy |"
    yield "|---|---|"
    for link in member.lineage:
        yield f"| {_plain(' + '.join(link.mutations)) or '(the beginning)'} | {_percent(_accuracy(link))} |"


def _accuracy(of: Member | Link) -> float | None:
    return of.fitness if of.accuracy is None else of.accuracy


def _plain(text: str) -> str:
    """Somebody's words as one line that Markdown leaves as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|!" else letter for letter in shown(text))


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.1f} %"


def _span(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600} h {whole % 3600 // 60:02d} m {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


MODEL, CARD = "model.py", "README.md"
COUNTER = ".num_batches_tracked"
"""A tensor that torch's batch normalisation wants to find, and that means nothing here."""


def write(network: Network, facts: Facts, folder: Path) -> None:
    """Makes the folder with its three files."""
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(document(network, facts))
    (folder / MODEL).write_text(source_text(facts), encoding="utf-8")
    (folder / CARD).write_text(card_text(facts), encoding="utf-8")


def document(network: Network, facts: Facts, **more: str) -> bytes:
    """The weights by the names in `model.py`, with the facts, and what else is given, as metadata: one safetensors."""
    tensors = {}
    members = zip(member_names(len(facts.members)), facts.members, network.members, strict=True)
    for prefix, member, model in members:
        state = model.state_dict()
        for ours, name in tensor_names(member.decoded()).items():
            tensors[f"{prefix}.{name}"] = state[ours].contiguous()
            if name.endswith("running_var"):
                tensors[f"{prefix}.{name.rpartition('.')[0]}{COUNTER}"] = torch.zeros((), dtype=torch.int64)
    return save(tensors, metadata={**to_properties(facts), **more})


def load(folder: Path) -> Stranger:
    """As a stranger would, by running `model.py`; only for folders of our own making."""
    network = runpy.run_path(str(folder / MODEL))["load"]()

    def answer(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return network(torch.from_numpy(pixels)).numpy()

    return answer


def read(path: Path) -> tuple[Facts, Network]:
    """The facts and the network, from the weights of the folder alone."""
    return read_document(_bytes(path / WEIGHTS if path.is_dir() else path))


def read_document(data: bytes) -> tuple[Facts, Network]:
    """The same from what `document` made."""
    facts = from_properties(metadata(data))
    tensors = from_bytes(data)
    members = []
    for prefix, member in zip(member_names(len(facts.members)), facts.members, strict=True):
        names = {ours: f"{prefix}.{name}" for ours, name in tensor_names(member.decoded()).items()}
        members.append({ours: tensors[name] for ours, name in names.items() if name in tensors})
    return facts, build_checked(facts, members)


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"its weights are over {MAX_BYTES / 2**30:.0f} GiB.")
    return path.read_bytes()


def metadata(data: bytes) -> dict[str, str]:
    """The texts that a safetensors file carries; its library reads them from files only, not from bytes."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= len(data) - 8:
        raise DataError("its weights are no safetensors file, or a part of one.")
    try:
        return msgspec.json.decode(data[8 : 8 + length], type=_Header).metadata
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise DataError("its weights do not say what they belong to, so they are not an export of Genepool.") from None


class _Header(msgspec.Struct):
    metadata: dict[str, str] = msgspec.field(name="__metadata__")
