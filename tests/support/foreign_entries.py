"""A corpus of foreign entries: what other programs, a damaged disk or a prankster may leave in a population directory.

Each case is a name and a function that puts the entry into a healthy population.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from genepool.population import DirectoryPopulation, Individual
from genepool.population.directory import names
from genepool.population.directory.log import frame
from genepool.testing import make_birth, make_weights


class Place(NamedTuple):
    """A healthy population and one individual in each state to damage."""

    root: Path
    worker: DirectoryPopulation
    training: Individual
    alive: Individual
    dead: Individual

    @property
    def shard(self) -> Path:
        return self.root / "pop" / "0000"

    def path(self, individual: Individual) -> Path:
        return self.shard / names.encode(individual)


Case = tuple[str, Callable[[Place], object]]
ID, WHO = "1m7gprcwf4f82w8q29cpxnr00", "abcdefgh"
SPOILED = "spoiled"
TRAP = Path(tempfile.gettempdir()) / "genepool-was-tricked"


def cases() -> Iterator[Case]:
    """Yield all cases; their names are unique."""
    yield from _foreign_names()
    yield from _foreign_kinds()
    yield from _empty_individuals()
    yield from _spoiled_records("dna.json", _births())
    yield from _spoiled_records("result.json", _results())
    yield from _spoiled_files()
    yield from _elsewhere()


# Foreign names.


def _foreign_names() -> Iterator[Case]:
    names: list[str | bytes] = [
        ".hidden",
        "...",
        "a",
        "x" * 255,
        "line\nbreak",
        "\x1b[31mred",
        "tab\there",
        " leading",
        "trailing ",
        "trailing.",
        "ünïcödé",
        "日本語",
        "%s%n",
        "$(reboot)",
        "-rf",
        "~",
        "CON",
        "lost+found",
        ".nfs0000000012345",
        "Thumbs.db",
        "core",
        b"\xff\xfe",
        b"A1_\xff",
        b"\xf0\x28\x8c\xbc",
        f"a1_{ID}_1_1-{WHO}_0.5",
        f"A1_{ID}_0_1-{WHO}_0.5",
        f"A1_{ID}_99999999_1-{WHO}_0.5",
        f"A1_{ID}_1_1-{WHO}_nan",
        f"A1_{ID}_1_1-{WHO}_inf",
        f"A1_{ID}_1_1-{WHO}_-inf",
        f"A1_{ID}_1_1-{WHO}_1e999",
        f"A1_{ID}_1_1-{WHO}_0.5.5",
        f"A1_{ID}_1_1-{WHO}_00.5",
        f"A1_{ID}_1_1-{WHO}_0.5 ",
        f"A1_{ID}_1_1-{WHO}_0.5\n",
        f"A1_{ID}_1_1-{WHO}_",
        f"A1_{ID}_1_9-{WHO}_0.5",
        f"A1_{ID}_1_1-{WHO.upper()}_0.5",
        f"A1_{ID.upper()}_1_1-{WHO}_0.5",
        f"A1_{ID[:-1]}_1_1-{WHO}_0.5",
        f"A1_{ID}0_1_1-{WHO}_0.5",
        f"A2_{ID}_1_1-{WHO}_0.5",
        f"A9_{ID}_anything",
        f"T0_{ID}_1_0_{WHO}",
        f"T1_{ID}_1_0_{WHO}_more",
        f"T1_{ID}_1_77_{WHO}",
        f"T1_{ID}_-1_0_{WHO}",
        f"D1_{ID}_1_1-{WHO}_0.5_{WHO}",
        f"D1_{ID}_1_1-{WHO}_0.5_{WHO}-Two Words",
        f"F1_{ID}_1_{WHO}-",
        f"Q1_{ID}",
        f"X1_{ID}_{WHO}_",
        f"t1_{ID}_",
        f"B1_{ID}_{WHO}",
        f"A1_{ID}_1_1-{WHO}_0.5.tmp",
        f"A1_{ID}_1_1-{WHO}_0.5~",
        "A1_",
        "T1_",
        "A1",
    ]
    for number, name in enumerate(names):
        raw = name if isinstance(name, bytes) else name.encode()
        yield f"name-{number}-directory", lambda p, raw=raw: os.mkdir(bytes(p.shard) + b"/" + raw)  # noqa: PTH102
        yield f"name-{number}-file", lambda p, raw=raw: _touch(bytes(p.shard) + b"/" + raw)


def _touch(path: bytes) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


# Valid names of the wrong type of file.


def _foreign_kinds() -> Iterator[Case]:
    kinds: dict[str, Callable[[Path, Path], object]] = {
        "file": lambda path, _: path.write_text("hello"),
        "symlink-to-root": lambda path, _: path.symlink_to("/"),
        "symlink-to-itself": lambda path, _: path.symlink_to(path),
        "symlink-to-nothing": lambda path, _: path.symlink_to("/nowhere/at/all"),
        "symlink-to-another": lambda path, other: path.symlink_to(other),
        "fifo": lambda path, _: os.mkfifo(path),
        "socket": lambda path, _: _socket(path),
    }
    for letter, name in _VALID_NAMES.items():
        for kind, make in kinds.items():
            yield f"{letter}-is-a-{kind}", lambda p, name=name, make=make: make(p.shard / name, p.path(p.alive))


_VALID_NAMES = {
    "T": f"T1_{ID}_1_0_{WHO}",
    "free": f"T1_{ID}_1_0_free0000",
    "A": f"A1_{ID}_1_1-{WHO}_0.99",
    "minus-zero": f"A1_{ID}_1_1-{WHO}_-0.0",
    "D": f"D1_{ID}_1_1-{WHO}_0.5_{WHO}-lost",
    "F": f"F1_{ID}_1_{WHO}-dna",
    "X": f"X1_{ID}_{WHO}",
    "t": f"t1_{ID}_{WHO}",
    "last-claim": f"T1_{ID}_99999_9_free0000",
}


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket has little room
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def _empty_individuals() -> Iterator[Case]:
    for letter, name in _VALID_NAMES.items():
        yield f"{letter}-is-empty", lambda p, name=name: (p.shard / name).mkdir()
        yield (
            f"{letter}-is-deep",
            lambda p, name=name: (p.shard / name / "/".join("deeper" for _ in range(50))).mkdir(parents=True),
        )


# Damaged records.

_GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "a-word": b"hello",
    "half": b'{"id": "',
    "null": b"null",
    "a-list": b"[1, 2, 3]",
    "a-number": b"7",
    "zeros": bytes(4096),
    "nested": b"[" * 1_000_000,
    "nested-and-closed": b'{"dna":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
    "not-utf-8": b'{"id": "\xff\xfe"}',
    "utf-16": '{"id": 1}'.encode("utf-16"),
    "a-pickle": pickle.dumps({"id": 1}),
    "a-byte-order-mark": b"\xef\xbb\xbf{}",
}


def _births() -> dict[str, dict[str, Any]]:
    return {
        "another-id": {"id": ID},
        "id-is-a-path": {"id": "../../../../etc/passwd"},
        "another-experiment": {"experiment": "00000000-0000-4000-8000-00000000beef"},
        "parent-is-itself": {"parents": [SPOILED]},
        "parent-is-a-path": {"parents": ["../../../../../etc"]},
        "parent-is-absolute": {"parents": ["/etc/passwd"]},
        "parents-are-a-word": {"parents": "abc"},
        "parents-are-numbers": {"parents": [1, 2]},
        "hash-is-a-path": {"inherits": ["../../weights"]},
        "hash-is-a-number": {"inherits": [5]},
        "seed-is-huge": {"mutation_seed": 10**40},
        "seed-is-nan": {"mutation_seed": "NaN"},
        "created-is-a-word": {"created": "yesterday"},
        "no-dna": {"dna": None, "delete": ["dna"]},
        "no-seed": {"delete": ["training_seed"]},
        "version-is-a-word": {"settings_version": "new"},
    }


def _results() -> dict[str, dict[str, Any]]:
    return {
        "another-id": {"id": ID},
        "another-attempt": {"attempt": f"9-{WHO}"},
        "another-fitness": {"fitness": 0.123},
        "fitness-is-a-word": {"fitness": "best"},
        "fitness-is-null": {"fitness": None},
        "fitness-is-huge": {"fitness": 10**400},
        "file-is-a-path": {"files": {"../../../dna.json": {"sha256": "0" * 64, "size": 1}}},
        "file-is-absolute": {"files": {"/etc/passwd": {"sha256": "0" * 64, "size": 1}}},
        "file-without-hash": {"files": {"weights.safetensors": {"size": 1}}},
        "hash-is-short": {"files": {"weights.safetensors": {"sha256": "00", "size": 1}}},
        "files-are-a-list": {"files": [1]},
        "metrics-are-a-list": {"metrics": [1]},
        "metrics-are-nested": {"metrics": "nested"},
        "no-files": {"delete": ["files"]},
        "file-is-missing": {"files": {"other.bin": {"sha256": "0" * 64, "size": 1}}},
    }


def _spoiled_records(name: str, changes: dict[str, dict[str, Any]]) -> Iterator[Case]:
    for what, garbage in _GARBAGE.items():
        yield f"{name}-is-{what}", lambda p, garbage=garbage: _record(p, name).write_bytes(garbage)
    for what, change in changes.items():
        yield f"{name}-{what}", lambda p, change=change: _change(_record(p, name), change, p.alive.id)
    yield f"{name}-is-missing", lambda p: _record(p, name).unlink()
    yield f"{name}-is-a-directory", lambda p: _replace(_record(p, name), lambda path: path.mkdir())
    yield f"{name}-is-a-fifo", lambda p: _replace(_record(p, name), os.mkfifo)
    yield f"{name}-is-dev-zero", lambda p: _replace(_record(p, name), lambda path: path.symlink_to("/dev/zero"))
    yield f"{name}-is-a-gigabyte", lambda p: os.truncate(_record(p, name), 1 << 30)


def _record(place: Place, name: str) -> Path:
    return place.path(place.alive) / name if name == names.BIRTH else _of_attempt(place, place.alive, name)


def _change(path: Path, change: dict[str, Any], identity: str) -> None:
    document = msgspec.json.decode(path.read_bytes())
    for key in change.get("delete", ()):
        del document[key]
    document.update({key: value for key, value in change.items() if key != "delete"})
    if document.get("parents") == [SPOILED]:
        document["parents"] = [identity]
    text = json.dumps(document)  # msgspec refuses integers of more than 64 bits, which is what some cases are about
    path.write_text(text.replace('"nested"', "[" * 100_000 + "]" * 100_000))


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


# Files of an attempt.


class _Bomb:
    """Unpickling this would create a file."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (TRAP,)


