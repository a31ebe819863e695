"""The seam between evolution and torch: what is asked of an evaluator, and what it answers.

Evolution hands a DNA over and gets a fitness back; it knows nothing of torch. Weights pass as bytes that only the
evaluator can read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from genepool.dna import DNA, Capacity


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
    trained (-1 with `limits.milliseconds`)."""
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


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """How one network is trained; the defaults are the paper's."""

    steps: Annotated[int, Meta(ge=0, le=10**9)] = 25_600
    """Training steps per individual; the upper limit if `training_budget.share` is given."""
    batch: Annotated[int, Meta(ge=2, le=100_000, extra={"fixed": True})] = 50
    """Images per step."""
    momentum: Annotated[float, Meta(ge=0, le=0.9999)] = 0.9
    """Momentum of SGD."""
    weight_decay: Annotated[float, Meta(ge=0, le=1)] = 0.0001
    """Weight decay of filters and of the classifier's matrix."""
    inheritance: Literal["matching", "preserving", "none"] = "matching"
    """The weights that a child inherits: tensors of the same name and shape; everything that can be kept (Differs from
    the paper: its function is preserved); none."""
    schedule: str = "constant"
    """Schedule of the learning rate during one training: constant, linear, or a plugin's. Differs from the paper if it
    is not constant."""
    nesterov: bool = False
    """Differs from the paper if on: Nesterov momentum."""
    smoothing: Annotated[float, Meta(ge=0, le=0.9)] = 0.0
    """Label smoothing. Differs from the paper if it is not 0: this share of the target is spread over all classes."""
    averaging: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Differs from the paper if it is not 0: the final share of the steps whose mean weights are kept and validated."""
    precision: Literal["float32", "mixed", "auto"] = "float32"
    """Arithmetic of the training. Differs from the paper if it is not float32: `auto` uses bfloat16 on CPUs that have
    instructions for it and float32 elsewhere; `mixed` always uses bfloat16, or float16 on GPUs without it. A CPU
    without the instructions then takes ten times as long, and more memory than predicted."""
    validation_images: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    """Validation images that the fitness is measured on; none: all."""
    checkpoint_every: Annotated[float, Meta(ge=0.1, le=1e6)] = 60.0
    """Seconds between two checkpoints of a training."""


WORST = -1.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest networks that are trained, or born; the search space itself has no limit."""

    parameters: Annotated[int, Meta(ge=1, le=10**12)] = 100_000_000
    """Networks with more parameters are not trained and get fitness 0."""
    flops: Annotated[float, Meta(gt=0, le=1e30)] | None = None
    """Differs from the paper if given: networks that need more FLOPs for the inference of one image are not trained."""
    milliseconds: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Differs from the paper if given: a network that takes longer for the inference of one image, on the machine that
    trained it, is less fit than every network within the limit. Without a limit the time is not measured."""
    memory: Annotated[int, Meta(ge=1, le=2**50)] = 4 * 2**30
    """Bytes of memory that a worker may use, by prediction; networks that need more are not trained. The worker's share
    of the free memory applies instead if it is smaller."""
    child_steps: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    """Differs from the paper if given: steps that a child must have time for, otherwise its mutation is drawn again.
    Networks that cost no more than one convolution of 16 channels are always allowed."""
    redraw: bool = False
    """Differs from the paper if on: a mutation that exceeds `limits.parameters` or `limits.flops` is drawn again, so
    that every child can be trained."""

    def fault(self, of: Capacity) -> str | None:
        """Why a network with these parameters and FLOPs is too large, or None."""
        if of.parameters > self.parameters:
            return f"{of.parameters:,} parameters are over the limit of {self.parameters:,}; raise limits.parameters."
        if self.flops is not None and of.flops > self.flops:
            return f"{of.flops:,} FLOPs per image are over the limit of {self.flops:,.0f}; raise limits.flops."
        return None

    def penalised(self, fitness: float, milliseconds: float | None) -> float:
        """The fitness of a network that takes this long for one image.

        Differs from the paper if there is a limit. A network that takes longer survives, but below zero, where no
        network within the limit is; it ranks higher the closer it is to the limit, so that evolution can recover.
        """
        if self.milliseconds is not None and milliseconds is not None and milliseconds > self.milliseconds:
            return fitness * self.milliseconds / milliseconds + WORST
        return fitness

    @property
    def untrained(self) -> float:
        """The fitness of a network that could not be trained: the lowest possible."""
        return 0.0 if self.milliseconds is None else WORST


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """How accuracy and FLOPs become one number."""

    kind: Annotated[Literal["accuracy", "accuracy-per-flops"], Meta(extra={"fixed": True})] = "accuracy"
    """What fitness is: the accuracy, or accuracy * max(1, FLOPs of one image / flops_target) ** -flops_weight. Differs
    from the paper if it is not accuracy."""
    flops_target: Annotated[float, Meta(ge=1, le=1e30, extra={"fixed": True})] = 1e6
    """With `accuracy-per-flops`: the FLOPs of one image up to which there is no penalty."""
    flops_weight: Annotated[float, Meta(ge=0, le=10, extra={"fixed": True})] = 0.07
    """With `accuracy-per-flops`: the exponent. At 0.07 (MnasNet), twice the FLOPs must bring 5 % more accuracy."""

    def fitness(self, accuracy: float, flops: int) -> float:
        """The fitness of a trained network with these FLOPs per image, 0 to 1.

        A product, as in MnasNet (Tan et al., 2019): ten times the FLOPs cost the same share of the accuracy, no matter
        where they are added, and no trained network ranks below one that could not be trained. FLOPs below the target
        are free, because evolution begins with almost none: a first convolution, a hundred times more expensive and
        not yet trained, would lose against the trivial network.
        """
        if self.kind == "accuracy":
            return accuracy
        return accuracy * float(max(1.0, flops / self.flops_target) ** -self.flops_weight)
