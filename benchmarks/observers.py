"""The cost of observing an experiment with a dashboard.

    python -m benchmarks.observers server [--individuals 1000 10000 100000] [--seconds 60]
    python -m benchmarks.observers workers [--minutes 8] [--records 3000] [--client browser]

`server`: CPU time of the server while a client follows an experiment of that size in which two individuals per second
are born and die. It does not depend on other load.

`workers`: throughput of two workers that really train, with identical individuals (the only mutation is `identity`) and
a few thousand records. Server and client are stopped and continued alternately, so both cases are in the same run, and
each pair of neighbouring slices gives a ratio. The client is headless Chromium on the same machine, showing the
population, or with `--client stream` a program that reads the feed. It needs a quiet machine.

The exit code is 1 at 2 % or more: of one core for the server, of the throughput for the workers.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.clients import browsing, descendants, processor_time, streaming, woken
from benchmarks.dashboard import served
from benchmarks.old_experiment import grow, large
from benchmarks.seeding import ancestor
from genepool.dna import encode
from genepool.evolution import Surroundings
from genepool.experiment import Experiment
from genepool.testing import ToyEvaluator

BAR = 0.02
WORKERS = 2
TRAINING = 2.0
"""Seconds of one individual, about."""
SLICE, SETTLE = 12.0, 1.5
ALIVE = 1000


def main() -> int:
    """Print the figures and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["server", "workers"])
    parser.add_argument("--individuals", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds per size")
    parser.add_argument("--minutes", type=float, default=8.0, help="of training")
    parser.add_argument("--records", type=int, default=3_000, help="records of dead individuals")
    parser.add_argument("--client", choices=["browser", "stream"], default="browser")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-observing-") as folder:
        if asked.what == "server":
            shares = [server_share(Path(folder), count, asked.seconds) for count in asked.individuals]
            return int(max(shares) >= BAR)
        return int(workers_loss(Path(folder), asked.minutes, asked.records, asked.client) >= BAR)


# -- processor time of the server --------------------------------------------------------------------------------------


def server_share(folder: Path, count: int, seconds: float) -> float:
    """Return the fraction of one core that the server uses."""
    place = folder / str(count)
    large(place, count, min(ALIVE, count // 2))
    crew = [multiprocessing.Process(target=pretend, args=(place, number)) for number in range(WORKERS)]
    for worker in crew:
        worker.start()
    try:
        with served(place) as (address, server), streaming(address) as heard:
            time.sleep(3 * SETTLE)
            before, began, cpu = heard.bytes, time.monotonic(), processor_time([server])
            time.sleep(seconds)
            share = (processor_time([server]) - cpu) / (time.monotonic() - began)
            if heard.bytes == before:
                raise SystemExit("The feed said nothing: nothing was measured.")
    finally:
        for worker in crew:
            worker.kill()
            worker.join()
    print(
        f"{count:7d} individuals: {share:6.2%} of a core for the server, {60 * share:.2f} s a minute (bar: {BAR:.0%})"
    )
    return share


def pretend(place: Path, number: int) -> None:
    """A worker whose trainings take a second and no CPU time."""
    Experiment.open(place).worker(number, lambda version: ToyEvaluator(steps=10, seconds=1.0), Surroundings()).run()


# -- throughput of workers ---------------------------------------------------------------------------------------------


class Slice(NamedTuple):
    """Some seconds of wall-clock time, with or without a dashboard."""

    observed: bool
    start: float
    stop: float
    cpu: float
    """Of server and client together, in seconds."""


def workers_loss(folder: Path, minutes: float, records: int, client: str) -> float:
    """Return the fraction of throughput that workers lose."""
    steps = steps_for(folder)
    place = folder / "experiment"
    with running(place, folder, steps):
        while not (place / "experiment.json").exists():
            time.sleep(0.2)
        experiment = Experiment.open(place)
        grow(experiment, records, 0)
        with observing(place, client) as processes:
            slices = alternate(processes, minutes)
    return print_loss(slices, cycles_of(experiment), steps, records, client)


def command(place: Path, folder: Path, steps: int) -> list[str]:
    """`genepool run` with identical individuals: a network of ten vertices on the shipped images."""
    (folder / "settings.toml").write_text("[breeding.odds]\nidentity = 1.0\n")
    (folder / "network.json").write_text(encode(ancestor()))
    words = [*("run", place), *("--preset", "faithful"), *("--config", folder / "settings.toml"), *("--steps", steps)]
    words += ["--start", folder / "network.json", "--workers", WORKERS, "--population", 20, "--set", "budget.time=none"]
    return [sys.executable, "-m", "genepool", *map(str, words)]


def steps_for(folder: Path) -> int:
    """Return the number of steps that makes an individual take the wanted time on this machine."""
    steps, place = 50, folder / "calibration"
    words = [*command(place, folder, steps), "--individuals", "6"]
    subprocess.run(words, check=True, capture_output=True)
    rows = Experiment.open(place).history().finished()
    one = statistics.median(row.evaluation.stepping for row in rows) / steps
    return max(10, round(TRAINING / one))


@contextlib.contextmanager
def running(place: Path, folder: Path, steps: int) -> Iterator[None]:
    run = subprocess.Popen(command(place, folder, steps), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        run.terminate()  # what is started in the background does not hear Ctrl-C
        run.wait()


@contextlib.contextmanager
def observing(place: Path, client: str) -> Iterator[list[int]]:
    """Start a dashboard with a client; yield all their processes."""
    with served(place) as (address, server), contextlib.ExitStack() as stack:
        before = set(descendants(os.getpid()))
        stack.enter_context(browsing(address) if client == "browser" else streaming(address))
        processes = [server, *(one for one in descendants(os.getpid()) if one not in before)]
        stack.callback(woken, processes)
        yield processes


def alternate(processes: list[int], minutes: float) -> list[Slice]:
    """Run slices in pairs, in an order that alternates from pair to pair, so that no drift favours one."""
    slices = []
    for pair in range(max(2, round(60 * minutes / (SLICE + SETTLE) / 2))):
        for observed in (pair % 2 == 0, pair % 2 == 1):
            for one in processes:
                os.kill(one, signal.SIGCONT if observed else signal.SIGSTOP)
            time.sleep(SETTLE)
            start, cpu = time.time(), processor_time(processes)
            time.sleep(SLICE)
            slices.append(Slice(observed, start, time.time(), processor_time(processes) - cpu))
    return slices


def cycles_of(experiment: Experiment) -> list[tuple[float, float]]:
    """Yield the times from one result of a worker to its next: an individual with all its overhead."""
    by_worker: dict[str, list[float]] = defaultdict(list)
    for row in experiment.history().finished():
        by_worker[row.result.attempt.partition("-")[2]].append(row.result.finished)
    return [cycle for moments in by_worker.values() for cycle in pairwise(sorted(moments))]


def throughput(one: Slice, cycles: list[tuple[float, float]]) -> float:
    """Return the individuals per second; one that spans a border counts partly."""
    shares = ((min(b, one.stop) - max(a, one.start)) / (b - a) for a, b in cycles if a < one.stop and b > one.start)
    return sum(shares) / (one.stop - one.start)


def print_loss(slices: list[Slice], cycles: list[tuple[float, float]], steps: int, records: int, client: str) -> float:
    """Print the loss and return it."""
    rates = [throughput(one, cycles) for one in slices]
    ratios = []
    for (first, one), (_, other) in zip(*[iter(zip(slices, rates, strict=True))] * 2, strict=True):
        ratios.append(one / other if first.observed else other / one)
    with_it = [rate for one, rate in zip(slices, rates, strict=True) if one.observed]
    without = [rate for one, rate in zip(slices, rates, strict=True) if not one.observed]
    cpu = sum(one.cpu for one in slices if one.observed) / sum(one.stop - one.start for one in slices if one.observed)
    loss = 1 - statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4)
    print(f"{WORKERS} workers, {steps} steps each, {records} records; client: {client}")
    slow, fast = (60 * statistics.median(several) for several in (with_it, without))
    print(f"{len(ratios)} pairs of {SLICE:g} s: {fast:.2f} individuals a minute without, {slow:.2f} with")
    print(f"server and client: {cpu:.2%} of a core, {cpu / (os.cpu_count() or 1):.2%} of the machine")
    print(f"ratio: median {1 - loss:.4f}, quarters {low:.4f} to {high:.4f}; loss {loss:.2%} (bar: below {BAR:.0%})")
    return loss


if __name__ == "__main__":
    sys.exit(main())
