"""Tells files from elsewhere from Genepool's own exports, which have facts in them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import msgspec

from genepool.errors import DataError
from genepool.export.onnx_file import parsed
from genepool.export.torch_program import FACTS

MEMBERS = "members"  # a fact that every export has
MAX_HEADER = 2**26
PICKLED = (".pth", ".pt", ".bin", ".ckpt", ".pkl", ".tar")


def is_foreign(path: Path) -> bool:
    """Whether a file was made elsewhere and may be a network. Of damaged files, Genepool's own readers say what is
    wrong."""
    try:
        if not path.is_file() or path.stat().st_size == 0:
            return False
        if path.suffix == ".onnx":
            return MEMBERS not in {entry.key for entry in parsed(path).metadata_props}
        if path.suffix == ".pt2":
            with zipfile.ZipFile(path) as archive:
                return not any(name.endswith(f"/extra/{FACTS}") for name in archive.namelist())
        if path.suffix == ".safetensors":
            return MEMBERS not in _header(path).get("__metadata__", {})
    except (OSError, ValueError, RecursionError, NotImplementedError, DataError, zipfile.BadZipFile):
        return False
    return path.suffix in PICKLED


def _header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = msgspec.json.decode(file.read(min(length, MAX_HEADER)), type=dict[str, Any])
    return header
