"""`make check-export`: models in the hands of strangers, for real. Takes minutes and a network or a mirror for pip.

Three data sets, none of them CIFAR-10: Fashion-MNIST (the whole where GENEPOOL_DATA has it, else the shipped part), a
folder of photographs of unequal sizes and modes, and handwritten digits. On each: evolve, export in every format, and
predict in a new virtual environment that has only torch, and in one that has only onnxruntime and NumPy. All labels
must be those of the experiment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

from genepool.experiment import Experiment
from genepool.export import best_of
from genepool.nn.data import prepare
from tests.acceptance.processes import COMMAND
from tests.photographs import digits, photographs

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parent.parent / "constraints.txt"
ENDS = {"torch": ".pt2", "onnx": ".onnx", "source": "-source"}
PACKAGES = {"torch": ["torch"], "onnx": ["onnxruntime", "numpy"]}
ABSENT = {"torch": ["genepool", "numpy", "onnxruntime", "PIL"], "onnx": ["genepool", "torch"]}
TIME = os.environ.get("TIME", "30s")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="genepool-strangers-") as temporary:
        folder = Path(temporary)
        models = folder / "models"
        models.mkdir()
        expected = {name: evolve(folder, models, name, data) for name, data in sources(folder).items()}
        wrong = [line for kind in PACKAGES for line in ask(folder, models, kind, expected)]
    say("All labels are identical." if not wrong else "NOT identical: " + "; ".join(wrong))
    sys.exit(1 if wrong else 0)


def sources(folder: Path) -> dict[str, str]:
    whole = Path(os.environ.get("GENEPOOL_DATA", "nowhere")) / "fashion-mnist"
    return {
        "fashion": "fashion-mnist" if whole.is_dir() else "fashion-mini",
        "photographs": str(photographs(folder / "images", crops=180)),
        "digits": str(digits(folder / "digits.npz")),
    }


def evolve(folder: Path, models: Path, name: str, data: str) -> np.ndarray:
    """Evolves and exports; returns what the experiment itself says of its validation images."""
    run("run", folder / name, "--data", data, "--time", TIME, "--set", "mutations=3")
    for form, end in ENDS.items():
        facts = json.loads(run("export", folder / name, "--format", form, "--out", models / f"{name}{end}", "--json"))
        say(
            f"{name} as {form}: {facts['parameters']:,} parameters, {100 * facts['validation_accuracy']:.1f} % on "
            f"{facts['checked_images']} images, probabilities within {facts['largest_difference']:.1g}"
        )
    experiment = Experiment.open(folder / name)
    dataset = prepare(experiment.source())
    pixels = np.asarray(dataset.validation_pixels)
    (models / f"{name}.bytes").write_bytes(pixels.tobytes())
    (models / f"{name}.shape").write_text(json.dumps(pixels.shape))
    return best_of(experiment, dataset)[1].predict(pixels)


def ask(folder: Path, models: Path, kind: str, expected: dict[str, np.ndarray]) -> list[str]:
    """Which models answer otherwise in a new environment."""
    place = folder / f"venv-{kind}"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", CONSTRAINTS, *PACKAGES[kind]], check=True)
    # Isolated: nothing of this project, and no other package of this machine, can be found by accident.
    alone = [python, "-I", "-W", "ignore", "-c"]
    for name in ABSENT[kind]:
        found = subprocess.run([*alone, f"import {name}"], capture_output=True, check=False).returncode == 0
        assert not found, f"{name} is in the environment that should not have it"
    command = [*alone, (HERE / "stranger.py").read_text(), kind, models]
    answers = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=place).stdout)
    wrong = []
    for model, probabilities in answers.items():
        name = model.partition(".")[0].removesuffix("-source")
        labels, original = np.argmax(probabilities, 1), expected[name].argmax(1)
        say(f"{model} with only {' and '.join(PACKAGES[kind])}: {(labels == original).sum()} of {len(original)} labels")
        if not np.array_equal(labels, original):
            wrong.append(f"{model} with {kind}")
    return wrong


def run(*arguments: object) -> str:
    return subprocess.run([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True).stdout


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
