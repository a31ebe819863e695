"""DNA as JSON: versioned, canonical (each DNA has one form) and readable."""

from __future__ import annotations

from pathlib import Path

import msgspec

from genepool.dna.elements import Conv, Identity, Vertex
from genepool.dna.graph import DNA
from genepool.errors import InvalidDNAError, shown

VERSION = 1
MAX_BYTES = 16 * 2**20


class _Version(msgspec.Struct):
    version: int


class _Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    learning_rate: float
    vertices: tuple[Vertex, ...]
    edges: tuple[Conv | Identity, ...]
    odds: dict[str, float] = {}
    """Omitted unless the odds evolve."""


_documents = msgspec.json.Decoder(_Document)
_versions = msgspec.json.Decoder(_Version)


def encode(dna: DNA) -> str:
    return msgspec.json.format(encode_in_a_line(dna), indent=2).decode()


def encode_in_a_line(dna: DNA) -> bytes:
    facts = msgspec.structs.asdict(dna) | {"odds": dict(dna.odds)}
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
    return DNA(learning_rate=document.learning_rate, vertices=vertices, edges=edges, odds=odds)


def _read_document(text: str | bytes) -> _Document:
    try:
        document = _documents.decode(text)
        version = document.version
    except msgspec.MsgspecError:
        # A newer release may write a different form; its version makes the better message.
        version = _versions.decode(text).version
        if version == VERSION:
            raise
    if version != VERSION:
        raise InvalidDNAError(f"it has version {version}, but this release of Genepool reads version {VERSION}.")
    return document


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
