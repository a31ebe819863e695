"""A worker process of a storm: the production worker on the production store, and a witness of what it was promised.

Its testimony is a file outside the population, one line as soon as a call has returned. What the population promised
before the process was killed can thus be compared with what the population holds in the end.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from genepool.errors import ConcurrencyError
from genepool.evolution import Surroundings, Worker
from genepool.population import DirectoryPopulation, Files, Individual, State
from genepool.testing import ToyEvaluator
from tests.races.plan import Plan


class Testimony(logging.Handler):
    """The file of one process; also hears of lost races, which the worker only mentions in its log."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.DEBUG)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def say(self, *words: object) -> None:
        os.write(self._descriptor, (" ".join(map(str, words)) + "\n").encode())

    def emit(self, record: logging.LogRecord) -> None:
        if any(isinstance(argument, ConcurrencyError) for argument in record.args or ()):
            self.say("race")


class Fatal(Files):
    """Now and then a rename is the last thing that a process does, or would have done.

    Signals from outside hardly ever arrive between two system calls that follow each other at once.
    """

    def __init__(self, rng: Random, odds: float, calm: mmap.mmap) -> None:
        super().__init__(durability="safe")
        self._rng, self._odds, self._calm = rng, odds, calm

    def rename(self, source: str, target: str) -> None:
        self._perhaps_die()
        super().rename(source, target)
        self._perhaps_die()

    def _perhaps_die(self) -> None:
        if not self._calm[0] and self._rng.random() < self._odds:
            os.kill(os.getpid(), signal.SIGKILL)


class Witnessed(DirectoryPopulation):
    """Every success that made an individual alive is testified to right after it was reported."""

    testimony: Testimony

    def finish(self, individual: Individual, **result: Any) -> Individual:
        return self._testified(super().finish(individual, **result))

    def take_over(self, individual: Individual) -> Individual:
        return self._testified(super().take_over(individual))

    def _testified(self, individual: Individual) -> Individual:
        if individual.state is State.ALIVE:
            self.testimony.say("finished", individual.id, repr(individual.fitness))
        return individual


def live(path: Path, testimony: Path, plan: Plan, number: int, calm: mmap.mmap) -> None:
    """The whole life of a forked process; ends when it is told to or when the storm itself is gone.

    `calm` is a byte that all processes share: the storm is over.
    """
    try:
        _work(path, Testimony(testimony), plan, number, calm)
    except BaseException:  # noqa: BLE001 - the parent's stack must never go on in here
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _work(path: Path, testimony: Testimony, plan: Plan, number: int, calm: mmap.mmap) -> None:
    parent, told = os.getppid(), []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: told.append("it was told to"))

    def reason() -> str | None:
        return told[0] if told else None if os.getppid() == parent else "the storm is gone"

    evolve(path, Fatal(Random(number), plan.fatal_renames, calm), testimony, plan, number, reason)


def evolve(
    path: Path, files: Files, testimony: Testimony, plan: Plan, number: int, reason: Callable[[], str | None]
) -> None:
    """Evolves until there is a reason to stop."""
    log = logging.getLogger("genepool.evolution.worker")
    log.setLevel(logging.DEBUG)
    log.handlers, log.propagate = [testimony], False
    rng = Random(f"{plan.seed} {number}")
    population = Witnessed.open(path, files=files)
    population.testimony = testimony
    # Those who train for moments only are in the middle of a write or a rename most of the time.
    evaluator = ToyEvaluator(steps=plan.steps, seconds=plan.training * rng.choice((0.1, 1, 4)))
    worker = Worker(
        population,
        rng,
        rules=lambda: plan.rules,
        evaluator=lambda version: evaluator,
        surroundings=Surroundings(reason_to_stop=reason),
    )
    worker.run()
    population.close()


def read_testimonies(folder: Path) -> tuple[Mapping[str, float], int]:
    """What all processes testified to: the fitness of whoever became alive, and the number of lost races."""
    finished: dict[str, float] = {}
    races = 0
    for line in _whole_lines(folder):
        match line.split():
            case ["finished", identity, fitness]:
                finished[identity] = float(fitness)
            case ["race"]:
                races += 1
    return finished, races


def _whole_lines(folder: Path) -> Iterable[str]:
    for path in sorted(folder.iterdir()):
        # A process may be killed in the middle of a line; it had not been promised to anybody yet.
        yield from path.read_text().split("\n")[:-1]
