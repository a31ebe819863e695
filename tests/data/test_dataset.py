"""What training sees, and how it is kept."""

import os
import resource
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from genepool.data import ArraySource, open_source, prepare
from genepool.errors import DataError


def only_folder(cache: Path) -> Path:
    (folder,) = (cache / "prepared").iterdir()
    return folder


def check_parts(source, dataset, shares: tuple[int, int]) -> None:
    """Sizes, even classes, statistics and padding of a data set with even classes."""
    train, validation = shares
    classes = len(dataset.classes)
    assert np.bincount(dataset.train_labels).tolist() == [train // classes] * classes
    assert np.bincount(dataset.validation_labels).tolist() == [validation // classes] * classes
    inside = dataset.train_pixels[:, 4:-4, 4:-4]
    assert inside.shape == (train, *dataset.image) and dataset.train_pixels.shape[1] == dataset.height + 8
    assert dataset.mean == pytest.approx(tuple(inside.mean(axis=(0, 1, 2)) / 255), abs=1e-6)
    assert dataset.std == pytest.approx(tuple(inside.std(axis=(0, 1, 2), dtype=np.float64) / 255), abs=1e-6)
    border = np.rint(np.array(dataset.mean) * 255)
    for edge in (np.s_[:, :4], np.s_[:, -4:], np.s_[:, :, :4], np.s_[:, :, -4:]):
        assert (dataset.train_pixels[edge] == border).all()
    every = [image.tobytes() for part in (inside, dataset.validation_pixels) for image in part]
    assert sorted(every) == sorted(image.tobytes() for image in source.development().images.pixels)


def test_fashion_mini_is_split_measured_and_padded(tmp_path):
    source = open_source("fashion-mini")
    dataset = prepare(source, cache=tmp_path)
    check_parts(source, dataset, (6000, 1000))
    assert dataset.name == "fashion-mini" and dataset.flip and dataset.pad == 4


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "shares"),
    [
        pytest.param("cifar-10", (45_000, 5_000), marks=pytest.mark.thorough),
        ("fashion-mnist", (54_000, 6_000)),
    ],
)
def test_whole_sets_are_split_measured_and_padded(whole_data, tmp_path, name, shares):
    source = open_source(name, data_dir=whole_data)
    dataset = prepare(source, cache=tmp_path)
    check_parts(source, dataset, shares)
    if name == "cifar-10":
        assert dataset.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=0.001)


def test_train_validation_and_test_share_no_image_and_miss_none(numbered, numbers_of, tmp_path):
    source = numbered([100, 200, 50])
    dataset = prepare(source, cache=tmp_path)
    train = numbers_of(dataset.train_pixels, pad=4)
    validation, test = numbers_of(dataset.validation_pixels), numbers_of(source.held_out().pixels)
    assert (len(train), len(validation), len(test)) == (283, 32, 35)
    assert train | validation | test == set(range(350))
    assert np.bincount(dataset.validation_labels).tolist() == [9, 18, 5]  # 10 % of 90, 180 and 45


def test_labels_stay_with_their_images(numbered, tmp_path):
    dataset = prepare(numbered([100, 200]), cache=tmp_path)
    first = 256 * dataset.train_pixels[:, 4, 4, 0].astype(int) + dataset.train_pixels[:, 7, 4, 0]
    assert ((first >= 100) == (dataset.train_labels == 1)).all()


def test_the_test_part_does_not_depend_on_the_seed_but_the_validation_part_does(numbered, numbers_of, tmp_path):
    parts = [prepare(numbered([60, 60]), cache=tmp_path, seed=seed) for seed in (0, 1)]
    validation = [numbers_of(part.validation_pixels) for part in parts]
    every = [numbers_of(part.train_pixels, pad=4) | seen for part, seen in zip(parts, validation, strict=True)]
    assert validation[0] != validation[1] and every[0] == every[1]


def test_the_same_seed_gives_the_same_files(numbered, tmp_path):
    first, second = (prepare(numbered([60, 60]), cache=tmp_path / name) for name in ("one", "two"))
    assert (first.train_pixels == second.train_pixels).all() and (first.train_labels == second.train_labels).all()


@pytest.mark.parametrize("pad", [0, 2])
def test_padding_may_be_chosen(numbered, tmp_path, pad):
    dataset = prepare(numbered([60, 60]), cache=tmp_path, pad=pad)
    assert dataset.train_pixels.shape[1:] == (4 + 2 * pad, 4 + 2 * pad, 1)


def test_a_beginning_of_the_validation_part_is_a_fair_sample(tmp_path):
    dataset = prepare(open_source("fashion-mini"), cache=tmp_path)
    assert np.bincount(dataset.validation_labels[:100]).tolist() == pytest.approx([10] * 10, abs=2)


