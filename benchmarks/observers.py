"""What a watching dashboard costs.

    python -m benchmarks.observers server [--individuals 1000 10000 100000] [--seconds 60]
    python -m benchmarks.observers workers [--minutes 8] [--records 3000] [--client browser]

`server`: processor time of the server while a client follows an experiment of that size in which two individuals a
second are born and die; it does not depend on what else the machine does.

`workers`: throughput of two workers that really train, all individuals alike (the only mutation changes nothing),
beside some thousand records. Server and client are frozen and woken in turns, so both cases are of the same run, and
each pair of neighbouring slices gives a ratio. The client is headless Chromium on the same machine, showing the
population, or with `--client stream` a program that reads the feed. Needs a machine that does nothing else.

Exit code 1 where it is 2 % or more: of one core for the server, of the throughput for the workers.
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
    """Prints the figures; tells the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["server", "workers"])
    parser.add_argument("--individuals", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--seconds", type=float, default=60.0, help="of watching each size")
    parser.add_argument("--minutes", type=float, default=8.0, help="of training")
    parser.add_argument("--records", type=int, default=3_000, help="of dead ones beside those that train")
    parser.add_argument("--client", choices=["browser", "stream"], default="browser")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-watching-") as folder:
        if asked.what == "server":
            shares = [server_share(Path(folder), count, asked.seconds) for count in asked.individuals]
            return int(max(shares) >= BAR)
        return int(workers_loss(Path(folder), asked.minutes, asked.records, asked.client) >= BAR)


# -- processor time of the server --------------------------------------------------------------------------------------


def server_share(folder: Path, count: int, seconds: float) -> float:
    """The share of one core that the server takes."""
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
    """A worker whose trainings take a second and no processor."""
    Experiment.open(place).worker(number, lambda version: ToyEvaluator(steps=10, seconds=1.0), Surroundings()).run()


# -- throughput of workers ---------------------------------------------------------------------------------------------


class Slice(NamedTuple):
    """Some seconds on the wall clock, with or without a dashboard that watches."""

    watched: bool
    start: float
    stop: float
    cpu: float
    """Of server and client together, in seconds."""


def workers_loss(folder: Path, minutes: float, records: int, client: str) -> float:
    """The share of their throughput that workers lose."""
    steps = steps_for(folder)
    place = folder / "experiment"
    with running(place, folder, steps):
        while not (place / "experiment.json").exists():
            time.sleep(0.2)
        experiment = Experiment.open(place)
        grow(experiment, records, 0)
        with watching(place, client) as processes:
            slices = take_turns(processes, minutes)
    return told(slices, cycles_of(experiment), steps, records, client)


def command(place: Path, folder: Path, steps: int) -> list[str]:
    """`genepool run` of individuals that are all alike: a network of ten vertices, on the images that are shipped."""
    (folder / "settings.toml").write_text("[breeding.odds]\nidentity = 1.0\n")
    (folder / "network.json").write_text(encode(ancestor()))
    words = [*("run", place), *("--preset", "faithful"), *("--config", folder / "settings.toml"), *("--steps", steps)]
    words += ["--start", folder / "network.json", "--workers", WORKERS, "--population", 20, "--set", "budget.time=none"]
    return [sys.executable, "-m", "genepool", *map(str, words)]


def steps_for(folder: Path) -> int:
    """So many that an individual takes as long as it should, because machines differ."""
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
def watching(place: Path, client: str) -> Iterator[list[int]]:
    """A dashboard with a client; all processes of both."""
    with served(place) as (address, server), contextlib.ExitStack() as stack:
        before = set(descendants(os.getpid()))
        stack.enter_context(browsing(address) if client == "browser" else streaming(address))
        processes = [server, *(one for one in descendants(os.getpid()) if one not in before)]
        stack.callback(woken, processes)
        yield processes


def take_turns(processes: list[int], minutes: float) -> list[Slice]:
    """Slices in pairs, the order of which changes from pair to pair, so that no drift favours one."""
    slices = []
    for pair in range(max(2, round(60 * minutes / (SLICE + SETTLE) / 2))):
        for watched in (pair % 2 == 0, pair % 2 == 1):
            for one in processes:
                os.kill(one, signal.SIGCONT if watched else signal.SIGSTOP)
            time.sleep(SETTLE)
            start, cpu = time.time(), processor_time(processes)
            time.sleep(SLICE)
            slices.append(Slice(watched, start, time.time(), processor_time(processes) - cpu))
    return slices


def cycles_of(experiment: Experiment) -> list[tuple[float, float]]:
    """From one result of a worker to its next: an individual with everything around it."""
    by_worker: dict[str, list[float]] = defaultdict(list)
    for row in experiment.history().finished():
        by_worker[row.result.attempt.partition("-")[2]].append(row.result.finished)
    return [cycle for moments in by_worker.values() for cycle in pairwise(sorted(moments))]


def throughput(one: Slice, cycles: list[tuple[float, float]]) -> float:
    """Individuals a second; one that is trained across the border counts by its part."""
    shares = ((min(b, one.stop) - max(a, one.start)) / (b - a) for a, b in cycles if a < one.stop and b > one.start)
    return sum(shares) / (one.stop - one.start)


def told(slices: list[Slice], cycles: list[tuple[float, float]], steps: int, records: int, client: str) -> float:
    """Prints, and returns the loss."""
    rates = [throughput(one, cycles) for one in slices]
    ratios = []
    for (first, one), (_, other) in zip(*[iter(zip(slices, rates, strict=True))] * 2, strict=True):
        ratios.append(one / other if first.watched else other / one)
    with_it = [rate for one, rate in zip(slices, rates, strict=True) if one.watched]
    without = [rate for one, rate in zip(slices, rates, strict=True) if not one.watched]
    cpu = sum(one.cpu for one in slices if one.watched) / sum(one.stop - one.start for one in slices if one.watched)
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
