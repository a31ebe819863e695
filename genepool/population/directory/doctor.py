"""Probes whether a file system is suitable for a population.

safe      the file system kept every promise that the protocol needs
slow      safe, but listings miss changes or links are missing, so that races are lost or copies are made
refused   a promise was broken; individuals would be lost here
"""

from __future__ import annotations

import contextlib
import errno
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from genepool.population.directory.files import Files

Verdict = Literal["safe", "slow", "refused"]
ROUNDS = 1_000
_LONGEST_NAME = 120
_LITTLE_SPACE = 1 << 30
_FULL_SHARD = 200


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    probe: str
    verdict: Verdict
    text: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    findings: list[Finding]


def examine(path: str | Path, *, files: Files | None = None, rounds: int = ROUNDS) -> Diagnosis:
    """Probe the file system of a directory; leave nothing behind."""
    files = files or Files()
    place = f"{path}/probe-{files.urandom(8).hex()}"
    files.mkdir(place)
    try:
        findings = list(_findings(files, place, rounds))
    finally:
        with contextlib.suppress(OSError):
            files.remove_tree(place)
    order = ("refused", "slow", "safe")
    return Diagnosis(verdict=min((finding.verdict for finding in findings), key=order.index), findings=findings)


def _findings(files: Files, place: str, rounds: int) -> Iterator[Finding]:
    probes: list[tuple[str, Callable[[Files, str], None], Verdict]] = [
        ("rename", _probe_rename, "refused"),
        ("exclusive create", _probe_exclusive, "refused"),
        ("names", _probe_names, "refused"),
        ("directory sync", _probe_sync, "slow"),
        ("hard links", _probe_link, "slow"),
        ("space", _probe_space, "slow"),
        ("listing", _probe_listing, "slow"),
        ("race", lambda files, place: _probe_race(files, place, rounds), "refused"),
    ]
    for number, (name, probe, worst) in enumerate(probes):
        here = f"{place}/{number}"
        files.mkdir(here)
        try:
            probe(files, here)
        except (OSError, _Broken) as error:
            yield Finding(probe=name, verdict=worst, text=str(error))
        else:
            yield Finding(probe=name, verdict="safe", text="as expected")


class _Broken(Exception):  # noqa: N818 - the negative result of a probe
    pass


def _expect(condition: bool, text: str) -> None:
    if not condition:
        raise _Broken(text)


def _probe_rename(files: Files, place: str) -> None:
    files.mkdir(f"{place}/a")
    files.save(f"{place}/a/file", b"contents")
    files.rename(f"{place}/a", f"{place}/b")
    _expect(sorted(files.list(place)) == ["b"], "a renamed directory is listed under a wrong name")
    _expect(files.load(f"{place}/b/file", 100) == b"contents", "a renamed directory lost its contents")
    files.mkdir(f"{place}/c")
    files.save(f"{place}/c/file", b"other")
    try:
        files.rename(f"{place}/c", f"{place}/b")
    except OSError:
        return
    raise _Broken("a rename replaced a directory that was not empty")


def _probe_exclusive(files: Files, place: str) -> None:
    files.save(f"{place}/file", b"first")
    with contextlib.suppress(FileExistsError):
        files.save(f"{place}/file", b"second")
        raise _Broken("an exclusive create opened an existing file")
    files.mkdir(f"{place}/directory")
    with contextlib.suppress(FileExistsError):
        files.mkdir(f"{place}/directory")
        raise _Broken("a directory was created twice")


def _probe_names(files: Files, place: str) -> None:
    files.mkdir(f"{place}/{'n' * _LONGEST_NAME}")
    files.mkdir(f"{place}/t1")
    try:
        files.mkdir(f"{place}/T1")
    except FileExistsError:
        raise _Broken("names are not case-sensitive here, but the case of a letter distinguishes states") from None


def _probe_sync(files: Files, place: str) -> None:
    try:
        files.fsync_dir(place)
    except OSError as error:
        raise _Broken(f"directories cannot be synced ({error}); a power loss may undo the latest steps") from error


def _probe_link(files: Files, place: str) -> None:
    files.save(f"{place}/file", b"contents")
    try:
        files.link(f"{place}/file", f"{place}/other")
    except OSError as error:
        raise _Broken(f"no hard links ({errno.errorcode.get(error.errno or 0)}); weights are copied instead") from error


def _probe_space(files: Files, place: str) -> None:
    free = files.free_bytes(place)
    _expect(free >= _LITTLE_SPACE, f"only {free >> 20} MB are free; archiving will stop first")


def _probe_race(files: Files, place: str, rounds: int) -> None:
    """Two processes rename the same directories to names of their own: exactly one may win each."""
    for number in range(rounds):
        files.mkdir(f"{place}/{number}")
    racers = [_second_process(place, name, rounds) for name in ("one", "two")]
    wins = [set(racer.communicate(timeout=120)[0].split()) for racer in racers]
    _expect(all(racer.returncode == 0 for racer in racers), "a racing process failed")
    _expect(not wins[0] & wins[1], "two processes won the same rename")
    _expect(len(wins[0] | wins[1]) == rounds, "a rename was won by neither process")
    _expect(len(files.list(place)) == rounds, "directories disappeared during the race")


def _probe_listing(files: Files, place: str) -> None:
    """While another process renames, every listing of a full shard must show every entry."""
    for number in range(_FULL_SHARD):
        files.mkdir(f"{place}/{number}-a")
    renamer = _second_process(place, "rename", _FULL_SHARD)
    listings = incomplete = 0
    while renamer.poll() is None:
        listings += 1
        incomplete += len({name.partition("-")[0] for name in files.list(place)}) < _FULL_SHARD
    renamer.communicate()
    _expect(not incomplete, f"{incomplete} of {listings} listings missed entries that were being renamed")


def _second_process(place: str, name: str, rounds: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "genepool.population.directory.doctor", place, name, str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def _rename_repeatedly(place: str, entries: int) -> None:
    files, end = Files(), time.monotonic() + 1.0
    while time.monotonic() < end:
        for old, new in ("ab", "ba"):
            for number in range(entries):
                files.rename(f"{place}/{number}-{old}", f"{place}/{number}-{new}")


def _race(place: str, name: str, rounds: int) -> list[str]:
    files, won = Files(), []
    # Both start at the same second, or the first process would win every round.
    start = time.time() // 1 + 1
    time.sleep(max(0.0, start - time.time()))
    for number in range(rounds):
        with contextlib.suppress(FileNotFoundError):
            files.rename(f"{place}/{number}", f"{place}/{number}-{name}")
            won.append(str(number))
    return won


if __name__ == "__main__" and sys.argv[2] == "rename":
    _rename_repeatedly(sys.argv[1], int(sys.argv[3]))
elif __name__ == "__main__":
    sys.stdout.write(" ".join(_race(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
