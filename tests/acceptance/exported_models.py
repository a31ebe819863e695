"""`make check-export`: models in the hands of strangers, for real. Takes minutes and a network or a mirror for pip.

Three data sets, none of them CIFAR-10: Fashion-MNIST (the whole where GENEPOOL_DATA has it, else the shipped part), a
folder of photographs of unequal sizes and modes, and handwritten digits. On each: fit, export the best network, the
largest and both as an ensemble in every format, and predict in a new virtual environment that has only torch, and in
one that has only onnxruntime and NumPy. All labels must be those of the classifier. `genepool predict`, with every
model on the photographs' files and folder, must give them too. The largest network is a deep one with skips: a fit
that has none goes on.
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

from genepool import Experiment, ImageClassifier
from genepool.data import prepare
from tests.support.photographs import digits, photographs
from tests.support.processes import COMMAND

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parent.parent / "constraints.txt"
ENDS = {"torch": ".pt2", "onnx": ".onnx", "source": "-source"}
PACKAGES = {"torch": ["torch"], "onnx": ["onnxruntime", "numpy"]}
ABSENT = {"torch": ["genepool", "numpy", "onnxruntime", "PIL"], "onnx": ["genepool", "torch"]}
GROWING = {"grow-convolution": 3.0, "widen": 2.0, "add-skip": 3.0, "identity": 0.5, "filter-size": 0.5}
SETTINGS = {
    "training.steps": 150,
    "training_budget.share": None,
    "final_phase.share": 0.0,
    "breeding.mutations": 10,
    "limits.flops": 4e6,
    "breeding.odds": GROWING,
}
"""Steps and not time, so that a busy machine finds the same; many mutations, so that children are large at once."""
ROUNDS = 6


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="genepool-strangers-") as temporary:
        folder = Path(temporary)
        models = folder / "models"
        models.mkdir()
        expected, wrong = {}, []
        for name, data in sources(folder).items():
            expected |= evolve(folder, models, name, data)
        wrong += ask_ourselves(folder, models)
        wrong += [line for kind in PACKAGES for line in ask(folder, models, kind, expected)]
    say("All labels are identical." if not wrong else "NOT identical: " + "; ".join(wrong))
    sys.exit(1 if wrong else 0)


def sources(folder: Path) -> dict[str, str]:
    whole = Path(os.environ.get("GENEPOOL_DATA", "nowhere")) / "fashion-mnist"
    return {
        "fashion": "fashion-mnist" if whole.is_dir() else "fashion-mini",
        "photographs": str(photographs(folder / "images", crops=180)),
        "digits": str(digits(folder / "digits.npz")),
    }


def evolve(folder: Path, models: Path, name: str, data: str) -> dict[str, np.ndarray]:
    """Fits and exports; returns what the classifier, and the other models, say of the validation images."""
    classifier = fitted(folder / name, data)
    experiment = classifier.experiment
    best, largest = experiment.best().id, largest_of(experiment).id
    others = [row.id for row in experiment.population() if row.id != best]
    pixels = np.asarray(prepare(experiment.source()).validation_pixels)
    beside = {f"{name}-pair": [best, largest if largest != best else others[0]]}
    beside |= {f"{name}-large": [largest]} if largest != best else {}
    for title, identities in {name: [], **beside}.items():
        dnas = [member.decoded() for member in experiment.model(*identities).facts.members]
        say(f"{title}: {' and '.join(size(dna) for dna in dnas)}")
        for form, end in ENDS.items():
            write(folder / name, identities, form, models / f"{title}{end}")
        (models / f"{title}.bytes").write_bytes(pixels.tobytes())
        (models / f"{title}.shape").write_text(json.dumps(pixels.shape))
    answers = {title: experiment.model(*who).probabilities(pixels) for title, who in beside.items()}
    return {name: classifier.predict_proba(pixels), **answers}


def fitted(directory: Path, data: str) -> ImageClassifier:
    """Until a network with three convolutions and a skip is alive."""
    for rounds in range(1, ROUNDS + 1):
        settings = {**SETTINGS, "budget.individuals": 12 * rounds}
        classifier = ImageClassifier(time=None, directory=directory, settings=settings).fit(data)
        dna = largest_of(classifier.experiment).dna
        if len(dna.convs) >= 3 and dna.skips:
            return classifier
    raise AssertionError(f"{data}: nothing but small networks was found; try again")


def largest_of(experiment: Experiment):
    """Of the living, by its convolutions and skips."""
    return max(experiment.population(), key=lambda row: (len(row.dna.convs) + len(row.dna.skips), row.fitness))


def size(dna) -> str:
    return f"{len(dna.vertices)} vertices, {len(dna.convs)} convolutions, {len(dna.skips)} skips ({dna.in_a_line()})"


def write(directory: Path, identities: list[str], form: str, target: Path) -> None:
    facts = json.loads(run("export", directory, *identities, "--format", form, "--out", target, "--json"))
    say(
        f"{target.name}: {facts['parameters']:,} parameters, {100 * facts['validation_accuracy']:.1f} % on "
        f"{facts['checked_images']} images, probabilities within {facts['largest_difference']:.1g}"
    )


def ask_ourselves(folder: Path, models: Path) -> list[str]:
    """Which models `genepool predict` answers with otherwise than with the experiment, on files and on a folder."""
    images = folder / "images"
    files = sorted(images.glob("*/*"))
    wrong = []
    for title in ("photographs", "photographs-pair"):
        answers = {
            f"{title}{end}, {kind}": json.loads(run("predict", models / f"{title}{end}", *asked, "--top", 3, "--json"))
            for end in ENDS.values()
            for kind, asked in {"a folder": [images], "files": files}.items()
        }
        if title == "photographs":
            answers["the experiment"] = json.loads(run("predict", folder / title, images, "--top", 3, "--json"))
        labels = {k: [(a["image"], a["guesses"][0]["label"]) for a in answer] for k, answer in answers.items()}
        original = list(labels.values())[-1]
        for kind, found in labels.items():
            say(f"genepool predict by {kind}: {len(found)} images, {len(set(found) - set(original))} labels differ")
        wrong += [f"genepool predict by {kind}" for kind, found in labels.items() if found != original]
    return wrong


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
        say(
            f"{model} with only {' and '.join(PACKAGES[kind])}: {(labels == original).sum()} of {len(original)} labels "
            f"of {len(set(original.tolist()))} classes"
        )
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