def _spoiled_files() -> Iterator[Case]:
    weights: dict[str, bytes] = {
        "empty": b"",
        "truncated": make_weights()[:-1],
        "longer": make_weights() + b"x",
        "flipped": bytes([make_weights()[0] ^ 1]) + make_weights()[1:],
        "a-pickle": pickle.dumps(_Bomb()),
        "a-huge-header": (1 << 62).to_bytes(8, "little") + b"{}",
        "a-zip": b"PK\x03\x04" + bytes(100),
    }
    for what, data in weights.items():
        yield f"weights-{what}", lambda p, data=data: _weights(p).write_bytes(data)
        yield (
            f"inherited-{what}",
            lambda p, data=data: _replace(
                p.path(p.training) / names.inherited_name(0), lambda path, data=data: path.write_bytes(data)
            ),
        )
    yield "weights-missing", lambda p: _weights(p).unlink()
    yield "weights-a-fifo", lambda p: _replace(_weights(p), os.mkfifo)
    yield "weights-a-directory", lambda p: _replace(_weights(p), lambda path: path.mkdir())
    yield "inherited-missing", lambda p: (p.path(p.training) / names.inherited_name(0)).unlink()
    yield "attempt-missing", _lose_the_attempt
    future = f"99999-{WHO}"
    for part in (names.RESULT, names.WEIGHTS, names.NEW, names.checkpoint_name(9, "0" * 64)):
        name = names.of_attempt(future, part)
        yield f"{part[:10]}-of-the-future", lambda p, name=name: (p.path(p.training) / name).write_bytes(b"{}")
        yield f"{part[:10]}-of-the-future-a-directory", lambda p, name=name: (p.path(p.training) / name).mkdir()
    for step in ("9" * 13, "007"):
        name = names.of_attempt(future, f"checkpoint-{step}-{'0' * 32}.safetensors")
        yield f"checkpoint-of-step-{step}", lambda p, name=name: (p.path(p.training) / name).write_bytes(b"x")
    yield "attempt-as-a-directory", lambda p: (p.path(p.training) / f"r1-{WHO}").mkdir()
    yield "checkpoint-with-a-wrong-hash", _false_checkpoint
    yield "foreign-file-inside", lambda p: (p.path(p.alive) / "notes.txt").write_text("mine")
    yield "symlink-inside-the-dead", lambda p: (p.path(p.dead) / "home").symlink_to(p.path(p.alive))
    yield (
        "duplicate-id",
        lambda p: shutil.copytree(p.path(p.alive), p.shard / names.encode(p.alive).replace("_1_", "_2_", 1)),
    )


