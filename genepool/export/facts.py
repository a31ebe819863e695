"""The metadata of a model file: enough to use it, to judge it and to rebuild its networks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import msgspec
from torch import Tensor

from genepool.dna import DNA, Requirements, Shape, codec, requirements
from genepool.errors import DataError, GenepoolError, MissingLayerError, shown

FORMAT = 1
MAX_MEMORY = 8 * 2**30  # the most bytes that a network from a file may need for one image
MAX_CLASSES = 1_000_000


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    mutations: tuple[str, ...]
    """Empty for the first network."""
    fitness: float | None
    accuracy: float | None = None


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One network. A model has one, or several whose probabilities are averaged."""

    id: str
    network: str
    """The architecture in one line."""
    fitness: float
    """What evolution selected by."""
    accuracy: float | None = None
    """The validation accuracy that evolution measured; None in old files, where it equals the fitness."""
    parameters: int
    flops: int
    """FLOPs per image."""
    dna: str
    lineage: tuple[Ancestor, ...]

    def decoded(self) -> DNA:
        return codec.decode(self.dna)


class Search(msgspec.Struct, frozen=True, kw_only=True):
    individuals: int
    flops: int
    seconds: float


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a model. The keys of their JSON form are in docs/reference/json.md."""

    name: str
    data: str
    classes: tuple[str, ...]
    height: int
    width: int
    channels: int
    """1 (grey) or 3 (red, green, blue)."""
    mean: tuple[float, ...]
    """The mean of each channel on the scale 0..1; the network subtracts it and divides by `std`."""
    std: tuple[float, ...]
    validation_accuracy: float | None = None
    test_accuracy: float | None = None
    """None if it was not measured."""
    members: tuple[Member, ...]
    search: Search
    digest: str = ""
    """SHA-256 of the weights: see `digest_of`."""
    format: int = FORMAT

    @property
    def image(self) -> Shape:
        return Shape(self.height, self.width, self.channels)

    @property
    def parameters(self) -> int:
        return sum(member.parameters for member in self.members)

    @property
    def flops(self) -> int:
        """FLOPs per image."""
        return sum(member.flops for member in self.members)

    def requirements(self) -> list[Requirements]:
        return [requirements(member.decoded(), self.image, len(self.classes), 1) for member in self.members]


def to_json(facts: Facts) -> str:
    return msgspec.json.format(msgspec.json.encode(facts), indent=2).decode()


def from_json(text: str | bytes) -> Facts:
    """Decode facts and check that their networks fit into bounded memory."""
    try:
        return _checked(msgspec.json.decode(text, type=Facts))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise DataError(f"its metadata cannot be read ({shown(str(error))}).") from None


def to_properties(facts: Facts) -> dict[str, str]:
    """Encode facts as pairs of strings: strings as they are, other values as JSON."""
    values = msgspec.to_builtins(facts)
    return {k: v if isinstance(v, str) else msgspec.json.encode(v).decode() for k, v in values.items()}


def from_properties(properties: Mapping[str, str]) -> Facts:
    """Decode what `to_properties` made; unknown pairs are ignored."""
    given = [(field, properties[field.name]) for field in msgspec.structs.fields(Facts) if field.name in properties]
    try:
        values = {field.name: text if field.type is str else msgspec.json.decode(text) for field, text in given}
        return _checked(msgspec.convert(values, Facts))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise DataError(f"its metadata cannot be read ({shown(str(error))}).") from None


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 over names, shapes and numbers, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.view(-1).numpy().data.cast("B"))
    return digest.hexdigest()


def _checked(facts: Facts) -> Facts:
    if facts.format != FORMAT:
        raise DataError(f"it has format {facts.format}, but this version of Genepool reads format {FORMAT}.")
    fits = len(facts.mean) == len(facts.std) == facts.channels and facts.channels in (1, 3)
    if not fits or not all(map(math.isfinite, (*facts.mean, *facts.std))) or not all(s > 0 for s in facts.std):
        raise DataError("its channels, mean and std do not match.")
    if min(facts.height, facts.width) < 1 or not 1 <= len(facts.classes) <= MAX_CLASSES or not facts.members:
        raise DataError("it has no valid image size, no classes or no network.")
    try:
        needed = max(needs.memory for needs in facts.requirements())
    except MissingLayerError as error:
        raise DataError(str(error).replace("The", "the", 1)) from None
    except GenepoolError as error:
        raise DataError(f"its DNA cannot be used: {error}") from None
    if needed > MAX_MEMORY:
        raise DataError(f"its network would need about {needed / 2**30:.0f} GiB for a single image.")
    return facts
