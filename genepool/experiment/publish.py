"""Models taken out of an experiment: chosen, gathered, written in one of the formats, and checked as strangers would.

A file or folder appears under its name only after its format's own loader has answered like the original on every
validation image; until then it lies beside its place under a hidden name, and goes if anything fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool.analysis import History, Row, find, lineage
from genepool.dna import codec, requirements
from genepool.errors import ConcurrencyError, DataError, ExportError, shown
from genepool.experiment import Experiment
from genepool.experiment.best import choose, measured_before

if TYPE_CHECKING:
    from genepool.data.dataset import Dataset
    from genepool.export.facts import Facts, Member
    from genepool.export.network import Network
    from genepool.nn.model import Model

SUFFIXES = {"torch": ".pt2", "onnx": ".onnx", "source": "-source"}
"""The formats (`genepool.export.formats` has what they do), and how their files' or folders' names end."""
OURS = {"model.py", "weights.safetensors", "README.md", "__pycache__"}
"""What may be in a folder that is replaced."""


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written; the keys of its JSON form are documented and stay."""

    path: str
    format: str
    ids: tuple[str, ...]
    """One individual, or those of an ensemble."""
    validation_accuracy: float
    test_accuracy: float | None
    parameters: int
    checked_images: int
    """On which labels and probabilities are those of the original."""
    largest_difference: float
    """Of a probability."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A model on its way out: the networks as evolution has them, and as strangers will."""

    facts: Facts
    originals: tuple[Model, ...]
    network: Network


def export(experiment: Experiment, identities: Sequence[str], data: Dataset, *, name: str, target: Path) -> Exported:
    """Writes the best individual, the one named, or several as an ensemble. Asking `check_target` comes first."""
    return write_taken(take(experiment, experiment.history(), identities, data), data, name=name, target=target)


def write_taken(taken: Taken, data: Dataset, *, name: str, target: Path) -> Exported:
    """Writes a model, and publishes it once it has answered like the original."""
    from genepool.export.formats import FORMATS
    from genepool.export.network import compare, original_answers, share_right

    form = FORMATS[name]
    answers = original_answers(taken.originals, data)
    accuracy = share_right(answers, data)
    facts = msgspec.structs.replace(taken.facts, validation_accuracy=accuracy)
    with _published(target, SUFFIXES[name]) as temporary:
        form.write(taken.network, facts, temporary)
        agreement = compare(answers, form.load(temporary), data)
        _check_readable(form.read, temporary)
    return Exported(
        path=str(target),
        format=name,
        ids=tuple(member.id for member in facts.members),
        validation_accuracy=accuracy,
        test_accuracy=facts.test_accuracy,
        parameters=facts.parameters,
        checked_images=agreement.images,
        largest_difference=agreement.largest_difference,
    )


def _check_readable(read: Callable[[Path], object], path: Path) -> None:
    """By ourselves too: its weights are those that were meant to be written."""
    try:
        read(path)
    except DataError as error:
        raise ExportError(f"The exported model could not be used by `genepool predict`: {error}") from None


def best_of(experiment: Experiment, data: Dataset) -> tuple[Facts, Network]:
    """The model that `export` would write, as `read_model` would give it back."""
    taken = take(experiment, experiment.history(), (), data)
    return taken.facts, taken.network


