"""Weights as bytes: safetensors, so that reading them runs no code."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from genepool.errors import DataError, shown
from genepool.nn.model import CLASSIFIER

MAX_BYTES = 2**32
_KINDS = {torch.float64: "F64", torch.float32: "F32"}


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the bytes that the safetensors library would write; it would need two more copies in memory."""
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
    """Return the tensors of a safetensors document."""
    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"these are not weights in safetensors form: {shown(str(error))}.") from None


def read_weights(path: Path) -> bytes:
    """Return the bytes of a weights file after checking that they can be parsed."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise DataError(f"it has more than {MAX_BYTES} bytes.")
        from_bytes(data)
    except OSError as error:
        raise DataError(f"The weights file '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    except DataError as error:
        raise DataError(f"The weights file '{shown(path)}' cannot be used: {error}") from None
    return data


def with_zero_classifier(weights: bytes, output: str, classes: int) -> bytes:
    """Return the weights with a classifier of zeros for that number of classes; `output` is the ID of the output."""
    tensors = from_bytes(weights)
    name = f"{CLASSIFIER}{output}"
    channels = tensors[f"{name}.weight"].shape[1]
    new = {f"{name}.weight": torch.zeros(classes, channels), f"{name}.bias": torch.zeros(classes)}
    return to_bytes({**tensors, **new})
