"""`genepool export` and `genepool predict` on real images: three small evolutions, every format, and a stranger."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from genepool.cli import cli
from genepool.data import prepare
from genepool.experiment import Experiment
from tests.support import in_process
from tests.support.photographs import digits, photographs

STRANGER = Path(__file__).parent.parent / "acceptance" / "model_user.py"
ENDS = {"torch": ".pt2", "onnx": ".onnx", "source": "-source"}


def call(*arguments):
    """In this process: loading torch takes longer than all the rest."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def told(*arguments):
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class Evolved:
    """Experiments on three data sets, exported in every format into one folder, and their validation images."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.models = folder, folder / "models"
        self.models.mkdir()
        self.data = {
            "fashion": "fashion-mini",
            "photos": str(photographs(folder / "photographs")),
            "digits": str(digits(folder / "digits.npz")),
        }
        self.exported = {}
        for name, data in self.data.items():
            self._evolve(name, data)
            for form, end in ENDS.items():
                target = self.models / f"{name}{end}"
                self.exported[name, form] = told("export", folder / name, "--format", form, "--out", target)
            pixels = np.asarray(self.dataset(name).validation_pixels)
            (self.models / f"{name}.bytes").write_bytes(pixels.tobytes())
            (self.models / f"{name}.shape").write_text(json.dumps(pixels.shape))

    def _evolve(self, name, data):
        small = (
            "population.size=4",
            "budget.individuals=6",
            "training.steps=40",
            "experiment.seed=1",
            "breeding.mutations=12",
        )
        in_process.evolved(self.folder / name, f"data.source={data}", *small)
        told("best", self.folder / name)

    def dataset(self, name):
        return prepare(Experiment.open(self.folder / name).source())

    def model(self, name, form):
        return self.models / f"{name}{ENDS[form]}"


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    return Evolved(tmp_path_factory.mktemp("takeaway"))


@pytest.fixture(scope="module")
def labels(evolved):
    """What the experiments themselves say of their validation images."""
    found = {}
    for name in evolved.data:
        data = evolved.dataset(name)
        model = Experiment.open(evolved.folder / name).model()
        found[name] = model.network.predict(data.validation_pixels)
    return found


def test_every_export_was_checked_on_all_validation_images(evolved):
    for (name, form), facts in evolved.exported.items():
        assert set(facts) == {
            "path", "format", "ids", "validation_accuracy", "test_accuracy", "parameters", "checked_images",
            "largest_difference", "without_images",
        }  # fmt: skip
        assert facts["without_images"] is None
        best = json.loads((evolved.folder / name / "best" / "best.json").read_text())
        assert facts["ids"] == [best["id"]] and facts["format"] == form
        assert facts["test_accuracy"] == best["test_accuracy"]
        assert facts["validation_accuracy"] == pytest.approx(best["fitness"])
        assert facts["checked_images"] == len(evolved.dataset(name).validation_labels)
        assert facts["largest_difference"] <= 1e-4


@pytest.mark.parametrize(("kind", "forbidden"), [("torch", ["genepool", "numpy"]), ("onnx", ["genepool", "torch"])])
def test_a_stranger_without_genepool_gets_identical_labels(kind, forbidden, evolved, labels):
    """One who has torch and not even NumPy; one who has onnxruntime and NumPy, and no torch."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", STRANGER, kind, evolved.models, *forbidden],
        capture_output=True, text=True, check=False, cwd=evolved.folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    answers = json.loads(result.stdout)
    assert len(answers) == (6 if kind == "torch" else 3)
    for model, probabilities in answers.items():
        name = model.partition(".")[0].removesuffix("-source")
        assert np.array_equal(np.argmax(probabilities, 1), labels[name].argmax(1))
        assert np.abs(np.array(probabilities) - labels[name]).max() < 1e-4


