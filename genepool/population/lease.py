"""Leases by observation: who trains what, and since when nothing was heard of whom.

A lease is a hint, not a lock: it only says when a takeover is worth trying; the rename decides. No wall clock is ever
compared with another: an observer measures, on its own monotonic clock, for how long a beat has not *changed*, and
counts only the time during which its own beats got through. Otherwise the first client to recover from a server's
outage would take everything over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

BEATS_A_LEASE = 20
"""Beats are written at most so often; five lost ones and two caches of a minute fit into the default lease."""


class Pulse:
    """A worker's own beats: when the next is due, and since when they have got through on time."""

    def __init__(self, lease: float, now: float) -> None:
        self._lease = lease
        self._last = now
        self._steady_since = now
        self._said: tuple[str, int] | None = None
        self._count = 0

    def due(self, phase: str, step: int, now: float) -> bytes | None:
        """The beat to write now, or None: too early, or no progress since the last (a hung trainer must look hung)."""
        if (phase, step) == self._said or (self._count and now - self._last < self._lease / BEATS_A_LEASE):
            return None
        self._said = (phase, step)
        self._count += 1
        return f"{self._count} {phase} {step}".encode("ascii", "replace")[:63].ljust(63) + b"\n"

    def written(self, now: float) -> None:
        """The beat got through; a late one begins a new steady time."""
        if now - self._last > self._lease / 2:
            self._steady_since = now
        self._last = now

    def steady_for(self, now: float) -> float:
        """For how long, up to now, beats have got through on time; 0 while one is late."""
        return now - self._steady_since if now - self._last <= self._lease / 2 else 0.0


class Watch:
    """What an observer knows about the beats of others."""

    def __init__(self, read: Callable[[str], bytes], lease: float) -> None:
        self._read = read
        self._lease = lease
        self._seen: dict[str, _Sighting] = {}

    def unchanged_for(self, who: str, now: float) -> float:
        """For how long the same beat has been seen; 0 at the first look and after every change.

        Looks at most as often as beats are written, except that nobody is called silent without another look.
        """
        known = self._seen.get(who)
        if known and now - known.looked < self._lease / BEATS_A_LEASE and now - known.since < self._lease:
            return now - known.since
        value = self._read(who)
        since = known.since if known and known.value == value else now
        self._seen[who] = _Sighting(value, since, now)
        return now - since

    def forget_others(self, owners: set[str]) -> None:
        """Keeps only those who still own something, so that a long run does not remember every dead worker."""
        self._seen = {who: seen for who, seen in self._seen.items() if who in owners}


class _Sighting(NamedTuple):
    value: bytes
    since: float
    looked: float
