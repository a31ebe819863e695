"""The free memory of this machine, and whether images fit into it: the system kills processes that take too much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from genepool.errors import DataError

NO_LIMIT = 2**60  # version 1 control groups without a limit report a number of about this size


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes free in the machine and all control groups (whose limits kill processes); None if unknown."""
    machine = _figure(root / "proc/meminfo", "MemAvailable:")
    return min([*([] if machine is None else [machine * 1024]), *_of_groups(root)], default=None)


def _of_groups(root: Path) -> Iterator[int]:
    """Yield the figures of the process's own group and its parents; a container may not see the path but the mount."""
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
                # Cached file pages count as used but are reclaimed on demand.
                yield max(0, most - used + (_figure(folder / "memory.stat", old) or 0))


def _figure(path: Path, name: str) -> int | None:
    return next((int(line.split()[1]) for line in _lines(path) if line.split()[:1] == [name]), None)


def _number(path: Path) -> int | None:
    """Return the number in a file; None if it is missing or says `max`."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


PART = 2**22  # pixels processed at a time


def check_room(needed: int, what: str, advice: str) -> None:
    free = available_memory()
    if free is not None and needed > free:
        raise DataError(
            f"{what} would take {needed / 1e9:.1f} GB of memory, but only {free / 1e9:.1f} GB are free; {advice}."
        )


def at_a_time(values: int) -> int:
    """Return the number of images, with that many values each, to process at a time."""
    return max(1, PART // values)