def test_a_constant_channel_does_not_divide_by_zero(tmp_path):
    dataset = prepare(ArraySource(np.full((20, 4, 4), 9, np.uint8), [0, 1] * 10), cache=tmp_path)
    assert dataset.mean == pytest.approx((9 / 255,)) and dataset.std[0] > 0


def test_two_classes_of_five_images_are_enough(numbered, tmp_path):
    dataset = prepare(numbered([5, 5]), cache=tmp_path)
    assert np.bincount(dataset.train_labels).tolist() == [3, 3]
    assert np.bincount(dataset.validation_labels).tolist() == [1, 1]


def test_a_class_without_training_images_is_named(tmp_path):
    class OnlyInValidation(ArraySource):
        def development(self):
            whole = super().development()
            return type(whole)(images=whole.images, validation=whole.images.labels == 1)

    with pytest.raises(DataError, match="'1' of 'arrays' has no image to train on"):
        prepare(OnlyInValidation(np.zeros((20, 4, 4), np.uint8), [0, 1] * 10), cache=tmp_path)


class Counting(ArraySource):
    """Counts how often it is read; reading the test part is an error."""

    reads = 0

    def development(self):
        self.reads += 1
        return super().development()

    def held_out(self):
        raise AssertionError("the test part was opened")


@pytest.fixture
def counting() -> Counting:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    return Counting(pixels, [0, 1] * 20)


def test_preparing_again_maps_the_files_and_reads_no_source(counting, tmp_path):
    first = prepare(counting, cache=tmp_path)
    again = prepare(counting, cache=tmp_path)
    assert counting.reads == 1
    assert isinstance(again.train_pixels, np.memmap) and not again.train_pixels.flags.writeable
    assert (again.train_pixels == first.train_pixels).all() and again.mean == first.mean
    prepare(counting, cache=tmp_path, seed=1)
    prepare(counting, cache=tmp_path, pad=1)
    assert counting.reads == 3


def test_opening_prepared_data_is_quick(tmp_path):
    prepare(open_source("fashion-mini"), cache=tmp_path)
    times = []
    for _ in range(10):
        start = time.thread_time()  # which other work on the machine hardly changes
        prepare(open_source("fashion-mini"), cache=tmp_path)
        times.append(time.thread_time() - start)
    assert min(times) < 0.05


def test_the_cache_holds_no_pickle_and_nothing_half_made(counting, tmp_path):
    prepare(counting, cache=tmp_path)
    names = {path.name for path in only_folder(tmp_path).iterdir()}
    assert names == {"meta.json", *(f"{a}_{b}.npy" for a in ("train", "validation") for b in ("pixels", "labels"))}


@pytest.mark.parametrize("name", ["meta.json", "train_pixels.npy", "train_labels.npy", "validation_pixels.npy"])
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "other"])
def test_a_damaged_cache_is_built_again(counting, tmp_path, name, damage):
    whole = prepare(counting, cache=tmp_path)
    expected, path = whole.train_pixels.copy(), only_folder(tmp_path) / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        other = b'{"format": 0}' if name == "meta.json" else b"\x80\x04K\x01."
        path.write_bytes({"empty": b"", "short": content[: len(content) // 2], "other": other}[damage])
    again = prepare(counting, cache=tmp_path)
    assert counting.reads == 2 and (again.train_pixels == expected).all()
    assert only_folder(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_replaced(counting, tmp_path):
    prepare(counting, cache=tmp_path)
    folder = only_folder(tmp_path)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    assert len(prepare(counting, cache=tmp_path).train_labels) == 32


def test_a_cache_that_cannot_be_written_is_named(counting, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="GENEPOOL_CACHE"):
        prepare(counting, cache=tmp_path / "file")


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands in for the full disk: writing fails in the same place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        with pytest.raises(DataError, match=r"cannot be written .*GENEPOOL_CACHE"):
            prepare(open_source("fashion-mini"), cache=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "prepared").iterdir()) == []


def test_processes_that_prepare_at_once_agree(tmp_path):
    program = (
        "import hashlib, sys; from pathlib import Path; from genepool.data.dataset import prepare\n"
        "from genepool.data import open_source\n"
        "data = prepare(open_source('fashion-mini'), cache=Path(sys.argv[1]))\n"
        "assert 'torch' not in sys.modules\n"
        "print(hashlib.md5(data.train_pixels).hexdigest())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) for _ in range(4)]
    printed = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(printed) == 1 and only_folder(tmp_path)


def test_large_images_are_prepared_a_few_at_a_time(tmp_path):
    """48 MB of images: all of them at once, counted as integers of eight bytes, would be 384 MB more."""
    source = ArraySource(np.zeros((48, 1000, 1000), dtype=np.uint8), np.arange(48) % 2)
    tracemalloc.start()
    try:
        prepare(source, cache=tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 120 * 10**6
    finally:
        tracemalloc.stop()