def take(experiment: Experiment, history: History, identities: Sequence[str], data: Dataset) -> Taken:
    """The chosen individuals' networks with their weights, and what is known of them."""
    from genepool.export.facts import Facts, Search, digest_of
    from genepool.export.network import build, restore
    from genepool.nn.weights import from_bytes

    rows = [find(history.rows, identity) for identity in identities] or [choose(experiment, history)]
    if len({row.id for row in rows}) < len(rows):
        raise ExportError("An individual was named twice; an ensemble needs different ones.")
    weights = [from_bytes(_weights(experiment, row)) for row in rows]
    spent = history.spending()
    facts = Facts(
        name=shown(experiment.path.resolve().name),
        data=data.name,
        classes=data.classes,
        height=data.height,
        width=data.width,
        channels=data.channels,
        mean=data.mean,
        std=data.std,
        test_accuracy=measured_before(experiment, rows[0].id) if len(rows) == 1 else None,
        members=tuple(_member(history, row, data) for row in rows),
        search=Search(individuals=spent.individuals, flops=spent.flops, seconds=spent.seconds),
    )
    try:
        originals = tuple(restore(member, facts, part) for member, part in zip(facts.members, weights, strict=True))
        network = build(facts, weights)
    except DataError as error:
        raise DataError(
            f"The model cannot be taken out of '{shown(experiment.path)}': {error} Are these the images that it was "
            "trained on? If so, run `genepool check`."
        ) from None
    return Taken(
        facts=msgspec.structs.replace(facts, digest=digest_of(network.state_dict())),
        originals=originals,
        network=network,
    )


def _weights(experiment: Experiment, row: Row) -> bytes:
    weights = None
    with contextlib.suppress(ConcurrencyError):  # it has been collected
        weights = experiment.view().weights(row.individual) if row.result is not None else None
    if weights is None:
        raise DataError(
            f"The individual {row.id} has no weights (it is {row.state.name.lower()}); only the living keep theirs."
        )
    return weights


def _member(history: History, row: Row, data: Dataset) -> Member:
    from genepool.export.facts import Link, Member

    dna = row.dna
    needs = requirements(dna, data.image, len(data.classes), 1)
    return Member(
        id=row.id,
        network=dna.in_a_line(),
        fitness=row.fitness or 0.0,
        accuracy=row.accuracy,
        parameters=needs.parameters,
        flops=needs.forward.total,
        dna=codec.encode_in_a_line(dna).decode(),
        lineage=tuple(
            Link(mutations=a.mutations, fitness=a.fitness, accuracy=a.accuracy) for a in lineage(history.rows, row.id)
        ),
    )


def check_target(experiment: Experiment, name: str, out: Path | None, force: bool) -> Path:
    """Where the model will be written; to be asked before any work is done."""
    suffix = SUFFIXES[name]
    target = out if out is not None else Path(experiment.path.resolve().name + suffix)
    if suffix.startswith(".") and target.suffix != suffix:
        raise ExportError(f"The name '{shown(target)}' must end in {suffix}, by which others know the format.")
    if not os.access(target.parent, os.W_OK):  # and not is_dir, which raises on names that are too long
        raise ExportError(f"'{shown(target)}' cannot be written: make its folder first, or choose another by --out.")
    if not os.path.lexists(target):
        return target
    if not force:
        raise ExportError(f"'{shown(target)}' exists already; choose another name by --out, or replace it by --force.")
    replaceable = not target.is_dir() or OURS.issuperset(entry.name for entry in target.iterdir())
    if target.is_dir() == suffix.startswith(".") or not replaceable:
        raise ExportError(f"'{shown(target)}' is not an export of this format, and is not replaced; use --out.")
    return target


@contextlib.contextmanager
def _published(target: Path, suffix: str) -> Iterator[Path]:
    """A hidden name beside the target, which becomes the target if all goes well, and nothing if not."""
    ending = suffix if suffix.startswith(".") else ""
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{ending}")
    try:
        yield temporary
        if temporary.is_dir() and os.path.lexists(target):
            _replace_folder(temporary, target)
        else:
            temporary.replace(target)
    except OSError as error:
        raise ExportError(f"'{shown(target)}' cannot be written: {error.strerror or error}.") from None
    finally:
        _remove(temporary)


def _replace_folder(temporary: Path, target: Path) -> None:
    """A folder cannot be renamed over another: the old one steps aside, and comes back if the new one fails."""
    old = temporary.with_name(f"{temporary.name}.old")
    target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        old.rename(target)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
