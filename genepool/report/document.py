"""A report before it is a page or a text: titles, sentences, tables, figures. Both forms are made from this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Text(NamedTuple):
    """A paragraph."""

    words: str


class Table(NamedTuple):
    """The first column is flush left, the others flush right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Picture(NamedTuple):
    """A figure by the stem of its files' names."""

    name: str
    caption: str


class Section(NamedTuple):
    """A title and what stands under it."""

    title: str
    blocks: Sequence[Text | Table | Picture]


class Document(NamedTuple):
    """The whole."""

    title: str
    sections: Sequence[Section]
