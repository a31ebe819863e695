"""The members of a `.pt2` archive and the tensors in it, read without torch's own loader, which unpickles."""

from __future__ import annotations

import math
import zipfile
from typing import Any

import msgspec
import torch
from torch import Tensor

from genepool.errors import DataError, shown

MAX_JSON = 2**26
TYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 12: torch.bool, 13: torch.bfloat16,
}  # fmt: skip
"""The numbers of types in torch's archives."""


class Number(msgspec.Struct):
    """A size. Negative if the archive has an expression there."""

    as_int: int = -1


class Meta(msgspec.Struct):
    """The form of a tensor."""

    dtype: int
    sizes: list[Number]
    strides: list[Number]
    storage_offset: Number


class Entry(msgspec.Struct):
    path_name: str
    tensor_meta: Meta | None = None
    use_pickle: bool = False


class _Table(msgspec.Struct):
    config: dict[str, Entry]


class Archive:
    """torch does not compress, so the members are together no larger than the file, unlike those of a zip bomb."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        entries = file.infolist()
        if sum(entry.file_size for entry in entries) > size:
            raise DataError("its members are larger than the file itself, so torch did not write it.")
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise DataError("its members are compressed or encrypted, so torch did not write it.")
        self._file, self._size, self._read = file, size, 0
        self._entries = {entry.filename.partition("/")[2]: entry for entry in entries}
        self._whole = {entry.filename for entry in entries}

    def names(self, folder: str, suffix: str) -> list[str]:
        return [name for name in self._entries if name.startswith(folder) and name.endswith(suffix)]

    def has_old_form(self) -> bool:
        """Whether an older torch wrote it, which pickled weights."""
        return any(name.endswith("serialized_exported_program.json") for name in self._whole)

    def data(self, name: str) -> bytes:
        if name not in self._entries:
            raise DataError(f"it does not contain '{shown(name)}'.")
        self._read += self._entries[name].file_size
        if self._read > 4 * self._size:  # tensors may share a member, but not as often as a bomb's would
            raise DataError("its weights refer to the same numbers too often.")
        return self._file.read(self._entries[name])

    def json(self, name: str, form: Any) -> Any:
        if name in self._entries and self._entries[name].file_size > MAX_JSON:
            raise DataError(f"'{shown(name)}' in it has more than {MAX_JSON} bytes.")
        try:
            return msgspec.json.decode(self.data(name), type=form)
        except RecursionError:
            raise DataError(f"'{shown(name)}' in it is nested too deeply.") from None
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise DataError(f"'{shown(name)}' in it cannot be read ({shown(str(error))}).") from None

    def table(self, kind: str) -> dict[str, Entry]:
        """The table of `weights` or `constants`."""
        names = self.names(f"data/{kind}/", "_config.json")
        if len(names) != 1:
            raise DataError(f"it has {len(names)} tables of {kind} instead of one.")
        found: dict[str, Entry] = self.json(names[0], _Table).config
        return found

    def tensor(self, kind: str, name: str, entry: Entry) -> Tensor:
        meta = entry.tensor_meta
        if entry.use_pickle or meta is None or meta.dtype not in TYPES:
            raise DataError(f"its weights '{shown(name)}' are pickled or of a type that is not supported.")
        sizes, strides = ([number.as_int for number in numbers] for numbers in (meta.sizes, meta.strides))
        dtype, start = TYPES[meta.dtype], meta.storage_offset.as_int
        data = self.data(f"data/{kind}/{entry.path_name}")
        length = len(data) // dtype.itemsize
        fits = len(sizes) == len(strides) and min([start, *sizes, *strides]) >= 0 and math.prod(sizes) <= length
        last = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=False))
        if not fits or 0 in sizes or last >= length:
            raise DataError(f"its weights '{shown(name)}' do not have the length of their shape.")
        return torch.frombuffer(bytearray(data), dtype=dtype).as_strided(sizes, strides, start).contiguous()
