"""The formats by name, and one door to read any of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from genepool.errors import DataError, shown
from genepool.export import onnx_file, source, torch_program
from genepool.export.facts import Facts
from genepool.export.network import Network, Stranger
from genepool.export.source_text import WEIGHTS

MAX_BYTES = 2**33


class Format(NamedTuple):
    """One format."""

    write: Callable[[Network, Facts, Path], None]
    load: Callable[[Path], Stranger]
    """By the format's own means: runs what is in the file, so for files of our own making only."""
    read: Callable[[Path], tuple[Facts, Network]]
    """By ours: runs nothing."""


FORMATS = {
    "torch": Format(torch_program.write, torch_program.load, torch_program.read),
    "onnx": Format(onnx_file.write, onnx_file.load, onnx_file.read),
    "source": Format(source.write, source.load, source.read),
}


def read_model(path: Path) -> tuple[Facts, Network]:
    """The facts and the network of an exported model, in whatever format; nothing in it is run."""
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
            raise DataError("it is a folder, but neither an exported one nor an experiment.")
        return source.read
    size = path.stat().st_size
    if not path.is_file() or size == 0:
        raise DataError("it is an empty file." if path.is_file() else "it is no file.")
    if path.suffix == ".onnx":
        return onnx_file.read
    if size > MAX_BYTES:
        raise DataError(f"its {size / 1e9:.1f} GB are over {MAX_BYTES / 1e9:.1f} GB.")
    if path.suffix == ".pt2":
        return torch_program.read
    if path.suffix == ".safetensors":
        return source.read
    raise DataError("its name ends neither in .pt2 nor in .onnx; give an exported model or an experiment's directory.")