def _weights(place: Place) -> Path:
    return _of_attempt(place, place.alive, names.WEIGHTS)


def _of_attempt(place: Place, individual: Individual, part: str) -> Path:
    return place.path(individual) / names.of_attempt(individual.attempt, part)


def _false_checkpoint(place: Place) -> None:
    _of_attempt(place, place.training, names.checkpoint_name(10**6, "0" * 64)).write_bytes(b"not that")


def _lose_the_attempt(place: Place) -> None:
    for part in (names.WEIGHTS, names.RESULT):
        _of_attempt(place, place.alive, part).rename(place.path(place.alive) / f"gone-{part}")


# The rest of the experiment's directory.


def _elsewhere() -> Iterator[Case]:
    def worker_of(place: Place) -> Path:
        foreign = place.root / "workers" / WHO
        foreign.mkdir()
        return foreign

    yield "file-in-root", lambda p: (p.root / "notes.txt").write_text("mine")
    yield "file-in-pop", lambda p: (p.root / "pop" / "notes.txt").write_text("mine")
    yield "directory-in-pop", lambda p: (p.root / "pop" / "ffff").mkdir()
    yield "file-in-workers", lambda p: (p.root / "workers" / "notes.txt").write_text("mine")
    yield "empty-worker", worker_of
    yield "heartbeat-is-a-directory", lambda p: (worker_of(p) / "heartbeat").mkdir()
    yield "heartbeat-is-a-fifo", lambda p: os.mkfifo(worker_of(p) / "heartbeat")
    yield "heartbeat-is-huge", lambda p: (worker_of(p) / "heartbeat").write_bytes(bytes(1 << 20))
    yield "archive-is-garbage", lambda p: (worker_of(p) / "archive.log").write_bytes(os.urandom(10_000))
    yield "archive-is-a-directory", lambda p: (worker_of(p) / "archive.log").mkdir()
    yield "archive-is-a-fifo", lambda p: os.mkfifo(worker_of(p) / "archive.log")
    yield "archive-is-nested", lambda p: (worker_of(p) / "archive.log").write_bytes(frame(b"[" * 1_000_000))
    yield "archive-is-no-fossil", lambda p: (worker_of(p) / "archive.log").write_bytes(frame(b'{"a":1}'))
    yield "events-are-garbage", lambda p: (worker_of(p) / "events.log").write_bytes(frame(b'{"a":1}') + b"\xff\n")
    yield "config-is-garbage", lambda p: (p.root / "config" / "000009.json").write_text("{")
    yield "config-is-a-directory", lambda p: (p.root / "config" / "000009.json").mkdir()
    yield "reserve-is-a-directory", lambda p: _replace(p.root / "reserve", lambda path: path.mkdir())


def healthy(root: Path, worker: DirectoryPopulation) -> Place:
    """Create the population that the entries are added to."""
    files = {names.WEIGHTS: make_weights()}
    parent = worker.finish(worker.create(make_birth(1)), fitness=0.4, files=files)
    alive = worker.finish(worker.create(make_birth(2)), fitness=0.5, files=files)
    dead = worker.kill(worker.finish(worker.create(make_birth(3)), fitness=0.1, files=files))
    training = worker.create(make_birth(4, parents=(parent,)), parents=(parent,))
    return Place(root, worker, training, alive, dead)
