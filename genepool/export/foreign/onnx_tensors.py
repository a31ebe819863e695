"""Reads the tensors of an ONNX file, which may lie in a file beside it."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from genepool.errors import DataError, shown
from genepool.export.facts import MAX_MEMORY
from genepool.export.foreign.graph import TORCH_ERRORS

if TYPE_CHECKING:
    from onnx import TensorProto

FLOATS = (1, 10, 11, 16)  # float, float16, double, bfloat16
INTEGERS = {2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool"}
BYTES = {1: 4, 2: 1, 3: 1, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 16: 2}


class Beside:
    """The plain files in the folder of an ONNX file, the only others that its weights are read from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = Counter[tuple[int, int]]()

    def is_link(self, name: str) -> bool:
        return (self._folder / name).is_symlink()

    def data(self, name: str, start: int, length: int) -> bytes:
        """Read a part of a file. Tensors may share numbers, but not as often as a bomb's would."""
        path = self._folder / name
        if path.exists() and not path.is_file():  # opening a pipe would wait for a writer
            raise ValueError("it is not a plain file")
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if not 0 <= start <= start + length <= about.st_size:
                raise ValueError("it is too short")
            inode = (about.st_dev, about.st_ino)  # a file may have several names
            self._read[inode] += length
            if self._read[inode] > 4 * about.st_size:
                raise ValueError("its numbers are used too often")
            if self._read.total() > MAX_MEMORY:  # a file with holes is larger than the disk that it takes
                raise ValueError(f"it holds more than {MAX_MEMORY / 2**30:.0f} GiB of weights")
            file.seek(start)
            return file.read(length)


def read_tensor(proto: TensorProto, beside: Beside | None = None) -> Tensor:
    """Read a tensor; without `beside`, only from the file itself."""
    from onnx import TensorProto, numpy_helper

    name, size = shown(proto.name), math.prod(proto.dims)
    if proto.data_type not in BYTES or min(proto.dims, default=1) < 0:
        raise DataError(f"its weights '{name}' have a type or shape that is not supported.")
    if proto.data_location == TensorProto.EXTERNAL:
        proto = _from_beside(proto, size, beside)
    try:
        if proto.HasField("raw_data") and size * BYTES[proto.data_type] != len(proto.raw_data):
            raise ValueError("their length differs from their shape")
        array = numpy_helper.to_array(proto)
    except (*TORCH_ERRORS, OverflowError) as error:
        raise DataError(f"its weights '{name}' cannot be read ({shown(str(error)[:200])}).") from None
    if proto.data_type in FLOATS:
        array = array.astype(np.float32)
    return torch.from_numpy(np.array(array))


def _from_beside(proto: TensorProto, size: int, beside: Beside | None) -> TensorProto:
    """Read weights from a file in the same folder, and from nowhere else."""
    from onnx import TensorProto

    where = {entry.key: entry.value for entry in proto.external_data}
    name, length = where.get("location", ""), size * BYTES[proto.data_type]
    is_name = name == os.path.basename(name) and name not in ("", ".", "..") and "\0" not in name  # noqa: PTH119
    if beside is None or not is_name or beside.is_link(name):
        raise DataError(
            f"its weights '{shown(proto.name)}' are in '{shown(name)}', outside its folder; save it as one file."
        )
    try:
        data = beside.data(name, int(where.get("offset") or "0"), length)
    except (OSError, ValueError) as error:
        reason = shown(str(getattr(error, "strerror", None) or error))
        raise DataError(f"its weights '{shown(proto.name)}' cannot be read from '{shown(name)}' ({reason}).") from None
    return TensorProto(name=proto.name, dims=proto.dims, data_type=proto.data_type, raw_data=data)
