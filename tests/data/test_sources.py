import subprocess
import sys

import numpy as np
import pytest

from genepool.data import SOURCES, Development, Images, open_source
from genepool.errors import DataError, SettingsError


def test_the_five_named_sets_are_known_and_the_shipped_one_is_first():
    assert list(SOURCES)[:5] == ["fashion-mini", "cifar-10", "cifar-100", "mnist", "fashion-mnist"]


@pytest.mark.parametrize(
    ("spec", "meant"), [("cifar10", "cifar-10"), ("fashion_mini", "fashion-mini"), ("MNIST", "mnist")]
)
def test_an_unknown_name_is_refused_with_the_nearest(spec, meant):
    with pytest.raises(SettingsError) as caught:
        open_source(spec)
    assert meant in str(caught.value)


@pytest.mark.parametrize("spec", ["no/such/folder", "gone.npz", "", ".npz/x", "x" * 5000, "a\0b", "~nobody"])
def test_a_path_to_nothing_is_refused(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((DataError, SettingsError)) as caught:
        open_source(spec)
    assert str(caught.value).isprintable()


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    (tmp_path / "images.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"images\.zip.*neither"):
        open_source(tmp_path / "images.zip")


def test_a_name_wins_over_a_folder_of_that_name(image_folder, monkeypatch):
    folder = image_folder({"a": 3, "b": 3}, root="fashion-mini")
    monkeypatch.chdir(folder.parent)
    assert open_source("fashion-mini").classes[0] == "T-shirt/top"
    assert open_source("./fashion-mini").classes == ("a", "b")


def test_a_size_is_only_for_folders(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((6, 2, 2), np.uint8), y=[0, 1] * 3)
    for spec in ("fashion-mini", tmp_path / "a.npz"):
        with pytest.raises(SettingsError, match="size"):
            open_source(spec, size=(8, 8))


def test_a_data_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere.*--data-dir"):
        open_source("mnist", data_dir=tmp_path / "nowhere")


def test_digits_are_not_mirrored_and_pictures_are():
    from genepool.data.official import sets

    assert not sets.MNIST.flip
    assert sets.CIFAR_10.flip and sets.CIFAR_100.flip and sets.FASHION_MNIST.flip


def test_sources_load_no_torch():
    program = "import sys, genepool.data, genepool.data.dataset; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


PIXELS, LABELS = np.zeros((4, 3, 2, 1), np.uint8), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("pixels", "labels"),
    [
        (PIXELS[..., 0], LABELS),
        (PIXELS.astype(float), LABELS),
        (np.zeros((4, 3, 2, 4), np.uint8), LABELS),
        (PIXELS[:, :0], LABELS),
        (PIXELS[:0], LABELS[:0]),
        (PIXELS, LABELS[:3]),
        (PIXELS, LABELS.astype(np.int32)),
        (PIXELS, LABELS - 1),
    ],
)
def test_images_check_themselves(pixels, labels):
    with pytest.raises(DataError):
        Images(pixels=pixels, labels=labels)


@pytest.mark.parametrize(
    "facts",
    [
        {"validation": np.zeros(4, bool)},
        {"validation": np.ones(4, bool)},
        {"validation": np.array([True, False])},
        {"validation": LABELS},
        {"validation_share": 0.0},
        {"validation_share": 1.0},
        {"validation_share": float("nan")},
    ],
)
def test_a_development_part_checks_itself(facts):
    with pytest.raises(DataError):
        Development(images=Images(pixels=PIXELS, labels=LABELS), **facts)
