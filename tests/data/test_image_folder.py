"""Folders of images as people have them."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from genepool.data import FolderSource, open_source, read_header, read_pixels
from genepool.errors import DataError, SettingsError


def pixels_of(path: Path, channels: int = 3) -> np.ndarray:
    facts = read_header(path)
    return read_pixels(path, height=facts.height, width=facts.width, channels=channels)


def test_sub_folders_are_classes_in_the_order_of_their_names(image_folder):
    source = open_source(image_folder({"rose": 10, "daisy": 20}))
    images = source.development().images
    assert source.classes == ("daisy", "rose") and source.name == "images" and source.flip
    assert images.pixels.shape == (27, 10, 12, 3)
    assert np.bincount(images.labels).tolist() == [18, 9]
    assert np.bincount(source.held_out().labels).tolist() == [2, 1]


def test_test_images_are_not_among_those_for_development(image_folder):
    folder = image_folder({"a": 15, "b": 15})
    source = open_source(folder)
    development = {image.tobytes() for image in source.development().images.pixels}
    test = {image.tobytes() for image in source.held_out().pixels}
    every = {pixels_of(path).tobytes() for path in folder.rglob("*.png")}
    assert not development & test and development | test == every


def test_folders_named_train_val_and_test_are_parts(image_folder):
    for part, count in (("train", 4), ("val", 2), ("test", 3)):
        image_folder({"a": count, "b": count}, root=f"set/{part}")
    source = open_source(image_folder({}, root="set"))
    development = source.development()
    assert source.classes == ("a", "b")
    assert development.validation.sum() == 4 and len(development.images) == 12
    assert len(source.held_out()) == 6


def test_a_class_may_be_called_train(image_folder):
    assert open_source(image_folder({"bus": 3, "train": 3})).classes == ("bus", "train")
    assert open_source(image_folder({"test": 3, "train": 3}, root="other")).classes == ("test", "train")


def test_images_are_brought_to_the_median_or_the_chosen_size(image_folder, picture):
    folder = image_folder({"a": 5, "b": 5})
    picture(width=40, height=30).save(folder / "a" / "large.png")
    assert open_source(folder).development().images.pixels.shape[1:] == (10, 12, 3)
    assert open_source(folder, size=(6, 5)).development().images.pixels.shape[1:] == (6, 5, 3)


def test_photographs_are_brought_to_a_bounded_size_of_their_shape(image_folder):
    source = open_source(image_folder({"a": 3, "b": 3}, width=1024, height=512))
    assert source.development().images.pixels.shape[1:] == (128, 256, 3)


def test_a_fine_pattern_is_averaged_when_it_is_made_smaller(tmp_path):
    checks = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    Image.fromarray(checks).save(tmp_path / "checks.png")
    small = read_pixels(tmp_path / "checks.png", height=8, width=8, channels=1)
    assert abs(small.astype(int) - 127).max() <= 3


@pytest.mark.parametrize("size", [(0, 5), (5, 5000), (-1, -1)])
def test_an_absurd_size_is_refused(image_folder, size):
    with pytest.raises(SettingsError, match="size"):
        open_source(image_folder({"a": 3, "b": 3}), size=size)


def test_all_grey_images_give_one_channel_and_one_coloured_gives_three(image_folder, picture):
    folder = image_folder({"a": 4, "b": 4}, mode="L")
    ramp = picture("L").convert("P")
    ramp.putpalette([value for level in range(256) for value in (level, level, level)])
    ramp.save(folder / "a" / "palette.png")
    Image.fromarray(np.full((10, 12), 40000, dtype=np.uint16)).save(folder / "b" / "deep.png")
    assert open_source(folder).development().images.pixels.shape[3] == 1
    for number in range(12):
        picture("RGB").save(folder / "a" / f"colour-{number}.png")
    assert open_source(folder).development().images.pixels.shape[3] == 3


@pytest.mark.parametrize("suffix", ["png", "webp", "gif", "bmp", "tiff", "jpg"])
def test_formats_are_read(tmp_path, suffix):
    image = Image.new("RGB", (7, 5), (200, 100, 50))
    image.save(tmp_path / f"image.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    found = pixels_of(tmp_path / f"image.{suffix}")
    assert found.shape == (5, 7, 3) and np.abs(found.astype(int) - (200, 100, 50)).max() <= 3


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    values = np.array([[0, 257, 32896, 65535], [128, 129, 65406, 65407]], dtype=np.uint16)
    for suffix in ("png", "tiff"):
        Image.fromarray(values).save(tmp_path / f"deep.{suffix}")
        assert pixels_of(tmp_path / f"deep.{suffix}", 1)[..., 0].tolist() == [[0, 1, 128, 255], [0, 1, 254, 255]]


def test_what_is_transparent_lies_on_white(tmp_path):
    Image.fromarray(np.array([[[9, 8, 7, 0], [9, 8, 7, 255], [0, 0, 0, 51]]], dtype=np.uint8)).save(tmp_path / "a.png")
    assert pixels_of(tmp_path / "a.png").tolist() == [[[255] * 3, [9, 8, 7], [204] * 3]]
    Image.fromarray(np.array([[[9, 0], [9, 255]]], dtype=np.uint8), mode=None).save(tmp_path / "la.png")
    assert pixels_of(tmp_path / "la.png", 1).ravel().tolist() == [255, 9]


@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_a_transparent_palette_colour_lies_on_white(tmp_path, suffix):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 0])
    image.putdata([0, 1])
    image.save(tmp_path / f"palette.{suffix}", transparency=0)
    assert pixels_of(tmp_path / f"palette.{suffix}").tolist() == [[[255, 255, 255], [200, 100, 0]]]


@pytest.mark.parametrize("name", ["alpha.png", "palette.png", "deep.png"])
def test_large_images_are_converted_in_strips_and_come_out_the_same(tmp_path, monkeypatch, name):
    rng = np.random.default_rng(0)
    image = {
        "alpha.png": Image.fromarray(rng.integers(0, 256, (23, 11, 4), dtype=np.uint8)),
        "palette.png": Image.fromarray(rng.integers(0, 9, (23, 11), dtype=np.uint8)).convert("P"),
        "deep.png": Image.fromarray(rng.integers(0, 65536, (23, 11), dtype=np.uint16)),
    }[name]
    image.save(tmp_path / name, **({"transparency": 3} if image.mode == "P" else {}))
    whole = [pixels_of(tmp_path / name, channels) for channels in (1, 3)]
    monkeypatch.setattr("genepool.data.image_files.STRIP", 50)
    assert all(np.array_equal(pixels_of(tmp_path / name, part.shape[2]), part) for part in whole)


def test_one_bit_and_cmyk_are_read(tmp_path):
    Image.fromarray(np.array([[True, False]])).save(tmp_path / "bit.png")
    assert pixels_of(tmp_path / "bit.png", 1).ravel().tolist() == [255, 0]
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "ink.jpg", quality=95)
    red, green, blue = pixels_of(tmp_path / "ink.jpg")[4, 4]
    assert red > 240 and green < 15 and blue < 15


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_orientation_is_applied(tmp_path, suffix, orientation):
    upright = np.zeros((24, 16), dtype=np.uint8)
    upright[:8, :8] = 255
    turns = {
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud, 5: np.transpose,
        6: lambda a: np.rot90(a, 1), 7: lambda a: np.rot90(a, 2).T, 8: lambda a: np.rot90(a, -1),
    }  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned.{suffix}"
    options = {"lossless": True} if suffix == "webp" else {"quality": 95} if suffix == "jpg" else {}
    Image.fromarray(np.ascontiguousarray(turns[orientation](upright))).save(path, exif=exif, **options)
    found = pixels_of(path, 1)[..., 0]
    assert found.shape == (24, 16) and np.abs(found.astype(int) - upright).mean() < 8


@pytest.mark.parametrize("suffix", ["gif", "webp", "png", "tiff"])
def test_the_first_frame_of_an_animation_counts(tmp_path, suffix):
    frames = [Image.new("RGB", (6, 6), colour) for colour in ("red", "blue", "lime")]
    options = {"lossless": True} if suffix == "webp" else {}
    frames[0].save(tmp_path / f"moving.{suffix}", save_all=True, append_images=frames[1:], **options)
    assert pixels_of(tmp_path / f"moving.{suffix}")[3, 3].tolist() == [255, 0, 0]


@pytest.mark.parametrize("litter", [".DS_Store", "Thumbs.db", "desktop.ini", "DESKTOP.INI", ".hidden.png"])
def test_what_desktops_leave_behind_is_passed_over(image_folder, litter):
    folder = image_folder({"a": 3, "b": 3})
    (folder / "a" / litter).write_bytes(b"litter")
    (folder / litter).write_bytes(b"litter")
    (folder / "__MACOSX" / "a").mkdir(parents=True)
    assert len(open_source(folder).development().images) == 4


DAMAGED = (
    "empty.png", "notes.txt", "text.png", "page.svg", "script.eps", "half.png", "header.png", "flipped.png", "half.jpg",
    "deep.tiff",
)  # fmt: skip


def damaged_files(folder: Path) -> dict[str, bytes]:
    png = (folder / "a" / "000.png").read_bytes()
    jpeg_path = folder / "x.jpg"
    Image.open(folder / "a" / "000.png").resize((64, 64)).save(jpeg_path)
    jpeg = jpeg_path.read_bytes()
    jpeg_path.unlink()
    middle = len(png) // 2
    return {
        "empty.png": b"",
        "notes.txt": b"These are my flowers.\n",
        "text.png": b"not an image",
        "page.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        "script.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n",
        "half.png": png[:middle],
        "header.png": png[:20],
        "flipped.png": png[:middle] + bytes([png[middle] ^ 255]) + png[middle + 1 :],
        "half.jpg": jpeg[: len(jpeg) // 2],
        "deep.tiff": b"II*\x00\xff\xff\xff\xff",
    }


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_cannot_be_read_is_named_whatever_part_it_falls_into(image_folder, name):
    folder = image_folder({"a": 8, "b": 8})
    content = damaged_files(folder)[name]
    for place in range(9):  # before, between and after the others: some places are the test part's
        path = folder / "b" / f"{place:03}-{name}"
        path.write_bytes(content)
        with pytest.raises(DataError, match=name.replace(".", r"\.")) as caught:
            open_source(folder).development()
        assert "\n" not in str(caught.value)
        path.unlink()


def test_float_pixels_are_refused_with_what_to_do(image_folder):
    folder = image_folder({"a": 3, "b": 3}, mode="L")
    for number in range(3):
        Image.fromarray(np.zeros((9, 9), dtype=np.float32)).save(folder / "a" / f"float-{number}.tiff")
    with pytest.raises(DataError, match=r"float-.*8 or 16 bits"):
        open_source(folder).development()


def png_of(width: int, height: int) -> bytes:
    """A PNG that claims that size and holds one line."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(8001, 8001), (12_000, 9_000), (100_000, 100_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused_from_its_header(image_folder, size):
    folder = image_folder({"a": 3, "b": 3})
    (folder / "a" / "000.png").write_bytes(png_of(*size))
    with pytest.raises(DataError, match=r"000\.png.*64 million pixels"):
        open_source(folder).development()


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({}, "no class folders"),
        ({"a": 5}, "only the class folder 'a'"),
        ({"a": 5, "b": 0}, "b' contains no images"),
        ({"a": 5, "b": 1}, "'b' of .* has 1 image, but at least 3"),
        ({"a": 2, "b": 5}, "'a' of .* has 2 images, but at least 3"),
    ],
)
def test_classes_that_cannot_be_split_are_named(image_folder, tmp_path, counts, message):
    (tmp_path / "images").mkdir()
    with pytest.raises(DataError, match=message):
        open_source(image_folder(counts))


