"""What `genepool export` and `genepool predict` say to bad input: one sentence, and nothing is run or left behind."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from genepool.cli import cli
from genepool.dna import Shape
from genepool.export import FORMATS
from tests.export.test_export import NAMES, dataset, taken
from tests.support.networks import chain, conv

GENEPOOL = str(Path(sys.executable).parent / "genepool")


def call(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def refused(*arguments):
    """The one sentence, without what it costs to start a process."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    [sentence] = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in result.stderr and len(result.stderr.splitlines()) == 1
    return sentence


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model of 8x8 grey images in every format, and an image."""
    folder = tmp_path_factory.mktemp("made")
    dna = chain(conv("a", depth_factor=4.0, stride_scale=1.0), conv("b"))
    facts, _, network = taken([dna], dataset(Shape(8, 8, 1), ("no", "yes")))
    for name, form in FORMATS.items():
        form.write(network, facts, folder / NAMES[name])
    Image.new("L", (20, 10), 90).save(folder / "grey.png")
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy to spoil, as the current folder."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def rezip(path, change):
    """The archive again, its members as `change` leaves them, with right checksums."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def edited(path, key, value):
    """The facts of a .pt2 with one of them changed."""

    def change(members):
        facts = json.loads(members["archive/extra/genepool.json"])
        facts[key] = value
        members["archive/extra/genepool.json"] = json.dumps(facts).encode()

    rezip(path, change)


class Touch:
    """Unpickled, it leaves a mark."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def pickled(path):
    def change(members):
        config = json.loads(members["archive/data/weights/model_weights_config.json"])
        for entry in config["config"].values():
            entry["use_pickle"] = True
        members["archive/data/weights/model_weights_config.json"] = json.dumps(config).encode()
        import io

        payload = io.BytesIO()
        torch.save(Touch(), payload)
        for name in [name for name in members if "weight_" in name]:
            members[name] = payload.getvalue()

    rezip(path, change)


def flipped(path, offset=-1):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def bomb(path):
    """300 MB in a file of 1 MB."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("archive/x", "w") as member,
    ):
        for _ in range(30):
            member.write(bytes(10**7))


def other_weights(path):
    def change(members):
        name = "archive/data/weights/weight_0"
        members[name] = bytes([members[name][0] ^ 1]) + members[name][1:]

    rezip(path, change)


def onnx_weights(path):
    model = onnx.load(path)
    tensor = next(t for t in model.graph.initializer if t.name == "conv1.weight")
    tensor.raw_data = bytes([tensor.raw_data[0] ^ 1]) + tensor.raw_data[1:]
    path.write_bytes(model.SerializeToString())


def onnx_outside(path):
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../../etc/hostname")
    path.write_bytes(model.SerializeToString())


def huge(path):
    with path.open("wb") as file:
        file.truncate(2**31 + 10)


def bare_program(path):
    torch.export.save(torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),)), path)


def giant(path):
    dna = chain(conv("a", depth_factor=1e3), conv("b", depth_factor=10.0))

    def change(members):
        facts = json.loads(members["archive/extra/genepool.json"])
        facts["members"][0]["dna"] = msgspec.json.encode(json.loads(codec_text(dna))).decode()
        members["archive/extra/genepool.json"] = json.dumps(facts).encode()

    rezip(path, change)


def codec_text(dna):
    from genepool.dna import codec

    return codec.encode(dna)


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


MODELS = {
    "missing": ("gone.pt2", None, "No such file"),
    "of an endless name": ("a" * 5000, None, "File name too long"),
    "of another kind": ("grey.png", None, "neither in .pt2 nor in .onnx"),
    "empty .pt2": ("model.pt2", lambda path: path.write_bytes(b""), "empty file"),
    "empty .onnx": ("model.onnx", lambda path: path.write_bytes(b""), "empty file"),
    "text as .pt2": ("model.pt2", lambda path: path.write_text("hello"), "not a complete .pt2 archive"),
    "text as .onnx": ("model.onnx", lambda path: path.write_text("hello"), "cannot be used"),
    "half a .pt2": ("model.pt2", cut, "not a complete .pt2 archive"),
    "half an .onnx": ("model.onnx", cut, "cannot be used"),
    "half of the weights": ("model/weights.safetensors", cut, "cannot be used"),
    "weights without their end": (
        "model/weights.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-4]), "safetensors form",
    ),
    "a .pt2 with a wrong bit": ("model.pt2", lambda path: flipped(path, 100), "CRC"),
    "a .pt2 with other weights": ("model.pt2", other_weights, "SHA-256"),
    "an .onnx with other weights": ("model.onnx", onnx_weights, "SHA-256"),
    "a source folder with other weights": ("model/weights.safetensors", flipped, "SHA-256"),
    "a zip bomb": ("model.pt2", bomb, "larger than the file itself"),
    "a .pt2 with pickled weights": ("model.pt2", pickled, "pickled"),
    "a .pt2 from elsewhere": ("model.pt2", bare_program, "Genepool did not write it"),
    "an .onnx over 2 GB": ("model.onnx", huge, "exceed the 2 GB"),
    "an .onnx that points elsewhere": ("model.onnx", onnx_outside, "outside the file"),
    "facts of another version": ("model.pt2", lambda path: edited(path, "format", 2), "format 2"),
    "facts of giant images": ("model.pt2", lambda path: edited(path, "height", 10**9), "GiB"),
    "facts of negative images": ("model.pt2", lambda path: edited(path, "height", -8), "no valid image size"),
    "facts of two channels": ("model.pt2", lambda path: edited(path, "channels", 2), "do not match"),
    "facts without classes": ("model.pt2", lambda path: edited(path, "classes", []), "no classes"),
    "facts that are no facts": ("model.pt2", lambda path: edited(path, "members", 7), "cannot be read"),
    "a DNA that is none": ("model.pt2", lambda path: edited(path, "members", [{"dna": "{"}]), "cannot be read"),
    "a giant without weights": ("model.pt2", giant, "lacks weights"),
    "other classes than weights": ("model.pt2", lambda path: edited(path, "classes", list("abc")), "do not fit"),
    "a folder without a model": ("empty", lambda path: path.mkdir(), "neither an exported model nor an experiment"),
    "a header longer than the file": (
        "model/weights.safetensors", lambda path: path.write_bytes(b"\xff" * 20), "not a complete safetensors file",
    ),
    "weights from elsewhere": (
        "model/weights.safetensors", lambda path: path.write_bytes((2).to_bytes(8, "little") + b"{}"), "no metadata",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "spoil", "said"), MODELS.values(), ids=MODELS)
