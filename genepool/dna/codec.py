"""DNA as JSON: versioned, canonical (each DNA has one form) and readable."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Union

import msgspec

from genepool.dna.graph import DNA
from genepool.errors import InvalidDNAError, shown
from genepool.layers import LAYERS, Edge, Layer, MissingEdge, MissingVertex, Vertex, with_placeholders, written

VERSION = 1
MAX_BYTES = 16 * 2**20


class _Version(msgspec.Struct):
    version: int


class _Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    learning_rate: float
    vertices: tuple[Any, ...]
    edges: tuple[Any, ...]
    odds: dict[str, float] = {}
    """Omitted unless the odds evolve."""
    body_rate: float = 1.0
    """Omitted if it is 1."""


_versions = msgspec.json.Decoder(_Version)


@cache
def _form(kinds: tuple[str, ...], *placeholders: type[Layer]) -> type[_Document]:
    """The form of a document that may contain layers of these kinds, and placeholders."""
    known: list[Any] = [*(LAYERS.loaded[name] for name in kinds), *placeholders]
    vertices: Any = Union[tuple(kind for kind in known if issubclass(kind, Vertex))]  # noqa: UP007
    edges: Any = Union[tuple(kind for kind in known if issubclass(kind, Edge))]  # noqa: UP007
    fields: list[Any] = [("vertices", tuple[vertices, ...]), ("edges", tuple[edges, ...])]
    form: Any = msgspec.defstruct(
        "KnownDocument", fields, bases=(_Document,), kw_only=True, forbid_unknown_fields=True, omit_defaults=True
    )
    return form  # type: ignore[no-any-return]


@cache
def _decoder(kinds: tuple[str, ...]) -> msgspec.json.Decoder[_Document]:
    return msgspec.json.Decoder(_form(kinds))


def encode(dna: DNA) -> str:
    return msgspec.json.format(encode_in_a_line(dna), indent=2).decode()


def encode_in_a_line(dna: DNA) -> bytes:
    facts = msgspec.structs.asdict(dna) | {"odds": dict(dna.odds)}
    if dna.body_rate == 1.0:
        del facts["body_rate"]  # msgspec omits a default only if it is the same object
    if dna.missing_kinds:
        facts |= {"vertices": tuple(map(written, dna.vertices)), "edges": tuple(map(written, dna.edges))}
    return msgspec.json.encode(_Document(version=VERSION, **facts))


def decode(text: str | bytes) -> DNA:
    """Decode a DNA; raise InvalidDNAError if anything is wrong with it."""
    if len(text) > MAX_BYTES:
        raise InvalidDNAError(f"{len(text)} bytes are too many for a DNA (the limit is {MAX_BYTES}).")
    try:
        document = _read_document(text)
    except RecursionError:
        raise InvalidDNAError("it is nested too deeply to be a DNA.") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidDNAError(f"it is not a DNA in JSON: {shown(str(error))}.") from None
    vertices, edges, odds = document.vertices, document.edges, tuple(document.odds.items())
    rates = {"learning_rate": document.learning_rate, "body_rate": document.body_rate}
    return DNA(vertices=vertices, edges=edges, odds=odds, **rates)


def _read_document(text: str | bytes) -> _Document:
    try:
        document = _decoder(tuple(LAYERS.loaded)).decode(text)
        version = document.version
    except msgspec.MsgspecError:
        # A newer release may write a different form; its version makes the better message.
        version = _versions.decode(text).version
        if version == VERSION:
            return _read_with_placeholders(text)
    if version != VERSION:
        raise InvalidDNAError(f"it has version {version}, but this release of Genepool reads version {VERSION}.")
    return document


def _read_with_placeholders(text: str | bytes) -> _Document:
    """Read a document that may contain layers of kinds that this process lacks."""
    document = with_placeholders(msgspec.json.decode(text, type=dict[str, Any]))
    # Looking a kind up may have loaded a plugin, so the form is made only now.
    return msgspec.convert(document, _form(tuple(LAYERS.loaded), MissingEdge, MissingVertex))


def read(path: Path) -> DNA:
    """Read the DNA in a file; errors name the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidDNAError(f"The DNA file '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    try:
        return decode(text)
    except InvalidDNAError as error:
        raise InvalidDNAError(f"The DNA file '{shown(path)}' is not valid: {error}") from None