def test_images_that_do_not_fit_into_memory_are_refused_before_they_are_decoded(image_folder, monkeypatch):
    folder = image_folder({"a": 10, "b": 10})
    monkeypatch.setattr("genepool.data.free_memory.available_memory", lambda: 18 * 1024 * 1024 * 3 - 1)
    with pytest.raises(DataError, match=r"18 images of 1024x1024 would take 0\.1 GB .* choose a smaller size"):
        open_source(folder, size=(1024, 1024)).development()


def test_three_images_a_class_are_enough(image_folder):
    source = open_source(image_folder({"a": 3, "b": 3}))
    assert len(source.development().images) == 4 and len(source.held_out()) == 2


def test_files_beside_the_class_folders_are_ignored_and_listed(image_folder):
    folder = image_folder({"a": 3, "b": 3})
    assert FolderSource(folder).remark == ""
    plain = FolderSource(folder).listing()
    for name in ("LICENSE", "readme.txt", ".hidden"):
        (folder / name).write_text("hello")
    source = FolderSource(folder)
    assert source.remark == "Ignored 2 files beside the class folders: LICENSE, readme.txt."
    assert source.classes == ("a", "b") and source.listing() == plain


def test_files_beside_the_parts_are_ignored_too(image_folder):
    folder = image_folder({"train/a": 3, "train/b": 3, "test/a": 1, "test/b": 1})
    (folder / "LICENSE").write_text("hello")
    (folder / "train" / "labels.csv").write_text("hello")
    source = FolderSource(folder)
    assert source.classes == ("a", "b") and len(source.held_out()) == 2
    assert source.remark == "Ignored 2 files beside the class folders: LICENSE, labels.csv."


