"""DNA to JSON and back. The JSON is versioned, canonical (one DNA, one text) and readable by eye."""

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
    """Only where they evolve, so that other DNAs read as ever."""


_documents = msgspec.json.Decoder(_Document)
_versions = msgspec.json.Decoder(_Version)


def encode(dna: DNA) -> str:
    """The DNA as JSON text."""
    return msgspec.json.format(encode_in_a_line(dna), indent=2).decode()


def encode_in_a_line(dna: DNA) -> bytes:
    """The same for programs: the shortest form."""
    document = _Document(
        version=VERSION, learning_rate=dna.learning_rate, vertices=dna.vertices, edges=dna.edges, odds=dict(dna.odds)
    )
    return msgspec.json.encode(document)


def decode(text: str | bytes) -> DNA:
    """The DNA that the JSON text describes; anything wrong with it is an InvalidDNAError."""
    if len(text) > MAX_BYTES:
        raise InvalidDNAError(f"{len(text)} bytes are too many for a DNA (at most {MAX_BYTES}).")
    try:
        document = _read_document(text)
    except RecursionError:
        raise InvalidDNAError("it is nested too deeply to be a DNA.") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidDNAError(f"it is not a DNA in JSON: {shown(str(error))}.") from None
    return DNA(
        learning_rate=document.learning_rate,
        vertices=document.vertices,
        edges=document.edges,
        odds=tuple(document.odds.items()),
    )


def _read_document(text: str | bytes) -> _Document:
    try:
        document = _documents.decode(text)
        version = document.version
    except msgspec.MsgspecError:
        # What a newer release writes may have another form altogether: the version is the better message.
        version = _versions.decode(text).version
        if version == VERSION:
            raise
    if version != VERSION:
        raise InvalidDNAError(f"it is of version {version}, and this release of Genepool reads version {VERSION}.")
    return document


def read(path: Path) -> DNA:
    """The DNA in a file; the message of an error names the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidDNAError(f"The DNA file '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    try:
        return decode(text)
    except InvalidDNAError as error:
        raise InvalidDNAError(f"The DNA file '{shown(path)}' is not valid: {error}") from None
