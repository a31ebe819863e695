"""The seam between evolution and torch: what is asked of an evaluator, and what it answers.

Evolution hands a DNA over and gets a fitness back; it knows nothing of torch. Weights pass as bytes that only the
evaluator can read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import msgspec

from genepool.dna import DNA


class Progress(NamedTuple):
    """A look at a training that goes on."""

    step: int
    """Steps done."""
    steps: int
    """Steps in all."""
    loss: float
    checkpoint: Callable[[], bytes]
    """Makes the bytes from which the training can be resumed at this very step."""


Observer = Callable[[Progress], None]
"""Called now and then by the training loop itself. What it raises ends the training."""


def ignore(progress: Progress) -> None:
    """The observer that does not look."""


Verdict = Literal["stopped", "longer", "kept"]
"""On a child on its way: it clearly loses against its parent, it clearly wins, or neither."""


class Race(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One look at a child on its way, which may end its training or make it longer."""

    look: float
    """The part of the training after which it is looked at."""
    rival: float
    """The parent's accuracy."""
    stretch: float = 1.0
    """What a winner's remaining steps are multiplied by."""
    verdict: Verdict | None = None
    """Repeats a training that was looked at: nobody looks, and the plan's turns say what came of it."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one individual's training gets, where that is not the same for all. Empty: what the settings say.

    It is part of the birth record, so that a training can be repeated.
    """

    seconds: float = 0.0
    """Time for the steps; how many fit is measured with the first few of them. 0: the settings' number of steps."""
    flops: float = 0.0
    """The same, counted in operations of training."""
    most: int = 0
    """Steps at most where they go by time or operations, since small networks would take very many; 0: any number."""
    turns: tuple[tuple[int, int], ...] = ()
    """Steps done and steps in all, wherever the latter was decided: repeats a training that went by time, or raced."""
    crop: float = 1.0
    """The side of the crops that it is trained on, as a share of the image's."""
    heat: float = 1.0
    """Times the learning rate of the DNA."""
    threads: int = 0
    """To compute with, which the last bits of sums depend on; 0: those of the process."""
    precision: str = ""
    """Repeats a training in the arithmetic that it had: `float32`, or any other for mixed; empty: as set."""
    race: Race | None = None


EVERYTHING_AS_SET = Plan()


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an individual in training. The keys of its JSON form are documented and stay."""

    fitness: float
    """What selection goes by: the accuracy, unless the objective says otherwise; 0 for a network that could not be
    trained (-1 where there is a limit of milliseconds: see genepool/evaluation.py)."""
    accuracy: float | None = None
    """On the validation images, 0 to 1; None where nobody measured it apart from the fitness."""
    reason: str | None = None
    """Why it could not be trained."""
    parameters: int = 0
    flops_forward: int = 0
    """Of one validation batch: the paper's F_v."""
    flops_image: int = 0
    """Of one image, forward."""
    milliseconds: float | None = None
    """Of the inference of one image; None where it was not measured."""
    flops_training: int = 0
    """Of one training step: the paper's F_t."""
    flops: int = 0
    """Spent on this individual: F_t N_t + F_v N_v."""
    steps: int = 0
    """Training steps taken."""
    inherited: tuple[str, ...] = ()
    """Names of the tensors taken over from the parent."""
    second: tuple[str, ...] = ()
    """Names of those among them that came from the second parent."""
    fresh: tuple[str, ...] = ()
    """Names of the tensors drawn anew."""
    losses: tuple[tuple[int, float], ...] = ()
    """The training loss at some steps."""
    seconds: float = 0.0
    """In all."""
    stepping: float = 0.0
    """Of these, in training steps but the first: the rest is overhead."""
    step_seconds: float = 0.0
    """Of one step."""
    precision: str = ""
    """What the steps were computed in: float32, bfloat16 or float16; empty where nobody wrote it down."""
    turns: tuple[tuple[int, int], ...] = ()
    """Steps done and steps in all, wherever the latter was decided by time or by a race."""
    raced: Verdict | None = None
    """What the race against its parent came to, where there was one."""
    look: tuple[int, float] | None = None
    """The step at which it was looked at, and its accuracy then, on some of the validation images."""


class Second(NamedTuple):
    """What a child has from its second parent."""

    form: str
    """How the two are brought together: a name of genepool.mutations.recombination."""
    weights: bytes


class Trained(NamedTuple):
    """The answer of an evaluator."""

    evaluation: Evaluation
    weights: bytes | None
    """None if it could not be trained."""


class Evaluator(Protocol):
    """Trains and validates individuals."""

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
        """Trains the DNA from the parent's weights where they fit, or goes on from a checkpoint, and validates it.

        A network that is too large, diverges or runs out of memory is an answer (fitness 0 and a reason), not an
        exception.
        """
        ...


WORST = -1.0


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """How accuracy and cost become one number."""

    kind: Literal["accuracy", "accuracy-per-flops"] = "accuracy"
    flops_weight: float = 0.07
    flops_target: float = 1e6
    """Of one image; those below cost nothing."""
    max_milliseconds: float = 0.0
    """Of the inference of one image; 0: any time, and none is measured."""

    def fitness(self, accuracy: float, flops: int, milliseconds: float | None = None) -> float:
        """Of a trained network, with the FLOPs of one image.

        Differs from the paper where it is not accuracy alone. A network that takes longer than the limit lives, but
        below zero, where none is that keeps it; the nearer to the limit, the better, so that evolution finds back.
        """
        value = self._value(accuracy, flops)
        if self.max_milliseconds and milliseconds is not None and milliseconds > self.max_milliseconds:
            return value * self.max_milliseconds / milliseconds + WORST
        return value

    def _value(self, accuracy: float, flops: int) -> float:
        """Accuracy times (FLOPs over the target) to the power of minus the weight, where they are over it; 0 to 1.

        A product, as in MnasNet (Tan et al., 2019): ten times the FLOPs cost the same share of the accuracy, wherever
        they are added, and no trained network falls below one that could not be trained. What is below the target is
        free, since evolution begins with next to no FLOPs: a first convolution, a hundred times dearer and not yet
        trained, would lose against the trivial network.
        """
        if self.kind == "accuracy":
            return accuracy
        return accuracy * float(max(1.0, flops / self.flops_target) ** -self.flops_weight)

    @property
    def untrained(self) -> float:
        """Of a network that could not be trained: the lowest there is."""
        return WORST if self.max_milliseconds else 0.0
