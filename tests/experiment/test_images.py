"""An experiment knows its images: what changed is said, nothing is mislabelled, and models need no images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from genepool import Experiment
from genepool.errors import DataError
from tests.support.in_process import genepool
from tests.support.photographs import photographs

SMALL = (
    *("--workers", 1, "--population", 3, "--steps", 15, "--individuals", 3, "--size", "16x16"),
    *("--set", "budget.time=none", "--set", "population.durability=fast"),
)


def refused(*words: object) -> str:
    result = genepool(*words)
    assert result.returncode == 2 and result.stderr.strip().count("\n") == 0, result.stderr
    return result.stderr


def done(*words: object) -> str:
    result = genepool(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photographs and an experiment on them."""
    folder = tmp_path_factory.mktemp("trained")
    photographs(folder / "photos")
    done("run", folder / "e", "--data", folder / "photos", *SMALL)
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The photographs, which a test may change, and a copy of the experiment on them."""
    photos = trained / "photos"
    shutil.copytree(photos, tmp_path / "kept")
    shutil.copytree(trained / "e", tmp_path / "e")
    yield tmp_path / "e", photos
    shutil.rmtree(photos, ignore_errors=True)
    shutil.copytree(tmp_path / "kept", photos)


def first_class(photos: Path) -> Path:
    return sorted(entry for entry in photos.iterdir() if entry.is_dir())[0]


def test_a_renamed_class_is_told_and_never_swaps_labels(copied, tmp_path):
    """`predict` used to call the first class by the name of the second."""
    directory, photos = copied
    old = first_class(photos)
    picture = shutil.copy(next(iter(sorted(old.iterdir()))), tmp_path / "picture.png")
    before = done("predict", directory, picture, "--json")
    new = old.rename(photos / f"z{old.name}")
    said = f"the class '{old.name}' is gone and the class '{new.name}' is new; restore them or start a new experiment"
    assert said in refused("run", directory, "--individuals", 4)
    assert said in refused("run", directory, "--individuals", 4, "--accept-images")
    assert said in refused("worker", directory)
    assert done("predict", directory, picture, "--json") == before
    result = genepool("export", directory, "--out", tmp_path / "model.pt2")
    assert result.returncode == 0 and said in result.stderr and "images of noise" in result.stdout
    assert done("predict", tmp_path / "model.pt2", picture, "--json") == before
    assert Experiment.open(directory).model().classes == tuple(sorted({old.name, *json_classes(before)}))


def json_classes(answer: str) -> set[str]:
    return {guess["label"] for prediction in json.loads(answer) for guess in prediction["guesses"]}


def test_new_and_deleted_images_are_told_and_can_be_accepted(copied):
    directory, photos = copied
    folder = first_class(photos)
    gone, *_, last = sorted(folder.iterdir())
    shutil.copy(last, folder / "zz-new.png")
    gone.unlink()
    said = refused("run", directory, "--individuals", 4)
    assert f"the image '{folder.name}/{gone.name}' is gone and the image '{folder.name}/zz-new.png' is new" in said
    assert "restore them or continue with --accept-images." in said
    assert len(Experiment.open(directory).history().finished()) == 3
    done("run", directory, "--individuals", 4, "--accept-images")
    assert len(Experiment.open(directory).history().finished()) == 4
    done("run", directory, "--individuals", 5)


def test_without_the_images_models_can_still_be_used(copied, tmp_path):
    directory, photos = copied
    picture = shutil.copy(next(iter(sorted(first_class(photos).iterdir()))), tmp_path / "picture.png")
    known = json.loads(done("best", directory, "--json"))
    shutil.rmtree(photos)
    assert json.loads(done("best", directory, "--json"))["test_accuracy"] == known["test_accuracy"] is not None
    shutil.rmtree(directory / "best")
    assert "test accuracy        not measured: There is no folder" in done("best", directory)
    assert json_classes(done("predict", directory, picture, "--json"))
    result = genepool("export", directory, "--out", tmp_path / "model.onnx", "--format", "onnx", "--json")
    written = json.loads(result.stdout)
    assert written["validation_accuracy"] == known["accuracy"] and "There is no folder" in written["without_images"]
    with pytest.raises(DataError, match="There is no folder"):
        Experiment.open(directory).run()


def test_touched_files_and_another_decoder_are_no_change(copied):
    directory, photos = copied
    for file in first_class(photos).iterdir():
        file.touch()
    done("run", directory, "--individuals", 4)


def test_a_damaged_record_is_one_sentence(copied):
    directory, _ = copied
    (directory / "images.json").write_text("{")
    assert "images.json' is damaged" in refused("run", directory, "--individuals", 4)
