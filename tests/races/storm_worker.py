"""A worker process of a storm: the production worker on the production store, which records every reported success.

Its testimony is a file outside the population, with one line as soon as a call has returned. Successes that were
reported before the process was killed can thus be compared with the population at the end.
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
    """The testimony of one process, including lost races, which the worker only writes to its log."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.DEBUG)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def say(self, *words: object) -> None:
        os.write(self._descriptor, (" ".join(map(str, words)) + "\n").encode())

    def emit(self, record: logging.LogRecord) -> None:
        if any(isinstance(argument, ConcurrencyError) for argument in record.args or ()):
            self.say("race")


class Fatal(Files):
    """Files that sometimes kill the process right before or after a rename.

    Signals from outside rarely arrive between two consecutive system calls.
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
    """A population that records every individual that became alive, right after the call has returned."""

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
    """Run a forked process until it is asked to stop or the storm itself is gone.

    `calm` is a byte that all processes share; it is set when the storm is over.
    """
    try:
        _work(path, Testimony(testimony), plan, number, calm)
    except BaseException:  # noqa: BLE001 - the parent's stack must not continue here
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _work(path: Path, testimony: Testimony, plan: Plan, number: int, calm: mmap.mmap) -> None:
    parent, reasons = os.getppid(), []
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: reasons.append("it was asked to stop"))

    def reason() -> str | None:
        return reasons[0] if reasons else None if os.getppid() == parent else "the storm is gone"

    evolve(path, Fatal(Random(number), plan.fatal_renames, calm), testimony, plan, number, reason)


def evolve(
    path: Path, files: Files, testimony: Testimony, plan: Plan, number: int, reason: Callable[[], str | None]
) -> None:
    """Evolve until there is a reason to stop."""
    log = logging.getLogger("genepool.evolution.worker")
    log.setLevel(logging.DEBUG)
    log.handlers, log.propagate = [testimony], False
    rng = Random(f"{plan.seed} {number}")
    population = Witnessed.open(path, files=files)
    population.testimony = testimony
    # Workers with very short trainings are in the middle of a write or rename most of the time.
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
    """Return the fitness of every individual that became alive, as testified, and the number of lost races."""
    finished: dict[str, float] = {}
    races = 0
    for line in _complete_lines(folder):
        match line.split():
            case ["finished", identity, fitness]:
                finished[identity] = float(fitness)
            case ["race"]:
                races += 1
    return finished, races


def _complete_lines(folder: Path) -> Iterable[str]:
    for path in sorted(folder.iterdir()):
        # A process may be killed in the middle of a line, before the caller knew of the success.
        yield from path.read_text().split("\n")[:-1]
