"""Weights as bytes and in files: safetensors, so that reading them runs no code."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from genepool.data.paths import write_atomic
from genepool.errors import DataError, shown

MAX_BYTES = 2**32
_KINDS = {torch.float64: "F64", torch.float32: "F32"}


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The tensors, wherever they are, as one safetensors document, byte for byte as that library writes it.

    Written here because the library needs all of them twice more in memory: once in its order of axes, once as a copy.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    places: dict[str, dict[str, object]] = {}
    end = 0
    for name in names:
        tensor, start = tensors[name], end
        end += tensor.numel() * tensor.element_size()
        places[name] = {"dtype": _KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    header = msgspec.json.encode(places)
    header += b" " * (-len(header) % 8)
    document = io.BytesIO()
    document.write(len(header).to_bytes(8, "little") + header)
    for name in names:
        document.write(tensors[name].detach().cpu().contiguous().numpy().data)
    return document.getvalue()


def from_bytes(data: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors document; anything else is refused."""
    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"these are not weights in safetensors form: {shown(str(error))}.") from None


def require_writable(path: Path) -> None:
    """To be asked before a long training, not after it."""
    if not os.access(path.parent, os.W_OK) or path.is_dir():
        raise DataError(f"'{shown(path)}' cannot be written: make its folder first or choose another.")


def write_weights(data: bytes, path: Path) -> None:
    """Writes a file, which appears whole or not at all."""
    try:
        write_atomic(path, data)
    except OSError as error:
        raise DataError(f"The weights cannot be written to '{shown(path)}': {error.strerror or error}.") from None


def read_weights(path: Path) -> bytes:
    """The bytes of a weights file, once it is sure that they can be read as such."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise DataError(f"over {MAX_BYTES} bytes are too many.")
        from_bytes(data)
    except OSError as error:
        raise DataError(f"The weights file '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    except DataError as error:
        raise DataError(f"The weights file '{shown(path)}' cannot be used: {error}") from None
    return data