def test_predict_gives_the_same_by_every_format_and_by_the_experiment(evolved):
    images = evolved.data["photos"]
    answers = [told("predict", evolved.folder / "photos", images, "--top", 2)]
    answers += [told("predict", evolved.model("photos", form), images, "--top", 2) for form in ENDS]
    assert len(answers[0]) == 72
    for one in answers:
        assert [image["guesses"][0]["label"] for image in one] == [i["guesses"][0]["label"] for i in answers[0]]
        for image, other in zip(one, answers[0], strict=True):
            assert image["image"] == other["image"] and len(image["guesses"]) == 2 and image["error"] is None
            assert sum(guess["probability"] for guess in image["guesses"]) == pytest.approx(1)
            assert image["guesses"][0]["probability"] == pytest.approx(other["guesses"][0]["probability"], abs=1e-4)


def test_the_source_folder_itself_reads_every_kind_of_image_file_as_we_do(evolved):
    """Its own reader of images against ours, on files of all modes."""
    files = sorted(Path(evolved.data["photos"]).glob("temple/*"))[:18]
    ours = told("predict", evolved.model("photos", "source"), *files)
    script = evolved.model("photos", "source") / "model.py"
    result = subprocess.run([sys.executable, "-B", script, *files], capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == [image["image"] for image in ours]
    for line, image in zip(lines, ours, strict=True):
        best = image["guesses"][0]
        assert line[1] == f"{best['label']} {100 * best['probability']:.1f} %", line


def test_predict_prints_a_line_for_each_image(evolved):
    [image] = sorted(Path(evolved.data["photos"]).glob("dahlia/003.*"))
    result = call("predict", evolved.model("photos", "torch"), image, "--top", 1)
    assert result.exit_code == 0
    [line] = result.stdout.splitlines()
    assert line.startswith(f"{image}: ") and line.endswith(" %") and "," not in line


def test_the_model_card_has_the_facts(evolved):
    text = (evolved.model("fashion", "source") / "README.md").read_text()
    best = json.loads((evolved.folder / "fashion" / "best" / "best.json").read_text())
    for fact in (
        "fashion-mini", f"{100 * best['fitness']:.1f} %", f"{100 * best['test_accuracy']:.1f} %", "FLOPs per image",
        f"{best['parameters']:,}", f"{best['individuals']} individuals", "(first network)", "Ankle boot", best["id"],
    ):  # fmt: skip
        assert fact in text, fact


def test_metadata_can_be_read_by_the_formats_own_means(evolved):
    import onnx
    import torch
    from safetensors import safe_open

    extra = {"genepool.json": ""}
    torch.export.load(evolved.model("digits", "torch"), extra_files=extra)
    facts = json.loads(extra["genepool.json"])
    properties = {p.key: p.value for p in onnx.load(evolved.model("digits", "onnx")).metadata_props}
    with safe_open(evolved.model("digits", "source") / "weights.safetensors", "pt") as weights:
        assert weights.metadata() == properties
    assert facts["classes"] == json.loads(properties["classes"]) == [str(digit) for digit in range(10)]
    assert (facts["height"], facts["width"], facts["channels"]) == (8, 8, 1)
    assert facts["data"] == properties["data"] == "digits"
    assert facts["members"][0]["id"] == evolved.exported["digits", "torch"]["ids"][0]


def test_an_individual_or_an_ensemble_can_be_named(evolved, tmp_path):
    status = Experiment.open(evolved.folder / "digits").history()
    living = [row.id for row in status.finished() if row.state.name == "ALIVE"]
    one = told("export", evolved.folder / "digits", living[0][-8:], "--format", "source", "--out", tmp_path / "one")
    assert one["ids"] == [living[0]]
    for form, end in ENDS.items():
        target = tmp_path / f"both{end}"
        both = told("export", evolved.folder / "digits", *living[:2], "--format", form, "--out", target)
        assert both["ids"] == living[:2] and both["test_accuracy"] is None
        Image.new("L", (30, 40), 100).save(tmp_path / "a.png")
        assert len(told("predict", target, tmp_path / "a.png", "--top", 99)[0]["guesses"]) == 10


def refused(*arguments):
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    [line] = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    return line


def test_what_is_there_is_replaced_only_by_force_and_only_if_it_is_an_export(evolved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = evolved.folder / "digits"
    for form, end in ENDS.items():
        assert told("export", experiment, "--format", form)["path"] == f"digits{end}"
        before = sorted(path.stat().st_ino for path in tmp_path.rglob("*"))
        assert "already exists" in refused("export", experiment, "--format", form)
        assert sorted(path.stat().st_ino for path in tmp_path.rglob("*")) == before
        told("export", experiment, "--format", form, "--force")
    (tmp_path / "digits-source" / "thesis.txt").write_text("important")
    assert "is not an export" in refused("export", experiment, "--format", "source", "--force")
    assert (tmp_path / "digits-source" / "thesis.txt").read_text() == "important"
    assert "is not an export" in refused("export", experiment, "--format", "source", "--force", "--out", "digits.onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"digits.pt2", "digits.onnx", "digits-source"}


def test_bad_requests_are_refused_before_any_work_and_leave_nothing(evolved, tmp_path):
    experiment = evolved.folder / "digits"
    history = Experiment.open(experiment).history()
    best = evolved.exported["digits", "torch"]["ids"][0]
    assert "must end in .onnx" in refused("export", experiment, "--format", "onnx", "--out", tmp_path / "a.pt2")
    assert "create its folder first" in refused("export", experiment, "--out", tmp_path / "no" / "a.pt2")
    assert "is not in this experiment" in refused("export", experiment, "nobody", "--out", tmp_path / "a.pt2")
    assert "given twice" in refused("export", experiment, best, best, "--out", tmp_path / "a.pt2")
    assert "no experiment" in refused("export", tmp_path, "--out", tmp_path / "a.pt2")
    assert call("export", experiment, "--format", "tensorflow").exit_code == 2
    dead = [row for row in history.rows.values() if row.state.name != "ALIVE"]
    assert dead, "of six individuals in a population of four, some have died"
    result = call("export", experiment, dead[0].id, "--out", tmp_path / "a.pt2")
    assert result.exit_code == 0 or "has no weights" in result.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"a.pt2"}


@pytest.mark.parametrize("form", ENDS)
def test_an_export_that_answers_otherwise_fails_and_leaves_nothing(form, evolved, tmp_path, monkeypatch):
    """By a little more than what is allowed, on a single image."""
    from genepool.export import FORMATS

    right = FORMATS[form].load

    def wrong(path):
        answer, seen = right(path), []

        def off(pixels):
            seen.append(len(pixels))
            answers = np.array(answer(pixels))
            if len(seen) == 2:
                answers[-1] += 1.5e-4
            return answers

        return off

    monkeypatch.setitem(FORMATS, form, FORMATS[form]._replace(load=wrong))
    target = tmp_path / f"digits{ENDS[form]}"
    assert "does not answer like the original on 1 of " in refused(
        "export", evolved.folder / "digits", "--format", form, "--out", target
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ENDS)
def test_a_full_disk_gets_one_sentence_and_leaves_nothing(form, evolved, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    target = tmp_path / f"digits{ENDS[form]}"
    sentence = refused("export", evolved.folder / "digits", "--format", form, "--out", target)
    assert "No space left on device" in sentence and target.name in sentence
    assert list(tmp_path.iterdir()) == []


def test_without_the_onnx_packages_the_extra_is_named(evolved, tmp_path, monkeypatch):
    for name in ("onnx", "onnx.checker", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    sentence = refused("export", evolved.folder / "digits", "--format", "onnx", "--out", tmp_path / "a.onnx")
    assert "pip install 'genepool[onnx]'" in sentence
    assert "pip install 'genepool[onnx]'" in refused("predict", evolved.model("digits", "onnx"), evolved.data["photos"])


def test_a_network_too_large_for_onnx_is_refused(evolved, tmp_path, monkeypatch):
    monkeypatch.setattr("genepool.export.onnx_file.MAX_BYTES", 2**24)
    sentence = refused("export", evolved.folder / "digits", "--format", "onnx", "--out", tmp_path / "a.onnx")
    assert "exceed the 2 GB" in sentence and list(tmp_path.iterdir()) == []
