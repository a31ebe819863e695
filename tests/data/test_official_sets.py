"""The official layouts, on small files of the same form and on the whole real ones."""

import gzip
import io
import os
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genepool.data import open_source
from genepool.data.official.files import CifarLayout, IdxLayout
from genepool.data.official.sets import CIFAR_10, CIFAR_100, CIFAR_100_CLASSES, FASHION_MNIST, MNIST
from genepool.errors import DataError

SMALL_CIFAR = replace(CIFAR_10, layout=replace(CIFAR_10.layout, train_records=20, test_records=10))
SMALL_IDX = replace(MNIST, layout=IdxLayout(train_images=30, test_images=10))


def cifar_bytes(layout: CifarLayout, records: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    content = rng.integers(0, 256, (records, layout.label_bytes + 3072), dtype=np.uint8)
    content[:, : layout.label_bytes] = (np.arange(records) % layout.classes)[:, None]
    return content.tobytes()


@pytest.fixture
def cifar(tmp_path) -> Path:
    """A small CIFAR-10 in its folder."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for seed, name in enumerate(SMALL_CIFAR.layout.train):
        (folder / name).write_bytes(cifar_bytes(SMALL_CIFAR.layout, 20, seed))
    (folder / "test_batch.bin").write_bytes(cifar_bytes(SMALL_CIFAR.layout, 10, 99))
    return folder


@pytest.fixture
def mnist(tmp_path) -> Path:
    """A small MNIST in its folder."""
    folder, rng = tmp_path / "mnist", np.random.default_rng(0)
    folder.mkdir()
    for part, count in (("train", 30), ("t10k", 10)):
        pixels = rng.integers(0, 256, count * 784, dtype=np.uint8).tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 2051, count, 28, 28) + pixels)
        labels = (np.arange(count) % 10).astype(np.uint8).tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 2049, count) + labels)
    return folder


def in_tar(folder: Path, names: dict[str, str] | None = None) -> None:
    """Packs the folder into the official archive beside it, and removes the loose files."""
    with tarfile.open(folder.parent / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, (names or {}).get(path.name, f"{folder.name}/{path.name}"))
            path.unlink()
    folder.rmdir()


def test_cifar_planes_become_pixels(cifar):
    images = SMALL_CIFAR.open(cifar.parent, None).development().images
    record = np.frombuffer((cifar / "data_batch_2.bin").read_bytes(), dtype=np.uint8)[3073 * 7 : 3073 * 8]
    assert images.pixels.shape == (100, 32, 32, 3)
    assert images.labels[27] == record[0] == 7
    assert images.pixels[27, 3, 5].tolist() == [record[1 + 3 * 32 + 5 + plane * 1024] for plane in range(3)]


def test_the_fine_label_of_cifar_100_counts(tmp_path):
    layout = replace(CIFAR_100.layout, train_records=2, test_records=1)
    small = replace(CIFAR_100, layout=layout)
    (tmp_path / "cifar-100-binary").mkdir()
    record = bytes(3072)
    (tmp_path / "cifar-100-binary" / "train.bin").write_bytes(bytes([19, 99]) + record + bytes([3, 0]) + record)
    (tmp_path / "cifar-100-binary" / "test.bin").write_bytes(bytes([1, 5]) + record)
    source = small.open(tmp_path, None)
    assert source.development().images.labels.tolist() == [99, 0]
    assert source.held_out().labels.tolist() == [5]
    assert len(set(CIFAR_100_CLASSES)) == 100 and source.classes[99] == "worm"


@pytest.mark.parametrize("form", ["folder", "folder itself", "gz", "tar"])
def test_official_files_are_found_in_every_form(cifar, form):
    expected = SMALL_CIFAR.open(cifar.parent, None)
    development, held_out = expected.development().images, expected.held_out()
    root = cifar if form == "folder itself" else cifar.parent
    if form == "gz":
        for path in list(cifar.iterdir()):
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    if form == "tar":
        in_tar(cifar)
    source = SMALL_CIFAR.open(root, None)
    assert (source.development().images.pixels == development.pixels).all()
    assert (source.held_out().pixels == held_out.pixels).all()


def test_development_does_not_open_the_test_file(cifar, mnist):
    (cifar / "test_batch.bin").write_bytes(b"damaged")
    (mnist / "t10k-images-idx3-ubyte").write_bytes(b"damaged")
    for small in (SMALL_CIFAR, SMALL_IDX):
        source = small.open(cifar.parent, None)
        source.development()
        with pytest.raises(DataError, match="truncated"):
            source.held_out()


def test_the_data_folder_comes_from_the_environment_too(mnist, monkeypatch):
    monkeypatch.setenv("GENEPOOL_DATA", str(mnist.parent))
    assert SMALL_IDX.open(None, None).development().images.pixels.shape == (30, 28, 28, 1)


def test_mnist_files_of_another_folder_are_not_taken_for_fashion(mnist):
    small = replace(FASHION_MNIST, layout=SMALL_IDX.layout)
    assert small.find(mnist.parent) is None
    assert small.find(mnist) is None


def test_the_fingerprint_changes_with_a_file(cifar):
    source = SMALL_CIFAR.open(cifar.parent, None)
    before = source.fingerprint()
    assert source.fingerprint() == before
    os.utime(cifar / "data_batch_1.bin", ns=(1, 1))
    assert source.fingerprint() != before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda whole: whole[:-1], "61,459 bytes instead of 61,460.*truncated"),
        (lambda whole: whole + b"x", "more than 61,460 bytes.*not the official file"),
        (lambda whole: b"", "0 bytes instead"),
        (lambda whole: whole[:3073] + b"\x0a" + whole[3074:], "Record 1 of .*label 10.*only 10 classes"),
    ],
)
@pytest.mark.parametrize("form", ["plain", "gz", "tar"])
def test_a_damaged_cifar_file_is_named(cifar, damage, message, form):
    path = cifar / "data_batch_3.bin"
    path.write_bytes(damage(path.read_bytes()))
    if form == "gz":
        (cifar / "data_batch_3.bin.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    if form == "tar":
        in_tar(cifar)
    with pytest.raises(DataError, match=message) as caught:
        SMALL_CIFAR.open(cifar.parent, None).development()
    assert "data_batch_3.bin" in str(caught.value)


def test_a_missing_file_of_a_set_is_named(cifar):
    (cifar / "data_batch_4.bin").unlink()
    with pytest.raises(DataError, match=r"lacks the file 'data_batch_4\.bin'"):
        SMALL_CIFAR.open(cifar.parent, None)


def test_a_damaged_gz_is_named(mnist):
    path = mnist / "train-labels-idx1-ubyte"
    whole = gzip.compress(path.read_bytes())
    path.unlink()
    for content in (whole[:20], b"no gzip", whole[:12] + b"\xff\xff" + whole[14:]):
        (mnist / f"{path.name}.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"train-labels-idx1-ubyte\.gz"):
            SMALL_IDX.open(mnist.parent, None).development()


@pytest.mark.parametrize(
    ("header", "message"),
    [((2049, 30, 28, 28), "2049, 30"), ((2051, 31, 28, 28), "31, 28"), ((2051, 30, 28, 27), "28, 27")],
)
def test_an_idx_file_with_a_wrong_header_is_named(mnist, header, message):
    path = mnist / "train-images-idx3-ubyte"
    path.write_bytes(struct.pack(">4I", *header) + path.read_bytes()[16:])
    with pytest.raises(DataError, match=message) as caught:
        SMALL_IDX.open(mnist.parent, None).development()
    assert path.name in str(caught.value)


def test_an_idx_label_out_of_range_is_named(mnist):
    path = mnist / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x0b")
    with pytest.raises(DataError, match=r"Label 29 of .*is 11"):
        SMALL_IDX.open(mnist.parent, None).development()


@pytest.mark.parametrize("name", ["/data_batch_1.bin", "../data_batch_1.bin", "other/data_batch_1.bin"])
def test_only_the_known_members_of_an_archive_are_read(cifar, name):
    in_tar(cifar, {"data_batch_1.bin": name})
    with pytest.raises(DataError, match=r"has no 'cifar-10-batches-bin/data_batch_1\.bin'"):
        SMALL_CIFAR.open(cifar.parent, None).development()


def test_a_link_in_an_archive_is_not_followed(cifar, tmp_path):
    in_tar(cifar)
    member = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.addfile(member)
    with pytest.raises(DataError, match="has no"):
        SMALL_CIFAR.open(tmp_path, None).development()


def test_a_damaged_archive_is_named(cifar):
    in_tar(cifar)
    path = cifar.parent / "cifar-10-binary.tar.gz"
    whole = path.read_bytes()
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w:gz").close()
    for content in (
        whole[: len(whole) // 2],
        b"",
        b"no archive" * 100,
        whole[:100] + bytes(100) + whole[200:],
        empty.getvalue(),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz"):
            SMALL_CIFAR.open(cifar.parent, None).development()


def test_nothing_is_unpacked_beside_an_archive(cifar):
    in_tar(cifar)
    SMALL_CIFAR.open(cifar.parent, None).development()
    assert [path.name for path in cifar.parent.iterdir()] == ["cifar-10-binary.tar.gz"]


@pytest.mark.whole
@pytest.mark.parametrize("name", ["cifar-10", "fashion-mnist"])
def test_the_whole_official_sets_are_even(whole_data, name):
    source = open_source(name, data_dir=whole_data)
    development, test = source.development().images, source.held_out()
    assert len(set(np.bincount(development.labels))) == len(set(np.bincount(test.labels))) == 1
    assert len(development) in (50_000, 60_000) and len(test) == 10_000


@pytest.mark.whole
def test_the_channel_means_of_cifar_10_are_the_known_ones(whole_data):
    pixels = open_source("cifar-10", data_dir=whole_data).development().images.pixels
    means = [pixels[..., channel].mean() / 255 for channel in range(3)]
    assert means == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.001)
