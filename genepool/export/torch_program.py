"""The format `torch`: a `torch.export` program in a `.pt2` archive that also contains the facts.

`torch.export.load` unpickles parts of an archive and evaluates strings in it, so it is only used on files that we just
wrote. From other files, facts and weights are read: the archive is a zip file with uncompressed members.
"""

from __future__ import annotations

import io
import logging
import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from genepool.errors import DataError, shown
from genepool.export.facts import Facts, from_json, to_json
from genepool.export.network import Network, Predictor, build_checked, predictor

FACTS = "genepool.json"
WEIGHTS = "data/weights/"
CONFIG = f"{WEIGHTS}model_weights_config.json"
FLOAT32 = 7
"""The number of this type in torch's archives."""


def write(network: Network, facts: Facts, path: Path) -> None:
    """Trace the network for any batch size and write the program."""
    images = torch.zeros((2, *facts.image), dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1)
    archive = io.BytesIO()  # not the path: on a full disk, torch raises errors that are not an OSError
    with _quiet(), torch.no_grad():
        program = torch.export.export(network, (images,), dynamic_shapes={"images": {0: batch}})
        torch.export.save(program, archive, extra_files={FACTS: to_json(facts)})
    path.write_bytes(archive.getbuffer())


def load(path: Path) -> Predictor:
    """Load with torch; only for files that we just wrote."""
    with _quiet():
        return predictor(torch.export.load(path).module())


def read(path: Path) -> tuple[Facts, Network]:
    """Read the facts and the network; nothing in the file is run."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _Members(archive, path.stat().st_size)
            facts = from_json(members.read(f"extra/{FACTS}"))
            tensors = _weights(members)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"it is not a complete .pt2 archive ({shown(str(error))}).") from None
    return facts, build_checked(facts, [_under(f"members.{i}.", tensors) for i in range(len(facts.members))])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's internal messages, which do not concern users."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


class _Members:
    """The members of an archive, by their names below its single folder.

    torch does not compress, so together they are no larger than the file, unlike those of a zip bomb.
    """

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > size:
            raise DataError("its members are larger than the file itself, so Genepool did not write it.")
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise DataError("its members are compressed or encrypted, so Genepool did not write it.")
        self._archive = archive
        self._entries = {entry.filename.partition("/")[2]: entry for entry in entries}

    def read(self, name: str) -> bytes:
        if name not in self._entries:
            raise DataError(f"it does not contain '{shown(name)}', so Genepool did not write it.")
        return self._archive.read(self._entries[name])


class _Number(msgspec.Struct):
    as_int: int


class _Meta(msgspec.Struct):
    dtype: int
    sizes: list[_Number]
    strides: list[_Number]
    storage_offset: _Number


class _Entry(msgspec.Struct):
    path_name: str
    use_pickle: bool
    tensor_meta: _Meta


class _Config(msgspec.Struct):
    config: dict[str, _Entry]


def _weights(members: _Members) -> dict[str, Tensor]:
    try:
        config = msgspec.json.decode(members.read(CONFIG), type=_Config).config
    except msgspec.MsgspecError as error:
        raise DataError(f"its table of weights cannot be read ({shown(str(error))}).") from None
    return {name: _tensor(members, name, entry) for name, entry in config.items()}


def _tensor(members: _Members, name: str, entry: _Entry) -> Tensor:
    meta, shape = entry.tensor_meta, [size.as_int for size in entry.tensor_meta.sizes]
    plain = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    ordered = [a == b or size == 1 for a, b, size in zip((s.as_int for s in meta.strides), plain, shape, strict=False)]
    if entry.use_pickle or meta.dtype != FLOAT32 or meta.storage_offset.as_int or not all(ordered):
        raise DataError(f"its weights '{shown(name)}' are pickled or not in the form that Genepool writes.")
    data = members.read(WEIGHTS + entry.path_name)
    if min(shape, default=1) < 1 or len(data) != 4 * math.prod(shape):
        raise DataError(f"its weights '{shown(name)}' do not have the length of their shape.")
    return torch.frombuffer(bytearray(data), dtype=torch.float32).view(shape)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
