"""Whether images fit into memory; asked before they are read, since a system kills whoever takes too much."""

from __future__ import annotations

from genepool.errors import DataError
from genepool.machine import available

PART = 2**22
"""Pixels that are looked at or copied at a time, whatever the size of an image."""


def check_room(needed: int, what: str, advice: str) -> None:
    """Refuses what would take more bytes than are free."""
    free = available()
    if free is not None and needed > free:
        raise DataError(
            f"{what} would take {needed / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB are free here; {advice}."
        )


def at_a_time(values: int) -> int:
    """How many images of so many values each."""
    return max(1, PART // values)
