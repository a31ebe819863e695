"""How much memory there is for workers on this machine, and what each of several may take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from genepool.errors import SettingsError

RESERVE = 512 * 2**20
"""Bytes that are left to everything else: the launcher, the system, files that are read again and again."""
NO_LIMIT = 2**60
"""Control groups of version 1 say so by a number of about this size."""


def available(root: Path = Path("/")) -> int | None:
    """Bytes that can be taken without swapping: of the machine, and of each control group around this process.

    None where the system does not tell. A container sees the whole machine's figures, but is killed at its group's.
    """
    return min([*_of_machine(root), *_of_groups(root)], default=None)


def share(free: int, workers: int) -> int:
    """What each of so many workers may take."""
    return max(0, free - RESERVE) // workers


def allowance(asked: int | None, free: int | None, workers: int, needed: int) -> int | None:
    """Bytes that each of so many workers may take: what is asked for, or its share of what is free.

    Refuses where not even a worker without a network would fit, which needs so many bytes, and where all together would
    pass what is free. None where nothing was asked for and the system does not tell.
    """
    if asked is not None and asked < needed:
        raise SettingsError(f"A worker alone takes {_gib(needed)}; {_gib(asked)} are too little for one that trains.")
    if free is None:
        return asked
    part = share(free, workers)
    if max(asked or 0, needed) > part:
        most = share(free, 1) // max(asked or 0, needed)
        raise SettingsError(
            f"{workers} workers of at least {_gib(asked or needed)} do not fit into the {_gib(free)} of memory that "
            f"are free here, of which {_gib(RESERVE)} stay for the system; {_advice(most)}."
        )
    return part if asked is None else asked


def _advice(most: int) -> str:
    return f"use at most {most} workers, or give each less with --memory" if most else "free some memory"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


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
