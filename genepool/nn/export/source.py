"""The format `source`: a folder with the network as Python that people can read, its weights, and a model card.

Reading such a folder never runs its Python: the network is built from the DNA in the weights' metadata.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save

from genepool.errors import DataError
from genepool.nn.export.agreement import Stranger
from genepool.nn.export.card import card_text
from genepool.nn.export.code import WEIGHTS, member_names, source_text
from genepool.nn.export.facts import Facts, from_properties, to_properties
from genepool.nn.export.layers import tensor_names
from genepool.nn.export.network import Network, build_checked
from genepool.nn.weights import MAX_BYTES, from_bytes

MODEL, CARD = "model.py", "README.md"
COUNTER = ".num_batches_tracked"
"""A tensor that torch's batch normalisation wants to find, and that means nothing here."""


def write(network: Network, facts: Facts, folder: Path) -> None:
    """Makes the folder with its three files."""
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(document(network, facts))
    (folder / MODEL).write_text(source_text(facts), encoding="utf-8")
    (folder / CARD).write_text(card_text(facts), encoding="utf-8")


def document(network: Network, facts: Facts, **more: str) -> bytes:
    """The weights by the names in `model.py`, with the facts, and what else is given, as metadata: one safetensors."""
    tensors = {}
    members = zip(member_names(len(facts.members)), facts.members, network.members, strict=True)
    for prefix, member, model in members:
        state = model.state_dict()
        for ours, name in tensor_names(member.decoded()).items():
            tensors[f"{prefix}.{name}"] = state[ours].contiguous()
            if name.endswith("running_var"):
                tensors[f"{prefix}.{name.rpartition('.')[0]}{COUNTER}"] = torch.zeros((), dtype=torch.int64)
    return save(tensors, metadata={**to_properties(facts), **more})


def load(folder: Path) -> Stranger:
    """As a stranger would, by running `model.py`; only for folders of our own making."""
    network = runpy.run_path(str(folder / MODEL))["load"]()

    def answer(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return network(torch.from_numpy(pixels)).numpy()

    return answer


def read(path: Path) -> tuple[Facts, Network]:
    """The facts and the network, from the weights of the folder alone."""
    return read_document(_bytes(path / WEIGHTS if path.is_dir() else path))


def read_document(data: bytes) -> tuple[Facts, Network]:
    """The same from what `document` made."""
    facts = from_properties(metadata(data))
    tensors = from_bytes(data)
    members = []
    for prefix, member in zip(member_names(len(facts.members)), facts.members, strict=True):
        names = {ours: f"{prefix}.{name}" for ours, name in tensor_names(member.decoded()).items()}
        members.append({ours: tensors[name] for ours, name in names.items() if name in tensors})
    return facts, build_checked(facts, members)


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"its weights are over {MAX_BYTES / 2**30:.0f} GiB.")
    return path.read_bytes()


def metadata(data: bytes) -> dict[str, str]:
    """The texts that a safetensors file carries; its library reads them from files only, not from bytes."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= len(data) - 8:
        raise DataError("its weights are no safetensors file, or a part of one.")
    try:
        return msgspec.json.decode(data[8 : 8 + length], type=_Header).metadata
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise DataError("its weights do not say what they belong to, so they are not an export of Genepool.") from None


class _Header(msgspec.Struct):
    metadata: dict[str, str] = msgspec.field(name="__metadata__")
