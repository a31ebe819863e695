"""How much memory is free on this machine, and whether images fit into it.

How much memory is free on this machine.

Whether images fit into memory; asked before they are read, since a system kills whoever takes too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from genepool.errors import DataError

NO_LIMIT = 2**60
"""Control groups of version 1 say so by a number of about this size."""


def available(root: Path = Path("/")) -> int | None:
    """Bytes that can be taken without swapping: of the machine, and of each control group around this process.

    None where the system does not tell. A container sees the whole machine's figures, but is killed at its group's.
    """
    return min([*_of_machine(root), *_of_groups(root)], default=None)


def _of_machine(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _of_groups(root: Path) -> Iterator[int]:
    """Of the process's own group and those around it; a container may not see the path, but sees the mount."""
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        mount, limit, usage, old = (
            ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
            if not kinds
            else ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        )
        if kinds and "memory" not in kinds.split(","):
            continue
        place = Path(path.strip("/"))
        for group in (place, *place.parents):
            folder = root / mount / group
            most, used = _number(folder / limit), _number(folder / usage)
            if most is not None and used is not None and most < NO_LIMIT:
                yield max(0, most - used + _figure(folder / "memory.stat", old))


def _figure(path: Path, name: str) -> int:
    """Of a file of names and numbers; files that were read once are counted as used, but given up when asked for."""
    return next((int(line.split()[1]) for line in _lines(path) if line.split()[:1] == [name]), 0)


def _number(path: Path) -> int | None:
    """The number in a file; None for a missing one, and for the word `max`."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


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
