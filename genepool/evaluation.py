"""The seam between evolution and torch: what an evaluator receives and what it returns.

Evolution passes a DNA and receives a fitness; it never imports torch. Weights are bytes that only evaluators can read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

from genepool.dna import DNA, Capacity
from genepool.registry import Registry


class Progress(NamedTuple):
    """The state of a training that is still running."""

    step: int
    steps: int
    loss: float
    checkpoint: Callable[[], bytes]  # returns the bytes from which the training can be resumed at exactly this step
    flops: int = 0  # FLOPs executed in this attempt at the training


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
    """What the training of one individual gets, if it differs from the settings; part of the birth record."""

    seconds: float = 0.0
    """Time for the steps; the first few steps show how many fit. 0: the number of steps in the settings."""
    flops: float = 0.0
    """The same limit as FLOPs of training."""
    max_steps: int = 0
    """The most steps that `seconds` or `flops` may buy, since small networks would take very many; 0: no limit."""
    min_steps: int = 40
    """The fewest steps, however slow they are: with fewer, a network with random weights would not be trained."""
    step_decisions: tuple[tuple[int, int], ...] = ()
    """Pairs of steps done and steps in total, one per decision: repeats a training limited by time or by a race."""
    crop: float = 1.0
    """The side of the training crops as a fraction of the image's side."""
    learning_rate_factor: float = 1.0
    """Multiplies the learning rate in the DNA."""
    threads: int = 0
    """Threads to compute with; the last bits of sums depend on them. 0: as many as the process has."""
    slices: tuple[tuple[int, int], ...] = ()
    """Repeats a training whose batches were divided, in one process: pairs of steps done and slices from then on."""
    precision: str = ""
    """Repeats a training in its original arithmetic: `float32`, or any other value for mixed. Empty: as configured."""
    race: Race | None = None


AS_CONFIGURED = TrainingBudget()


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an individual's training. The keys of its JSON form are documented in docs/reference/json.md."""

    fitness: float
    """The value that selection compares: the accuracy, unless the objective is another one. For a network that could
    not be trained, `Limits.untrained`."""
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
    resumed: int = 0
    """Those of the steps that earlier attempts took, whose checkpoint was continued."""
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
    slices: tuple[tuple[int, int], ...] = ()
    """Pairs of steps done and slices per batch from then on, if several workers shared the training."""
    raced: Verdict | None = None
    """The outcome of the race against the parent, if there was one."""
    look: tuple[int, float] | None = None
    """The step at which the race was decided, and the accuracy then, on some of the validation images."""

    @property
    def executed(self) -> int:
        """FLOPs of the attempt that brought this result, without those of earlier attempts."""
        return self.flops - self.resumed * self.flops_training


SMALLEST_SLICE = 25  # images: a process computes fewer at a lower speed, and their statistics are noisy


