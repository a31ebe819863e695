"""The benchmark of shared trainings: images per second of two processes against one, each with one thread.

Both sides take steps of the real training loop on the same network, in alternating rounds. The images are as large as
CIFAR-10's, but random: only time is measured.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import torch

from genepool.data import Dataset
from genepool.errors import EngineError
from genepool.evaluation import Training
from genepool.evolution.peers import Invitation, Membership, Peers
from genepool.nn import Model, TrainingRun, is_mixed, prepare_process
from genepool.testing.bench.baseline import NETWORKS, Layers, chain

SEVEN: Layers = ((64, 2), (64, 1), (96, 1), (128, 2), (160, 1), (192, 2), (256, 1))
SHARED = {"six convolutions": NETWORKS["six convolutions"].dna, "seven convolutions": chain(SEVEN)}
TARGET = 1.8
BATCH = 50
SECONDS = 5.0  # of each side of a round
WARM_UP = 3  # steps
START = 120.0  # seconds that the other process has to start
_PEER = "from genepool.testing.bench.parallel import help_leader; import sys; help_leader(*sys.argv[1:])"


def shared(repetitions: int, quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return images per second of one process and of two, per network and round, and the medians of their ratios."""
    prepare_process()
    rounds: dict[str, Any] = {}
    medians: dict[str, float] = {}
    bars = []
    for name in SHARED:
        one, two = rounds[name] = _measured(name, 1 if quick else repetitions, 1.0 if quick else SECONDS, progress)
        medians |= {f"one process {name}": statistics.median(one), f"two processes {name}": statistics.median(two)}
        ratio = statistics.median(b / a for a, b in zip(one, two, strict=True))
        bars.append({"what": f"one process: {name}", "ratio": ratio, "bar": TARGET, "met": ratio >= TARGET})
    mixed = is_mixed("auto", torch.device("cpu"))
    return {
        "repetitions": repetitions,
        "mixed": mixed,
        "medians": medians,
        "rounds": rounds,
        "accuracy": {},
        "bars": bars,
    }


def _measured(
    name: str, repetitions: int, seconds: float, progress: Callable[[str], None]
) -> tuple[list[float], list[float]]:
    one, two, training = [], [], _training(name)
    with _helped(name) as peers:
        for number in range(repetitions):
            progress(f"round {number + 1}: one process and two, {name}")
            training.slicing.share(None)
            one.append(BATCH * _steps_per_second(training, seconds))
            training.slicing.share(peers)
            two.append(BATCH * _steps_per_second(training, seconds))
            if training.slicing.decisions[-1][1] != 2:
                raise EngineError("The other process was dropped, because it was too slow; is this machine busy?")
    return one, two


def _steps_per_second(training: TrainingRun, seconds: float) -> float:
    for _ in range(WARM_UP):
        training.step()
    done, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        training.step()
        done += 1
    return done / spent


@contextmanager
def _helped(name: str) -> Iterator[Peers]:
    """A peer in a process of its own, which is ready."""
    peers = Peers("benchmark", 1)
    words = [msgspec.json.encode(peers.invitation).decode(), name]
    process = subprocess.Popen([sys.executable, "-c", _PEER, *words])
    try:
        deadline = time.monotonic() + START
        while not peers.waiting:
            if time.monotonic() > deadline or process.poll() is not None:
                raise EngineError("The other process of the benchmark did not start; its messages are above.")
            time.sleep(0.1)
        yield peers
    finally:
        peers.close()
        process.kill()
        process.wait()


def help_leader(invitation: str, name: str) -> None:
    """Compute slices for the benchmark's process until it ends."""
    prepare_process()
    parent = os.getppid()

    def tick() -> None:
        if os.getppid() != parent:
            raise SystemExit

    membership = Membership(msgspec.json.decode(invitation, type=Invitation), tick)
    _training(name).slicing.help(membership)


def _training(name: str) -> TrainingRun:
    data = _images()
    model = Model(SHARED[name], data.image, len(data.classes), torch.Generator().manual_seed(0))
    settings = Training(steps=10**9, batch=BATCH, precision="auto")
    return TrainingRun(model, data, settings, seed=0, device=torch.device("cpu"))


def _images(count: int = 2000) -> Dataset:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (count, 40, 40, 3), np.uint8)
    labels = rng.integers(0, 10, count)
    return Dataset(
        name="random", classes=tuple("0123456789"), height=32, width=32, channels=3, pad=4, flip=True,
        mean=(0.5,) * 3, std=(0.3,) * 3, train_pixels=pixels, train_labels=labels,
        validation_pixels=pixels[:10, 4:36, 4:36], validation_labels=labels[:10],
    )  # fmt: skip
