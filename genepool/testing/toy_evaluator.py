"""An evaluator that only simulates training, for tests of everything around it: no torch, no images."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable

import msgspec

from genepool.dna import DNA, encode
from genepool.errors import DataError
from genepool.evaluation import Evaluation, Observer, Progress, Trained, TrainingRequest, ignore

CONVOLUTIONS = 6
LEARNING_RATE = 0.01  # a network with this many convolutions and this learning rate has fitness 1, the maximum
WEIGHTS_BYTES = 2_000


class ToyCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    step: int
    state: bytes


class ToyEvaluator:
    """An Evaluator (see genepool.evaluation) in which each step is one hash and an optional pause. The fitness depends
    on the DNA alone. The weights depend on the DNA, the seed and the inherited weights, but not on interruptions."""

    def __init__(self, *, steps: int = 5, seconds: float = 0.0, sleep: Callable[[float], None] = time.sleep) -> None:
        self._steps, self._sleep = steps, sleep
        self._pause = seconds / max(1, steps)

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        step, state = 0, f"{request.seed} {encode(request.dna)}".encode()
        for weights in request.inherited or (b"",):
            state = hashlib.sha256(state + weights).digest()
        if request.checkpoint is not None:
            step, state = _resumed(request.checkpoint)
        resumed = step
        while step < self._steps:
            if self._pause:
                self._sleep(self._pause)
            step, state = step + 1, hashlib.sha256(state).digest()
            observe(Progress(step, self._steps, _loss(step), _saver(step, state), step - resumed))
        losses = tuple((done, _loss(done)) for done in range(1, step + 1))
        evaluation = Evaluation(
            fitness=toy_fitness(request.dna), flops=step, flops_training=1, steps=step, resumed=resumed, losses=losses
        )
        return Trained(evaluation, hashlib.shake_128(state).digest(WEIGHTS_BYTES))


def toy_fitness(dna: DNA) -> float:
    return 1 / (1 + abs(len(dna.convs) - CONVOLUTIONS) / 4 + abs(math.log10(dna.learning_rate / LEARNING_RATE)))


def _loss(step: int) -> float:
    return 1 / (1 + step)


def _saver(step: int, state: bytes) -> Callable[[], bytes]:
    return lambda: msgspec.json.encode(ToyCheckpoint(step=step, state=state))


def _resumed(checkpoint: bytes) -> tuple[int, bytes]:
    try:
        found = msgspec.json.decode(checkpoint, type=ToyCheckpoint)
    except msgspec.MsgspecError as error:
        raise DataError(f"the checkpoint is not one of a toy training: {error}.") from None
    return found.step, found.state
