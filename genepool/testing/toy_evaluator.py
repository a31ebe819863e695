"""An evaluator that only pretends to train, for tests of everything around a training: no torch, no images.

Its landscape is smooth and has a known top, so evolution climbs it within a few hundred individuals.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable

import msgspec

from genepool.dna import DNA, encode
from genepool.errors import DataError
from genepool.evaluation import EVERYTHING_AS_SET, Evaluation, Observer, Plan, Progress, Second, Trained, ignore

CONVOLUTIONS = 6
LEARNING_RATE = 0.01
"""The top: a network with so many convolutions and this learning rate has fitness 1."""
WEIGHTS_BYTES = 2_000


class ToyCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A pretended training between two steps."""

    step: int
    state: bytes


class ToyEvaluator:
    """An Evaluator (see genepool.evaluation) whose every step is one hash and, if wanted, some sleep.

    The fitness follows from the DNA alone. The weights follow from the DNA, the seed and what was inherited, whether
    the training was interrupted or not, so that anybody can compute what they should be.
    """

    def __init__(self, *, steps: int = 5, seconds: float = 0.0, sleep: Callable[[float], None] = time.sleep) -> None:
        self._steps, self._sleep = steps, sleep
        self._pause = seconds / max(1, steps)

    def evaluate(
        self,
        dna: DNA,
        *,
        seed: int,
        inherited: bytes | None = None,
        checkpoint: bytes | None = None,
        observe: Observer = ignore,
        plan: Plan = EVERYTHING_AS_SET,
        second: Second | None = None,
    ) -> Trained:
        """See genepool.evaluation.Evaluator."""
        step, state = 0, hashlib.sha256(f"{seed} {encode(dna)}".encode() + (inherited or b"")).digest()
        if second is not None:
            state = hashlib.sha256(state + second.weights).digest()
        if checkpoint is not None:
            step, state = _resumed(checkpoint)
        while step < self._steps:
            if self._pause:
                self._sleep(self._pause)
            step, state = step + 1, hashlib.sha256(state).digest()
            observe(Progress(step, self._steps, _loss(step), _saver(step, state)))
        losses = tuple((done, _loss(done)) for done in range(1, step + 1))
        evaluation = Evaluation(fitness=toy_fitness(dna), flops=step, steps=step, losses=losses)
        return Trained(evaluation, hashlib.shake_128(state).digest(WEIGHTS_BYTES))


def toy_fitness(dna: DNA) -> float:
    """How near to the top of the landscape a DNA is: above 0, at most 1."""
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