def most_slices(batch: int) -> int:
    """Return the largest number of processes that can share a batch."""
    return max(1, batch // SMALLEST_SLICE)


class Slice(NamedTuple):
    """The part of one batch that one process computes."""

    step: int  # steps done before
    place: int  # 0 is the leader's own
    slices: int  # into which the batch is divided


class Peers(Protocol):
    """Other processes that compute slices of the batches of a training, as the process that owns it sees them. Peers
    come and go; no call waits longer than some seconds, and none raises an exception because of a peer."""

    def begin(self, step: int, weights: Callable[[], memoryview], state: Callable[[], bytes]) -> int:
        """Give every peer its slice and the weights, and new ones the network's state first. Return the number of
        slices into which the batch is divided; 1 without peers."""

    def collect(self, place: int, gradients: memoryview) -> float | None:
        """Receive the gradients of a slice and return its loss; None if the slice has to be computed here."""


class Leader(Protocol):
    """The process that owns a training, as a peer sees it. An exception that a call raises ends the help."""

    def state(self) -> bytes:
        """Report that the network is built, and receive its state."""

    def next_slice(self, weights: memoryview) -> Slice | None:
        """Wait for a slice and the weights for it; None if there is nothing more to do."""

    def send(self, loss: float, gradients: memoryview) -> None:
        """Send what a slice contributes to the loss and the gradients of the batch."""


class TrainingRequest(msgspec.Struct, frozen=True):
    """One individual to be trained and validated."""

    dna: DNA
    seed: int
    inherited: tuple[bytes, ...] = ()  # weights of each parent that passes them on; empty: random weights
    recombination: str = ""  # how the weights of two parents are combined: a name from genepool.mutations.recombination
    checkpoint: bytes | None = None  # where an interrupted training of the same request continues
    budget: TrainingBudget = AS_CONFIGURED
    peers: Peers | None = None  # processes to share the training with


class Trained(NamedTuple):
    evaluation: Evaluation
    weights: bytes | None  # None if the network could not be trained


class Evaluator(Protocol):
    """Trains and validates individuals."""

    def evaluate(self, request: TrainingRequest, observe: Observer = ignore) -> Trained:
        """Train and validate a network; one too large, diverging or out of memory is a result, not an exception."""


@runtime_checkable
class PeerEvaluator(Protocol):
    """An evaluator that can also compute slices of a training that another process owns."""

    def help(self, request: TrainingRequest, leader: Leader) -> None:
        """Compute slices until the leader has no more; raise TrainingError if the network cannot be trained here."""


Evaluators = Callable[[int], Evaluator]  # a version of the settings -> the evaluator of individuals born under it


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
    """Schedule of the learning rate: constant, linear, or a plugin's. Differs from the paper if it is not constant."""
    nesterov: bool = False
    """Differs from the paper if on: Nesterov momentum."""
    smoothing: Annotated[float, Meta(ge=0, le=0.9)] = 0.0
    """Label smoothing. Differs from the paper if it is not 0: this share of the target is spread over all classes."""
    averaging: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Differs from the paper if it is not 0: the final share of the steps whose mean weights are kept and validated."""
    precision: Literal["float32", "mixed", "auto"] = "float32"
    """Arithmetic of the training. Differs from the paper if it is not float32: `auto` uses bfloat16 on CPUs that have
    instructions for it, except for networks with depthwise convolutions, which it slows down, and float32 elsewhere;
    `mixed` always uses bfloat16, or float16 on GPUs without it. A CPU without the instructions then takes ten times as
    long, and more memory than predicted."""
    validation_images: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    """Validation images that the fitness is measured on; none: all."""
    checkpoint_every: Annotated[float, Meta(ge=0.1, le=1e6)] = 60.0
    """Seconds between two checkpoints of a training."""


WORST = -1.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest networks that are trained, or born; the search space itself has no limit.

    A network must always fit into the memory that its worker really has: a share of the machine's, or of a GPU's.
    """

    parameters: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Differs from the paper if given: networks with more parameters are not trained and get fitness 0."""
    flops: Annotated[float, Meta(gt=0, le=1e30)] | None = None
    """Differs from the paper if given: networks that need more FLOPs for the inference of one image are not trained."""
    milliseconds: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    """Differs from the paper if given: a network that takes longer for the inference of one image, on the machine that
    trained it, is less fit than every network within the limit. Without a limit the time is not measured."""
    memory: Annotated[int, Meta(ge=1, le=2**50)] | None = None
    """Differs from the paper if given: networks that are predicted to need more bytes of memory are not trained."""
    child_steps: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    """Differs from the paper if given: steps that a child must have time for, otherwise its mutation is drawn again.
    Networks that cost no more than one convolution of 16 channels are always allowed."""
    redraw: bool = False
    """Differs from the paper if on: a mutation that exceeds `limits.parameters` or `limits.flops` is drawn again, and
    so is one that makes a network no smaller although it exceeds `limits.milliseconds`."""

    def fault(self, of: Capacity) -> str | None:
        """Why a network with these parameters and FLOPs is too large, or None."""
        if self.parameters is not None and of.parameters > self.parameters:
            return f"{of.parameters:,} parameters are over the limit of {self.parameters:,}; raise limits.parameters."
        if self.flops is not None and of.flops > self.flops:
            return f"{of.flops:,} FLOPs per image are over the limit of {self.flops:,.0f}; raise limits.flops."
        return None

    def penalised(self, fitness: float, milliseconds: float | None) -> float:
        """Lower the fitness of a network that takes this long for one image. Differs from the paper if there is a
        limit: a slower network survives, but below zero, where no network within the limit is; it ranks higher the
        closer it is to the limit, so that evolution can recover."""
        if self.milliseconds is not None and milliseconds is not None and milliseconds > self.milliseconds:
            return fitness * self.milliseconds / milliseconds + WORST
        return fitness

    def is_slow(self, milliseconds: float | None) -> bool:
        """Whether a network that takes this long for one image (None: unknown) exceeds the limit."""
        return self.milliseconds is not None and milliseconds is not None and milliseconds > self.milliseconds

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
        """Return the fitness of a trained network with these FLOPs per image, 0 to 1. A product, as in MnasNet (Tan et
        al., 2019): no trained network ranks below one that could not be trained. FLOPs below the target are free: a
        first convolution, not yet trained, would lose against the trivial network."""
        if self.kind == "accuracy":
            return accuracy
        return accuracy * float(max(1.0, flops / self.flops_target) ** -self.flops_weight)


Schedule = Callable[[int, int], float]
"""(steps done, steps in total) -> a factor for the DNA's learning rate. It must be a pure function, because a resumed
training calls it again. If time limits the steps, the total is 0 at first and may change later."""

SCHEDULES: Registry[Schedule] = Registry("schedule", "genepool.schedules")

WARM_UP = 20
"""Steps until a decaying learning rate reaches its maximum, so that the first ones do not destroy inherited weights."""


@SCHEDULES.register("constant")
def constant(done: int, steps: int) -> float:
    """The paper's schedule."""
    return 1.0


@SCHEDULES.register("linear")
def linear(done: int, steps: int) -> float:
    """Differs from the paper: warm up, then fall to zero at the last step."""
    warm = min(1.0, (done + 1) / WARM_UP)
    return min(warm, (steps - done) / steps) if steps else warm
