"""Whatever lies in a folder of images, opening it ends in images or in a sentence; nothing else comes out."""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from genepool.data import open_source, prepare
from genepool.errors import GenepoolError

EXAMPLES = int(os.environ.get("GENEPOOL_FUZZ_EXAMPLES", "1000"))


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _seeds() -> list[bytes]:
    """Small sound files of many kinds, from which damaged ones are made."""
    colour = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8))
    clear = colour.convert("RGBA")
    clear.putalpha(100)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "a camera"
    deep = Image.fromarray(np.arange(30, dtype=np.uint16).reshape(5, 6) * 2000)
    frames = {"save_all": True, "append_images": [colour.rotate(90), colour.rotate(180)]}
    return [
        _saved(colour, "PNG", exif=exif), _saved(clear, "PNG"), _saved(deep, "PNG"), _saved(colour, "PNG", **frames),
        _saved(colour.quantize(8), "PNG", transparency=1), _saved(colour.convert("1"), "PNG"),
        _saved(colour, "JPEG", exif=exif), _saved(colour.convert("CMYK"), "JPEG"),
        _saved(colour, "JPEG", progressive=True), _saved(colour, "GIF", **frames),
        _saved(colour.quantize(4), "GIF", transparency=1), _saved(colour, "WEBP", lossless=True, exif=exif),
        _saved(clear, "WEBP", **frames), _saved(colour, "BMP"), _saved(colour.quantize(8), "BMP"),
        _saved(colour, "TIFF", exif=exif), _saved(deep, "TIFF"), _saved(colour, "TIFF", compression="tiff_lzw"),
        _saved(colour.convert("L").convert("F"), "TIFF"),
        _saved(colour, "TIFF", compression="jpeg"), _saved(colour, "TIFF", **frames),
    ]  # fmt: skip


SEEDS = _seeds()
NAMES = st.one_of(
    st.sampled_from(["000.png", "new.png", "a.jpg", ".hidden", "Thumbs.db", "x" * 250, "\n.gif", "é.webp"]),
    st.binary(max_size=6).filter(lambda name: not set(name) & set(b"/\0")).map(lambda name: os.fsdecode(b"n" + name)),
)


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """A sound file with a few bytes changed, cut out, doubled or put in; or any bytes at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60))
    content = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, max(0, len(content) - 1)))
        stop = min(len(content), start + draw(st.integers(0, 8)))
        content[start:stop] = draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from([b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00"]),
                st.just(bytes(content[start:stop]) * 2),
            )
        )
    if draw(st.integers(0, 5)) == 0:
        del content[draw(st.integers(0, len(content))) :]
    return bytes(content)


class Playground:
    """One folder that is put back into order after each example, instead of a new one for each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("a", "b"):
            (root / name).mkdir(parents=True)
        self.sound = {root / name / f"00{number}.png": SEEDS[number] for name in ("a", "b") for number in range(3)}
        for path, content in self.sound.items():
            path.write_bytes(content)

    def clean(self) -> None:
        for entry in self.root.iterdir():
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
            elif entry.name not in ("a", "b"):
                shutil.rmtree(entry)
        for name in ("a", "b"):
            (self.root / name).mkdir(exist_ok=True)
            for entry in (self.root / name).iterdir():
                if entry.is_symlink() or not entry.is_dir():
                    if entry not in self.sound:
                        entry.unlink()
                else:
                    shutil.rmtree(entry)
        for path, content in self.sound.items():
            if not path.is_file() or path.read_bytes() != content:
                path.write_bytes(content)

    def disturb(self, place: str, name: str, content: bytes, oddity: str) -> None:
        """Puts one file somewhere, and perhaps something odder."""
        folder = self.root / place
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_bytes(content)
        odd = folder / "odd"
        if oddity == "folder":
            odd.mkdir(exist_ok=True)
        elif oddity == "loop":
            odd.symlink_to(self.root)
        elif oddity == "itself":
            odd.symlink_to(odd)
        elif oddity == "pipe":
            os.mkfifo(odd)
        elif oddity == "gone":
            shutil.rmtree(self.root / "b")


@pytest.fixture(scope="module")
def playground(tmp_path_factory) -> Playground:
    return Playground(tmp_path_factory.mktemp("fuzz") / "images")


FOLDERS = {
    "place": st.sampled_from(["a", "a", "a", "a", "b", "c", "train", "."]),
    "name": NAMES,
    "content": contents(),
    "oddity": st.sampled_from(["none"] * 25 + ["folder", "loop", "itself", "pipe", "gone"]),
    "size": st.sampled_from([None, None, (4, 7), (1, 1)]),
}


@pytest.mark.thorough
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(**FOLDERS)
def test_any_folder_gives_images_or_a_sentence(playground, place, name, content, oddity, size):
    gives_images_or_a_sentence(playground, place, name, content, oddity, size)


@pytest.mark.thorough
@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(**FOLDERS)
def test_any_of_thousands_gives_images_or_a_sentence(playground, place, name, content, oddity, size):
    gives_images_or_a_sentence(playground, place, name, content, oddity, size)


def gives_images_or_a_sentence(playground, place, name, content, oddity, size):
    try:
        playground.disturb(place, name, content, oddity)
        source = open_source(playground.root, size=size)
        assert source.fingerprint()
        images = source.development().images
        assert images.pixels.dtype == np.uint8 and images.pixels.shape[3] in (1, 3)
        assert len(images) + len(source.held_out()) >= 6
    except GenepoolError as error:
        text = str(error)
        assert text.isprintable() and text.endswith("."), text
        text.encode()
    finally:
        playground.clean()


def test_the_untouched_playground_is_sound(playground, tmp_path):
    assert prepare(open_source(playground.root), cache=tmp_path).classes == ("a", "b")
