"""Writing a model in one of the formats, checking it, and reading it back. A file or folder appears under its name only
after its format's own loader has answered like the original on every validation image.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from genepool.data import Dataset
from genepool.errors import DataError, ExportError, shown
from genepool.export import onnx_file, source, torch_program
from genepool.export.facts import Facts
from genepool.export.network import Network, Predictor, accuracy, compare, original_answers
from genepool.export.source_text import WEIGHTS
from genepool.layers import blaming
from genepool.nn import Model

MAX_BYTES = 2**33
SOURCE_FILES = {"model.py", "weights.safetensors", "README.md", "__pycache__"}
"""A folder that contains anything else is not replaced."""


class Format(NamedTuple):
    suffix: str
    """How the names of its files or folders end."""
    write: Callable[[Network, Facts, Path], None]
    load: Callable[[Path], Predictor]
    """Loads with the format's own library, which runs the file's contents: only for files that we just wrote."""
    read: Callable[[Path], tuple[Facts, Network]]
    """Reads with our own code, which runs nothing."""


FORMATS = {
    "torch": Format(".pt2", torch_program.write, torch_program.load, torch_program.read),
    "onnx": Format(".onnx", onnx_file.write, onnx_file.load, onnx_file.read),
    "source": Format("-source", source.write, source.load, source.read),
}


class ModelToExport(msgspec.Struct, frozen=True, kw_only=True):
    """Networks as evolution trained them and the one that is written."""

    facts: Facts
    originals: tuple[Model, ...]
    network: Network


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written. The keys of its JSON form are documented."""

    path: str
    format: str
    ids: tuple[str, ...]
    """One individual, or the members of an ensemble."""
    validation_accuracy: float
    test_accuracy: float | None
    parameters: int
    checked_images: int
    """The number of images on which labels and probabilities agree with the original."""
    largest_difference: float
    """The largest difference between two probabilities."""
    without_images: str | None = None
    """Why these images were noise instead of the validation images; the validation accuracy is then the recorded one.
    """


def write_model(model: ModelToExport, data: Dataset, *, name: str, target: Path) -> Exported:
    """Write a model in the format `name` and publish it once it has answered like the original on the validation
    images. Their labels may be missing: the recorded accuracy of its network then stays."""
    form = FORMATS[name]
    answers = original_answers(model.originals, data)
    if len(data.validation_labels):
        validation_accuracy = accuracy(answers.argmax(1), data.validation_labels)
    else:
        [member] = model.facts.members
        validation_accuracy = member.fitness if member.accuracy is None else member.accuracy
    facts = msgspec.structs.replace(model.facts, validation_accuracy=validation_accuracy)
    layers = [layer for original in model.originals for layer in original.dna.layers]
    with _published(target, form.suffix) as temporary, blaming(layers):
        form.write(model.network, facts, temporary)
        agreement = compare(answers, form.load(temporary), data)
        try:
            form.read(temporary)
        except DataError as error:
            raise ExportError(f"The exported model could not be used by `genepool predict`: {error}") from None
    return Exported(
        path=str(target),
        format=name,
        ids=tuple(member.id for member in facts.members),
        validation_accuracy=validation_accuracy,
        test_accuracy=facts.test_accuracy,
        parameters=facts.parameters,
        checked_images=agreement.images,
        largest_difference=agreement.largest_difference,
    )


def check_target(default_stem: str, name: str, out: Path | None, force: bool) -> Path:
    """Return the path to write to; call this before any work is done."""
    suffix = FORMATS[name].suffix
    target = out if out is not None else Path(default_stem + suffix)
    if suffix.startswith(".") and target.suffix != suffix:
        raise ExportError(f"The name '{shown(target)}' must end in {suffix}, the suffix of this format.")
    if not os.access(target.parent, os.W_OK):  # and not is_dir, which raises on names that are too long
        raise ExportError(f"'{shown(target)}' cannot be written; create its folder first or choose another with --out.")
    if not os.path.lexists(target):
        return target
    if not force:
        raise ExportError(f"'{shown(target)}' already exists; choose another name with --out or add --force.")
    replaceable = not target.is_dir() or SOURCE_FILES.issuperset(entry.name for entry in target.iterdir())
    if target.is_dir() == suffix.startswith(".") or not replaceable:
        raise ExportError(f"'{shown(target)}' is not an export in this format and is not replaced; use --out.")
    return target


@contextlib.contextmanager
def _published(target: Path, suffix: str) -> Iterator[Path]:
    """Yield a hidden name next to the target; rename it to the target on success and remove it on failure."""
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
    """Move the old folder aside first, since a folder cannot be renamed over another; restore it on failure."""
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


def read_model(path: Path) -> tuple[Facts, Network]:
    """Read an exported model of any format; nothing in it is run."""
    try:
        return _reader(path)(path)
    except OSError as error:
        raise DataError(f"The model '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    except DataError as error:
        raise DataError(f"The model '{shown(path)}' cannot be used: {error}") from None
    except MemoryError:
        raise DataError(f"The model '{shown(path)}' does not fit into memory.") from None


def _reader(path: Path) -> Callable[[Path], tuple[Facts, Network]]:
    if path.is_dir():
        if not (path / WEIGHTS).is_file():
            raise DataError("it is a folder that contains neither an exported model nor an experiment.")
        return source.read
    size = path.stat().st_size
    if not path.is_file() or size == 0:
        raise DataError("it is an empty file." if path.is_file() else "it is not a file.")
    if path.suffix == ".onnx":
        return onnx_file.read
    if size > MAX_BYTES:
        raise DataError(f"its {size / 1e9:.1f} GB exceed the limit of {MAX_BYTES / 1e9:.1f} GB.")
    if path.suffix == ".pt2":
        return torch_program.read
    if path.suffix == ".safetensors":
        return source.read
    raise DataError("its name ends neither in .pt2 nor in .onnx; give an exported model or an experiment's directory.")
