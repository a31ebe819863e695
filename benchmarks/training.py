"""The speed of full training steps relative to a matrix multiplication, in one interleaved run.

One thread, batch 50, images of the shipped data set. Prints medians and writes benchmarks/results/training.json.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import torch

from genepool.cli.text import table
from genepool.data import open_source, prepare
from genepool.dna import DNA, codec, initial, requirements, zoo
from genepool.evaluation import Training
from genepool.nn import Model, TrainingRun, prepare_process
from genepool.nn.batches import Batches

ROUNDS = 3
SECONDS = 1.0
HERE = Path(__file__).parent


def networks() -> dict[str, DNA]:
    return {
        "initial": initial(),
        "three-convolutions": codec.read(HERE.parent / "examples" / "three-convolutions.json"),
        "resnet-20": zoo("resnet-20", image_channels=1),
    }


def per_second(work) -> float:
    """Return how often `work` can be done per second."""
    work()
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < SECONDS:
        work()
        count += 1
    return count / elapsed


def main() -> None:
    prepare_process()
    data = prepare(open_source("fashion-mini"))
    cpu = torch.device("cpu")
    batches = Batches(data, batch=50, seed=0, device=cpu)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    work = {"batch": lambda: batches(3), "sgemm": lambda: a @ b}
    flops = {"sgemm": 2 * 1024**3}
    for name, dna in networks().items():
        model = Model(dna, data.image, len(data.classes), torch.Generator().manual_seed(0))
        training = TrainingRun(model, data, Training(steps=10**9), seed=0, device=cpu)
        work[name] = training.step
        flops[name] = requirements(dna, data.image, len(data.classes)).training.total
    rates: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, job in work.items():
            rates[name].append(per_second(job))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    limit = medians["sgemm"] * flops["sgemm"]
    rows = [
        [name, f"{1000 / rate:.2f}", f"{rate * flops[name] / 1e9:.2f}", f"{rate * flops[name] / limit:.1%}"]
        if name in flops
        else [name, f"{1000 / rate:.2f}", "", ""]
        for name, rate in medians.items()
    ]
    print(table(["what", "ms", "GFLOP/s", "of sgemm"], rows))
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "training.json").write_text(json.dumps({"per_second": medians, "flops": flops}, indent=2))


if __name__ == "__main__":
    main()
