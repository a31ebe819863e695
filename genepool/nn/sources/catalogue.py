"""One line of the catalogue of data sets that are chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from genepool.nn.sources.base import Source
from genepool.nn.sources.download import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is known of a data set before a byte of it is read, and how to open it.

    A package that brings a data set of its own registers one of these under the entry point group `genepool.datasets`.
    """

    name: str
    train: int
    """Images for training."""
    validation: int
    test: int
    height: int
    width: int
    channels: int
    classes: int
    licence: str
    open: Callable[[Path | None, Progress | None], Source]
    """Opens it, from that data folder if it is there; may download."""
    find: Callable[[Path | None], Path | None] | None = None
    """Where it is on this machine, or None; a listing without `find` is shipped with its package."""
    fetch: Callable[[Progress | None], Path] | None = None
    """Downloads it and says where to."""