def test_a_bad_model_gets_one_sentence(name, spoil, said, place):
    path = place / name
    if spoil is not None:
        spoil(path)
    model = path.parent if path.parent != place else path
    sentence = refused("predict", model, place / "grey.png")
    assert said in sentence and model.name[:100] in sentence
    assert not Path("unpickled").exists()


def test_the_python_of_a_source_folder_is_never_run(place):
    (place / "model" / "model.py").write_text("import os; os.mkdir('run')\n")
    assert call("predict", place / "model", place / "grey.png").exit_code == 0
    assert not Path("run").exists()


def test_a_bomb_takes_no_memory(place):
    """Refused in a process that may have 200 MB more than torch takes."""
    bomb(place / "model.pt2")
    code = f"""
import resource, sys
import genepool.export.publish
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2 * 10**8,) * 2)
sys.argv = ["genepool", "predict", {str(place / "model.pt2")!r}, {str(place / "grey.png")!r}]
from genepool.cli import main
main()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "larger than the file itself" in result.stderr


def wide(path):
    """A PNG of 30,000 x 30,000 pixels in a few bytes: only its header is there."""

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (30000).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10**6))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def test_a_bad_image_among_good_ones_gets_its_sentence_and_the_others_are_predicted(place):
    folder = place / "album" / "deep" / "er"
    folder.mkdir(parents=True)
    Image.new("RGBA", (7, 9), (200, 10, 10, 100)).save(folder / "good.png")
    Image.new("P", (50, 9)).save(
        folder / "moves.gif", save_all=True, append_images=[Image.new("P", (50, 9), n) for n in range(9)]
    )
    Image.fromarray(np.full((5, 6), 40000, dtype=np.uint16)).save(place / "album" / "deep" / "sixteen.png")
    (folder / ".hidden").write_text("passed over")
    (folder / "loop").symlink_to(place / "album")
    (folder / "zero.png").write_bytes(b"")
    (folder / "notes.txt").write_text("not a readable image")
    wide(folder / "wide.png")
    Image.effect_noise((60, 60), 50).save(folder / "cut.png")
    cut(folder / "cut.png")
    result = call("predict", place / "model.onnx", place / "album", place / "grey.png", place / "gone.png")
    assert result.exit_code == 1
    predicted = [line.partition(": ")[0].rpartition("/")[2] for line in result.stdout.splitlines()]
    assert predicted == ["sixteen.png", "good.png", "moves.gif", "grey.png"]
    for name, said in {
        "zero.png": "empty (0 bytes)", "notes.txt": "not a readable image", "wide.png": "64 million pixels",
        "cut.png": "damaged or truncated", "gone.png": "No such file",
    }.items():  # fmt: skip
        [line] = [line for line in result.stderr.splitlines() if name in line]
        assert line.startswith("Error: ") and said in line
    assert len(result.stderr.splitlines()) == 5
    told = json.loads(call("predict", place / "model.onnx", place / "album", "--json").stdout)
    assert [image["error"] is None for image in told].count(False) == 4


def test_a_folder_without_images_and_bad_options_are_refused(place):
    (place / "empty").mkdir()
    result = call("predict", place / "model.pt2", "a" * 5000)
    assert result.exit_code == 1 and "File name too long" in result.stderr and "Traceback" not in result.stderr
    assert "no image in the folder" in refused("predict", place / "model.pt2", place / "empty")
    assert call("predict", place / "model.pt2").exit_code == 2
    assert call("predict", place / "model.pt2", place / "grey.png", "--top", 0).exit_code == 2
