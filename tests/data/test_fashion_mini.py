import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from genepool.data import open_source
from genepool.data.fashion_mini import HERE, FashionMini
from genepool.data.official.sets import FASHION_CLASSES
from genepool.errors import DataError

ROOT = Path(__file__).parents[2]
FILES = ("train.png", "validation.png", "test.png", "fashion_mini.json")


@pytest.fixture
def copy(tmp_path) -> Path:
    for name in FILES:
        shutil.copy(HERE / name, tmp_path)
    return tmp_path


def test_it_holds_6000_and_1000_and_1000_images_evenly_of_ten_classes():
    source = open_source("fashion-mini")
    development, test = source.development(), source.held_out()
    assert source.classes == FASHION_CLASSES
    assert development.images.pixels.shape == (7000, 28, 28, 1)
    assert np.bincount(development.images.labels[~development.validation]).tolist() == [600] * 10
    assert np.bincount(development.images.labels[development.validation]).tolist() == [100] * 10
    assert np.bincount(test.labels).tolist() == [100] * 10


def test_no_image_is_in_two_parts():
    source = open_source("fashion-mini")
    development = source.development()
    pixels = np.concatenate([development.images.pixels, source.held_out().pixels])
    assert len({image.tobytes() for image in pixels}) == 8000


def test_a_linear_rule_tells_trousers_from_boots():
    """The labels belong to the images: trousers are narrow and upright, boots stand low."""
    images = open_source("fashion-mini").development().images
    rows = images.pixels[..., 0].mean(axis=2)
    trousers, boots = rows[images.labels == 1], rows[images.labels == 9]
    assert trousers[:, :4].mean() > 2 * boots[:, :4].mean()


def test_it_is_small_and_carries_its_notice():
    assert sum((HERE / name).stat().st_size for name in FILES) < 3_300_000
    assert "2017 Zalando SE" in (HERE / "LICENSE").read_text()


def test_development_does_not_open_the_test_sheet(copy):
    (copy / "test.png").unlink()
    assert len(FashionMini(copy).development().images) == 7000
    with pytest.raises(DataError, match=r"test\.png"):
        FashionMini(copy).held_out()


@pytest.mark.parametrize("name", ["train.png", "validation.png", "fashion_mini.json"])
@pytest.mark.parametrize("damage", ["missing", "short", "other"])
def test_a_damaged_installation_is_named(copy, name, damage):
    whole = (copy / name).read_bytes()
    if damage == "missing":
        (copy / name).unlink()
    elif damage == "short":
        (copy / name).write_bytes(whole[: len(whole) // 2])
    else:
        (copy / name).write_bytes((copy / "test.png").read_bytes())
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        FashionMini(copy).development()


@pytest.mark.whole
def test_the_tool_builds_the_shipped_sheets_from_the_official_files(whole_data, tmp_path, monkeypatch):
    monkeypatch.setenv("GENEPOOL_DATA", str(whole_data))
    build = runpy.run_path(str(ROOT / "tools" / "make_fashion_mini.py"))["build"]
    build(tmp_path)
    assert (tmp_path / "fashion_mini.json").read_bytes() == (HERE / "fashion_mini.json").read_bytes()
    built, shipped = FashionMini(tmp_path), FashionMini()
    assert (built.development().images.pixels == shipped.development().images.pixels).all()
    assert (built.held_out().pixels == shipped.held_out().pixels).all()
