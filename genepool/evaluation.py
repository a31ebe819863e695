"""The seam between evolution and torch: what an evaluator receives and what it returns.

Evolution passes a DNA and receives a fitness; it never imports torch. Weights are bytes that only evaluators can read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import msgspec

from genepool.dna import DNA


class Progress(NamedTuple):
    """The state of a training that is still running."""

    step: int
    """Steps done."""
    steps: int
    """Steps in total."""
    loss: float
    checkpoint: Callable[[], bytes]
    """Return the bytes from which the training can be resumed at exactly this step."""


Observer = Callable[[Progress], None]
"""Called regularly by the training loop. An exception that it raises ends the training."""


def ignore(progress: Progress) -> None:
    """The observer that does nothing."""


Verdict = Literal["stopped", "longer", "kept"]
"""The outcome of a race: the child clearly loses against its parent, it clearly wins, or neither."""


class Race(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A comparison of a child with its parent during its training, which may end the training or extend it."""

    look: float
    """The fraction of the training after which the child is measured."""
    rival: float
    """The parent's accuracy."""
    stretch: float = 1.0
    """The factor by which a winner's remaining steps are multiplied."""
    verdict: Verdict | None = None
    """The recorded outcome when a training is repeated: nothing is measured, and `step_decisions` has the steps."""


class TrainingBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the training of one individual gets, if it differs from the settings.

    It is part of the birth record, so that a training can be repeated.
    """

    seconds: float = 0.0
    """Time for the steps; the first few steps show how many fit. 0: the number of steps in the settings."""
    flops: float = 0.0
    """The same limit as FLOPs of training."""
    max_steps: int = 0
    """The most steps that `seconds` or `flops` may buy, since small networks would take very many; 0: no limit."""
    step_decisions: tuple[tuple[int, int], ...] = ()
    """Pairs of steps done and steps in total, one per decision: repeats a training limited by time or by a race."""
    crop: float = 1.0
    """The side of the training crops as a fraction of the image's side."""
    learning_rate_factor: float = 1.0
    """Multiplies the learning rate in the DNA."""
    threads: int = 0
    """Threads to compute with; the last bits of sums depend on them. 0: as many as the process has."""
    precision: str = ""
    """Repeats a training in its original arithmetic: `float32`, or any other value for mixed. Empty: as configured."""
    race: Race | None = None


AS_CONFIGURED = TrainingBudget()


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an individual's training. The keys of its JSON form are documented in docs/json.md."""

    fitness: float
    """The value that selection compares: the accuracy, unless the objective is another one. For a network that could
    not be trained, `Objective.untrained`."""
    accuracy: float | None = None
    """Accuracy on the validation images, 0 to 1; None if it was not measured apart from the fitness."""
    reason: str | None = None
    """Why the network could not be trained."""
    parameters: int = 0
    flops_forward: int = 0
    """FLOPs of one validation batch: the paper's F_v."""
    flops_image: int = 0
    """FLOPs of the forward pass of one image."""
    milliseconds: float | None = None
    """Inference time of one image; None if it was not measured."""
    flops_training: int = 0
    """FLOPs of one training step: the paper's F_t."""
    flops: int = 0
    """FLOPs spent on this individual: F_t N_t + F_v N_v."""
    steps: int = 0
    """Training steps taken."""
    inherited: tuple[str, ...] = ()
    """Names of the tensors taken over from the parents."""
    second: tuple[str, ...] = ()
    """Names of those among them that came from the second parent."""
    fresh: tuple[str, ...] = ()
    """Names of the tensors that were initialised at random."""
    losses: tuple[tuple[int, float], ...] = ()
    """Pairs of step and training loss."""
    seconds: float = 0.0
    """Total time."""
    stepping: float = 0.0
    """The part of `seconds` spent in all training steps but the first; the rest is overhead."""
    step_seconds: float = 0.0
    """Time of one training step."""
    precision: str = ""
    """The arithmetic of the steps: float32, bfloat16 or float16; empty if it was not recorded."""
    step_decisions: tuple[tuple[int, int], ...] = ()
    """Pairs of steps done and steps in total, one per decision, if time or a race set the number of steps."""
    raced: Verdict | None = None
    """The outcome of the race against the parent, if there was one."""
    look: tuple[int, float] | None = None
    """The step at which the race was decided, and the accuracy then, on some of the validation images."""


class TrainingRequest(msgspec.Struct, frozen=True):
    """One individual to be trained and validated."""

    dna: DNA
    seed: int
    inherited: tuple[bytes, ...] = ()
    """The weights of each parent that passes them on; empty: random weights."""
    recombination: str = ""
    """How the weights of two parents are combined: a name from genepool.mutations.recombination."""
    checkpoint: bytes | None = None
    """Where an interrupted training of the same request continues."""
    budget: TrainingBudget = AS_CONFIGURED


class Trained(NamedTuple):
    """The answer of an evaluator."""

    evaluation: Evaluation
    weights: bytes | None
    """None if the network could not be trained."""


class Evaluator(Protocol):
    """Trains and validates individuals."""

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        """Train a network from its parents' weights or from a checkpoint, and validate it.

        A network that is too large, diverges or runs out of memory is a result (fitness 0 and a reason), not an
        exception.
        """
        ...


WORST = -1.0


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """How accuracy, FLOPs and inference time become one fitness."""

    kind: Literal["accuracy", "accuracy-per-flops"] = "accuracy"
    flops_weight: float = 0.07
    flops_target: float = 1e6
    """FLOPs per image below which a network is not penalised."""
    max_milliseconds: float = 0.0
    """Limit on the inference time of one image; 0: no limit, and the time is not measured."""

    def fitness(self, accuracy: float, flops: int, milliseconds: float | None = None) -> float:
        """Return the fitness of a trained network, given the FLOPs of one image.

        Differs from the paper where it is not accuracy alone. A network that exceeds the time limit stays alive, but
        below zero, and therefore below every network within the limit. The closer it is to the limit, the higher its
        fitness, so that evolution finds its way back.
        """
        value = self._value(accuracy, flops)
        if self.max_milliseconds and milliseconds is not None and milliseconds > self.max_milliseconds:
            return value * self.max_milliseconds / milliseconds + WORST
        return value

    def _value(self, accuracy: float, flops: int) -> float:
        """Return accuracy * (flops / target) ** -weight, or the accuracy alone if FLOPs are below the target.

        A product, as in MnasNet (Tan et al., 2019): ten times the FLOPs always cost the same fraction of the accuracy,
        and no trained network falls below one that could not be trained. FLOPs below the target are free because
        evolution begins with almost none: a first convolution, a hundred times as expensive and not yet trained, would
        lose against the trivial network.
        """
        if self.kind == "accuracy":
            return accuracy
        return accuracy * float(max(1.0, flops / self.flops_target) ** -self.flops_weight)

    @property
    def untrained(self) -> float:
        """The lowest possible fitness, for networks that could not be trained."""
        return WORST if self.max_milliseconds else 0.0
