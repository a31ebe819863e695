"""The memory bound: what the DNA predicts holds for real trainings, whatever the network looks like."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from genepool.data import Dataset
from genepool.dna import DNA, OUTPUT, PROCESS_MEMORY, Shape, initial, requirements, zoo
from genepool.errors import ModelTooLargeError
from genepool.evaluation import Limits, Training, TrainingRequest
from genepool.layers import AveragePool, DepthwiseConv, Edge, GroupedConv, Identity, MaxPool, SeparableConv
from genepool.mutations import mutate
from genepool.nn import TorchEvaluator, is_mixed, to_bytes
from tests.support.networks import chain, conv

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
MIB = 2**20
GROWING = {
    "insert-convolution": 3.0,
    "alter-number-of-channels": 3.0,
    "add-skip": 2.0,
    "filter-size": 2.0,
    "insert-one-to-one": 1.0,
    "alter-stride": 0.5,
}
"""Odds that make large networks of every form."""
SMALL_LIMIT = PROCESS_MEMORY + 64 * MIB
HAS_BFLOAT16 = is_mixed("auto", CPU)

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell peaks")


def images(height: int = 32, width: int = 32, count: int = 200) -> Dataset:
    rng = np.random.default_rng(0)
    padded = (count, height + 8, width + 8, 3)
    return Dataset(
        name="noise",
        classes=tuple("0123456789"),
        height=height,
        width=width,
        channels=3,
        pad=4,
        flip=True,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        train_pixels=rng.integers(0, 256, padded, dtype=np.uint8),
        train_labels=rng.integers(0, 10, count),
        validation_pixels=rng.integers(0, 256, (100, height, width, 3), dtype=np.uint8),
        validation_labels=rng.integers(0, 10, 100),
    )


def large_dna(seed: int) -> DNA:
    """A random network that began wide and grew."""
    rng = Random(seed)
    dna = chain(conv("first", depth_factor=rng.choice((4.0, 16.0, 64.0)), stride_scale=rng.choice((0.0, 1.0))))
    for _ in range(rng.randrange(10, 80)):
        dna = mutate(dna, rng, GROWING).dna
    return dna


def own_peak() -> int:
    """The most memory that this process had of its own since its peak was last forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    figures = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmHWM", "RssFile"))}
    return (int(figures["VmHWM"]) - int(figures["RssFile"])) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def in_child(work: Callable[[], object]) -> object:
    """What a function answers in a process of its own that has torch and nothing else; its death is an error."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return json.loads(text)


def skips(depth: int, width: int, kind: str = "bn_relu") -> DNA:
    """Every layer also leads to the output, so that all activations stay to the end."""
    trunk = chain(conv("c0", depth_factor=width / 3), *(conv(f"c{i}") for i in range(1, depth)), kind=kind)
    more = (
        Identity(id=f"s{i}", from_vertex=f"v{i}", to_vertex=OUTPUT.id, depth_precedence=0, scale_precedence=0)
        for i in range(depth - 1)
    )
    return DNA(learning_rate=1e-6, vertices=trunk.vertices, edges=(*trunk.edges, *more))


def large_filters(width: int, half: float) -> DNA:
    sides: dict[str, float] = {"filter_half_width": half, "filter_half_height": half}
    return chain(conv("a", depth_factor=width / 3, stride_scale=1.0, **sides), conv("b", **sides))


def others(*edges: Edge, width: int = 48, kind: str = "bn_relu") -> DNA:
    """Kinds beyond the paper on a wide activation."""
    return chain(conv("first", depth_factor=width / 3), *edges, kind=kind)


ENDS = {"from_vertex": "x", "to_vertex": "x"}
FORMS = {
    "wide": lambda: chain(conv("a", depth_factor=200 / 3)),
    "wide without normalisation": lambda: chain(conv("a", depth_factor=200 / 3), kind="linear"),
    "deep": lambda: chain(conv("a", depth_factor=16 / 3), *(conv(f"b{i}") for i in range(30))),
    "many skips": lambda: skips(8, 48),
    "many skips without normalisation": lambda: skips(12, 48, kind="linear"),
    "many weights": lambda: chain(conv("a", depth_factor=256 / 3, stride_scale=3.0), conv("b", depth_factor=6.0)),
    "large filters": lambda: large_filters(16, 10.0),
    "resnet-20": lambda: zoo("resnet-20"),
    "depthwise": lambda: others(*(DepthwiseConv(id=f"d{i}", **ENDS) for i in range(4))),
    "depthwise and late": lambda: others(
        DepthwiseConv(id="a", late=True, filter_half_width=2.0, stride_scale=1.0, **ENDS),
        DepthwiseConv(id="b", late=True, filter_half_width=2.0, **ENDS),
        GroupedConv(id="c", late=True, stride_scale=1.0, **ENDS),
    ),
    "grouped": lambda: others(*(GroupedConv(id=f"g{i}", groups=8.0, **ENDS) for i in range(3))),
    "separable": lambda: others(*(SeparableConv(id=f"s{i}", **ENDS) for i in range(4))),
    "pooled": lambda: others(
        MaxPool(id="m", **ENDS), AveragePool(id="a", **ENDS), MaxPool(id="n", size=2.0, **ENDS),
        AveragePool(id="b", size=4.0, **ENDS),
    ),
    "silu": lambda: others(*(conv(f"c{i}") for i in range(3)), kind="silu"),
    "hard_swish": lambda: others(*(conv(f"c{i}") for i in range(3)), kind="bn_hard_swish"),
    "relu6": lambda: others(*(conv(f"c{i}") for i in range(3)), kind="relu6"),
    "affine": lambda: others(*(conv(f"c{i}") for i in range(3)), kind="affine"),
    "squeeze-excitation": lambda: others(*(conv(f"c{i}") for i in range(3)), kind="squeeze_excitation"),
}  # fmt: skip
USUAL = ("many skips without normalisation", "many weights")
OTHERS = tuple(form for form in FORMS if form not in USUAL)


def fresh(function: str, *words: int) -> object:
    """What a function of this file answers in a new interpreter: the tests' own process is large already."""
    script = f"""
import json
from genepool.nn.device import prepare_process
from tests.nn import test_memory
prepare_process()
print(json.dumps(test_memory.{function}(*{words!r})))
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def measure(dna: DNA, data: Dataset, averaging: float = 0.0, mixed: bool = False) -> tuple[int, int]:
    """Peak and bytes of weights: two generations in one process, with checkpoints and inheritance, as in a worker."""
    evaluator = TorchEvaluator(
        data, Training(steps=2, averaging=averaging, precision="mixed" if mixed else "float32"), Limits(), CPU
    )
    kept = []
    forget_peak()
    parent = evaluator.evaluate(TrainingRequest(dna, seed=0))
    child = evaluator.evaluate(
        TrainingRequest(dna, seed=1, inherited=(parent.weights,)), lambda p: kept.append(p.checkpoint())
    )
    return own_peak(), len(child.weights)


def measure_forms(mixed: bool = False, names: Iterable[str] = FORMS) -> dict[str, object]:
    data = images()
    return {form: in_child(partial(measure, FORMS[form](), data, mixed=mixed)) for form in names}


def measure_usual_forms() -> dict[str, object]:
    return measure_forms(names=USUAL)


def measure_other_forms() -> dict[str, object]:
    return measure_forms(names=OTHERS)


def measure_mixed_forms() -> dict[str, object]:
    return measure_forms(mixed=True)


@pytest.fixture(scope="module")
def measured():
    kept = {}

    def answer(form):
        of = "measure_usual_forms" if form in USUAL else "measure_other_forms"
        if of not in kept:
            kept[of] = fresh(of)
        return kept[of][form]

    return answer


@pytest.fixture(scope="module")
def measured_mixed():
    if not HAS_BFLOAT16:
        pytest.skip("the processor would imitate bfloat16, with buffers that are not predicted")
    return fresh("measure_mixed_forms")


@pytest.mark.parametrize("form", [*USUAL, *(pytest.param(form, marks=pytest.mark.thorough) for form in OTHERS)])
def test_the_prediction_is_an_upper_bound_and_not_wildly_above(form, measured):
    peak, weights = measured(form)
    predicted = requirements(FORMS[form](), Shape(32, 32, 3), 10).memory + 2 * weights
    assert peak < predicted
    if peak > PROCESS_MEMORY:
        assert predicted < 3 * peak


@pytest.mark.thorough  # the many networks below are trained in fewer bits by turns
@pytest.mark.parametrize("form", FORMS)
def test_the_prediction_is_an_upper_bound_in_fewer_bits_too(form, measured_mixed):
    peak, weights = measured_mixed[form]
    assert peak < requirements(FORMS[form](), Shape(32, 32, 3), 10).memory + 2 * weights


def measure_average() -> object:
    return in_child(partial(measure, FORMS["many weights"](), images(), averaging=1.0))


@pytest.mark.thorough
def test_the_average_of_the_weights_is_within_the_prediction_too():
    peak, weights = fresh("measure_average")
    predicted = requirements(FORMS["many weights"](), Shape(32, 32, 3), 10)
    assert peak < predicted.memory + 2 * weights + 8 * predicted.parameters < 3 * peak


def train_all(count: int) -> tuple[int, int, int, int]:
    """One worker trains all that fit, one after another; the others are refused before they take anything.

    In float32 and in fewer bits by turns, where there are instructions for it: that leaves the worst holes in the heap.
    """
    data = images(16, 16)
    evaluators = [
        TorchEvaluator(data, Training(steps=2, precision=precision), Limits(memory=2**50), CPU, memory=SMALL_LIMIT)
        for precision in ("float32", "mixed" if HAS_BFLOAT16 else "float32")
    ]
    trained = refused = slow = 0
    weights = ()
    for seed in range(count):
        dna = large_dna(seed)
        if cheap(dna, data.image):
            answer = evaluators[seed % 2].evaluate(TrainingRequest(dna, seed=seed, inherited=weights))
            weights = (answer.weights,) if answer.weights else weights
            trained += answer.evaluation.steps > 0
            refused += answer.evaluation.steps == 0
        else:
            slow += 1
    return trained, refused, slow, own_peak()


@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.thorough)])
def test_of_many_random_large_networks_none_outgrows_a_small_limit(count):
    trained, refused, slow, peak = fresh("train_all", count)
    assert trained + refused + slow == count
    assert peak < SMALL_LIMIT
    assert trained > 0.4 * count
    assert refused > 0.4 * count


def cheap(dna: DNA, image: Shape) -> bool:
    """Whether it is refused, or trained in no time: a test of memory need not wait for large filters."""
    try:
        needs = requirements(dna, image, 10)
    except ModelTooLargeError:
        return True
    return needs.memory > SMALL_LIMIT or needs.training.total < 2e9


def test_what_is_refused_is_recorded_with_figures_and_advice():
    data = images(16, 16)
    dna = chain(conv("a", depth_factor=500.0))
    for limits, memory, advice in (
        (Limits(), PROCESS_MEMORY, "this worker's share of the machine's memory; let fewer workers share it"),
        (Limits(memory=PROCESS_MEMORY), None, "raise limits.memory"),
    ):
        answer = TorchEvaluator(data, Training(), limits, CPU, memory=memory).evaluate(TrainingRequest(dna, seed=0))
        assert answer.weights is None
        assert answer.evaluation.fitness == 0
        assert "0.31 GiB" in answer.evaluation.reason
        assert advice in answer.evaluation.reason


def test_what_a_worker_begins_with_counts():
    """A small child of a large parent has the parent's weights in memory."""
    data = images(16, 16)
    evaluator = TorchEvaluator(data, Training(steps=0), Limits(memory=PROCESS_MEMORY + 40 * MIB), CPU)
    assert evaluator.evaluate(TrainingRequest(initial(), seed=0)).evaluation.reason is None
    large = to_bytes({"weight": torch.zeros(8 * MIB)})
    assert (
        "over the limit" in evaluator.evaluate(TrainingRequest(initial(), seed=0, inherited=(large,))).evaluation.reason
    )


def test_weights_are_written_as_the_library_writes_them():
    from safetensors.torch import save

    tensors = {
        "edge_b.weight": torch.randn(4, 3, 3, 3).contiguous(memory_format=torch.channels_last),
        "a": torch.randn(5, requires_grad=True),
        "losses": torch.zeros(3, 2, dtype=torch.float64),
        "nothing": torch.zeros(0, 3),
        "number": torch.tensor(3.0),
    }
    assert to_bytes(tensors) == save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})


@pytest.mark.thorough
def test_memory_is_given_back_after_a_large_network():
    script = """
import sys, torch
from genepool.nn.device import give_memory_back, prepare_process
from tests.nn.test_memory import own_peak
from tests.nn.test_memory import forget_peak
prepare_process()
x = [torch.zeros(2**20) for _ in range(100)]
del x
forget_peak(); before = own_peak()
give_memory_back(beyond=0)
forget_peak(); print((before - own_peak()) // 2**20)
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(answer.stdout) > 300
