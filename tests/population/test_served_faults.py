"""The store's fault loops and seeded histories again, with every worker behind a file server.

What may go wrong on the disk goes wrong as before; besides, answers get lost, before or after the call was done.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from genepool.population import AnswerLost, Files, FileServer, ServedFiles
from tests.population.test_faults import OPERATIONS, Meddler, World, run
from tests.population.test_simulation import plan_of
from tests.support.store_simulation import ROOT, Simulation

LOST = ("lost-before", "lost-after")
SEEDS = 24


def through(files: Files, root: str, *, carry: Any = None, rng: random.Random) -> Files:
    """The files of a worker behind a server; `carry` may lose a message."""
    server = FileServer(root, files)
    send = server.do if carry is None else lambda *message: carry("", message, server.do)
    durability = "safe" if files.safe else "fast"
    return ServedFiles(send, durability=durability, monotonic=files.monotonic, wall=files.wall, urandom=rng.randbytes)


class MessageLoser(Meddler):
    """Loses answers, whatever the message."""

    def _applies(self, name: str) -> bool:
        return self.fault in LOST or super()._applies(name)

    def _fail(self, name: str, arguments: tuple[Any, ...], call: Callable[..., Any]) -> Any:
        if self.fault not in LOST:
            return super()._fail(name, arguments, call)
        if self.fault == "lost-after":
            call(*arguments)
        raise AnswerLost


class ServedWorld(World):
    """A world in which all workers are behind a server."""

    meddlers = MessageLoser

    def client(self, meddle: Any = None) -> Files:
        loses = meddle is not None and meddle.fault in LOST
        files = super().client(None if loses else meddle)
        return through(files, ROOT, carry=meddle if loses else None, rng=self.rng)


ALIKE = [pytest.param(fault, marks=pytest.mark.thorough) for fault in ("EIO", "crash-after")]
"""What the store without a server is tested with as well."""


@pytest.mark.parametrize("fault", [*LOST, "ENOSPC", "done-but-failed", *ALIKE])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_nth_call_or_its_answer_is_lost(operation: str, fault: str) -> None:
    number = 1
    while run(operation, fault, number, persistent=False, kind=ServedWorld):
        number += 1
    assert number < 200
    assert number > 1 or fault not in LOST  # every operation sends a message


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_from_the_nth_on_is_lost(operation: str) -> None:
    number = 1
    while run(operation, "lost-after", number, persistent=True, kind=ServedWorld):
        number += 1
    assert 1 < number < 200


class ServedSimulation(Simulation):
    """Histories in which every worker is behind a server that also serves the others."""

    def client(self, meddle: Any = None, stale: float = 0.0, number: int = 0) -> Files:
        return through(super().client(meddle, stale, number), ROOT, rng=self.rng)


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_through_a_server(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        simulation = ServedSimulation(seed, plan_of(seed))
        report = simulation.run()
        assert simulation.problems == [], seed
        assert report.violations == [], seed
        assert report.census.living >= 2, seed
        assert simulation.finished, seed
