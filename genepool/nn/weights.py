"""Weights in files: safetensors, so that reading them runs no code. A file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from genepool.errors import DataError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and batch-norm statistics by name, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}


def save_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes the tensors to a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(dict(tensors), temporary)
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        raise DataError(f"The weights cannot be written to '{path}': {error}.") from None


def load_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a file; anything but a whole safetensors file is refused."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise DataError(f"There is no weights file '{path}'.") from None
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"The weights file '{path}' cannot be read as safetensors: {error}.") from None