def test_a_folder_inside_a_class_is_named(image_folder):
    folder = image_folder({"a": 3, "b": 3})
    (folder / "a" / "more").mkdir()
    with pytest.raises(DataError, match="more"):
        open_source(folder)


def test_a_class_of_val_that_is_not_in_train_is_named(image_folder):
    image_folder({"a": 3, "b": 3}, root="set/train")
    image_folder({"a": 3, "c": 3}, root="set/val")
    with pytest.raises(DataError, match="val/c"):
        open_source(image_folder({}, root="set"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["itself", "root", "twin", "broken", "pipe"])
def test_odd_links_end_in_a_sentence(image_folder, kind):
    folder = image_folder({"a": 3, "b": 3})
    odd = folder / "a" / "odd"
    if kind == "itself":
        odd.symlink_to(odd)
    elif kind == "root":
        odd.symlink_to(folder)
    elif kind == "twin":
        odd = folder / "c"
        odd.symlink_to(folder / "a")
    elif kind == "broken":
        odd.symlink_to(folder / "gone.png")
    else:
        os.mkfifo(odd)
    with pytest.raises(DataError, match=odd.name):
        open_source(folder).development()


def test_linked_images_are_read(image_folder, tmp_path, picture):
    folder = image_folder({"a": 3, "b": 3})
    picture().save(tmp_path / "elsewhere.png")
    (folder / "a" / "linked.png").symlink_to(tmp_path / "elsewhere.png")
    assert len(open_source(folder).development().images) == 5


def test_names_that_are_no_text_are_escaped(image_folder, picture):
    folder = image_folder({"a": 3})
    odd = folder / os.fsdecode(b"fl\xe9\x07ur")
    odd.mkdir()
    for number in range(3):
        picture().save(odd / f"{number}.png")
    source = open_source(folder)
    assert source.classes == ("a", "fl\\xe9\\x07ur")
    assert len(source.development().images) == 4
    (odd / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"fl\\xe9\\x07ur"):
        open_source(folder).development()


def test_the_fingerprint_changes_with_files_and_size(image_folder):
    folder = image_folder({"a": 3, "b": 3})
    before = FolderSource(folder).fingerprint()
    assert FolderSource(folder).fingerprint() == before
    assert FolderSource(folder, size=(8, 8)).fingerprint() != before
    os.utime(folder / "a" / "000.png", ns=(5, 5))
    changed = FolderSource(folder).fingerprint()
    (folder / "b" / "000.png").rename(folder / "b" / "900.png")
    assert len({before, changed, FolderSource(folder).fingerprint()}) == 3


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp"])
def test_a_damaged_image_makes_no_noise_beside_the_sentence(image_folder, picture, capfd, suffix):
    folder = image_folder({"a": 4, "b": 4})
    path = folder / "a" / f"damaged.{suffix}"
    picture(width=50, height=50).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + bytes(40))
    with pytest.raises(DataError, match=f"damaged.{suffix}"):
        open_source(folder).development()
    assert capfd.readouterr() == ("", "")
