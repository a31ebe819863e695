"""The verbs as a user types them: real files, real training on the shipped images."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from genepool.dna import codec, initial
from tests.support.in_process import genepool
from tests.support.networks import chain, conv

GENEPOOL = str(Path(sys.executable).parent / "genepool")


def facts(*arguments):
    result = genepool(*arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("name", "low", "high", "shown"),
    [
        ("initial", 40, 40, "40 parameters"),
        ("resnet-20", 0.26e6, 0.28e6, "(270 k)"),
        ("resnet-110", 1.65e6, 1.75e6, "(1.73 M)"),
        ("all-cnn-c", 1.3e6, 1.4e6, "(1.37 M)"),
        ("wrn-28-10", 36.4e6, 36.6e6, "(36.5 M)"),
    ],
)
def test_the_zoo_has_the_sizes_of_the_papers_table(name, low, high, shown, tmp_path):
    file = tmp_path / "dna.json"
    assert genepool("dna", "zoo", name, "--out", file).returncode == 0
    assert low <= facts("dna", "show", file, "--json")["parameters"] <= high
    assert shown in genepool("dna", "show", file).stdout


def test_show_prints_a_row_a_vertex_and_a_line_a_further_edge(tmp_path):
    (tmp_path / "dna.json").write_text(codec.encode(chain(conv("a", depth_factor=16.0, stride_scale=1.0))))
    page = genepool("dna", "show", tmp_path / "dna.json", "--image", "28x28x1").stdout
    assert "v0      bn_relu  a      input  conv 3x3 /2  14x14        16" in page
    found = facts("dna", "show", tmp_path / "dna.json", "--image", "28x28x1", "--json")
    keys = {"image", "classes", "batch", "learning_rate", "body_rate", "parameters", "flops_forward"}
    assert set(found) == keys | {"flops_training", "memory", "vertices"}
    assert sum(row["parameters"] for row in found["vertices"]) == found["parameters"] == 16 * 9 + 32 + 170
    assert sum(row["flops_training"] for row in found["vertices"]) == found["flops_training"]


def test_mutate_repeats_itself_with_one_seed_and_writes_what_it_prints(tmp_path):
    (tmp_path / "dna.json").write_text(codec.encode(initial()))
    mutate = ("dna", "mutate", tmp_path / "dna.json", "--times", 20, "--seed")
    first, second, other = (genepool(*mutate, seed) for seed in (1, 1, 2))
    assert first.stdout == second.stdout != other.stdout
    assert first.stderr.startswith("mutations: ")
    genepool(*mutate, 1, "--out", tmp_path / "child.json")
    assert (tmp_path / "child.json").read_text() == first.stdout
    found = facts("dna", "mutate", tmp_path / "dna.json", "--mutation", "insert-convolution", "--times", 3, "--json")
    assert found["mutations"] == ["insert-convolution"] * 3
    assert len(codec.decode(json.dumps(found["dna"])).convs) == 3


def test_dna_can_be_piped():
    pipe = f"{GENEPOOL} dna zoo resnet-20 | {GENEPOOL} dna mutate - --seed 3 | {GENEPOOL} dna show - --json"
    shown = subprocess.run(pipe, shell=True, capture_output=True, text=True, check=True)
    assert len(json.loads(shown.stdout)["vertices"]) > 20


def test_a_network_is_trained_saved_and_inherited_from(tmp_path):
    (tmp_path / "dna.json").write_text(codec.encode(chain(conv("a", depth_factor=8.0, stride_scale=1.0))))
    command = ("train", tmp_path / "dna.json", "--data", "fashion-mini", "--json")
    parent = facts(*command, "--steps", 200, "--out", tmp_path / "weights")
    assert parent["fitness"] > 0.25
    assert parent["steps"] == 200
    assert parent["inherited"] == []
    keys = {"fitness", "reason", "parameters", "flops_forward", "flops_training", "flops", "steps", "inherited"}
    assert set(parent) == keys | {"fresh", "losses", "seconds", "stepping", "step_seconds", "step_decisions"} | {
        "accuracy", "flops_image", "milliseconds", "raced", "look", "second", "precision", "resumed",
    }  # fmt: skip
    child = facts(*command, "--steps", 0, "--parent", tmp_path / "weights")
    assert child["fitness"] == parent["fitness"]
    assert child["fresh"] == []
    page = genepool("train", tmp_path / "dna.json", "--steps", 50, "--set", "training.batch=20")
    assert "step 50 of 50, loss" in page.stderr
    assert "of the validation images" in page.stdout


def test_a_failed_training_says_why(tmp_path):
    (tmp_path / "dna.json").write_text(codec.encode(chain(conv("a", depth_factor=400_000.0))))
    result = genepool("train", tmp_path / "dna.json")
    assert result.returncode == 0
    assert "not trained  4,800,010 parameters" not in result.stdout
    assert "not trained" in result.stdout


def test_a_folder_of_images_is_trained_on_at_the_size_that_is_asked_for(tmp_path):
    pets(tmp_path / "pets")
    (tmp_path / "dna.json").write_text(codec.encode(initial()))
    command = ("train", tmp_path / "dna.json", "--data", tmp_path / "pets", "--steps", 5, "--json")
    asked, median = facts(*command, "--size", "6x4"), facts(*command)
    assert asked["flops_forward"] < median["flops_forward"]
    assert asked["parameters"] == median["parameters"] == 3 * 2 + 2


def pets(folder):
    """A small folder of images, as it should be."""
    from PIL import Image

    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (12, 9), (40 * i, 20, 99)).save(folder / name / f"{i}.png")


@pytest.fixture(scope="module")
def mess(tmp_path_factory):
    """A folder of things that are wrong."""
    import numpy as np

    folder = tmp_path_factory.mktemp("mess")
    (folder / "good.json").write_text(codec.encode(initial()))
    (folder / "cycle.json").write_text(codec.encode(chain(conv("a"), conv("b"))).replace('"input"', '"v1"', 1))
    (folder / "other.json").write_text(codec.encode(initial()).replace('"version": 1', '"version": 7'))
    (folder / "unknown.json").write_text(codec.encode(initial()).replace('"version"', '"colour": 1, "version"'))
    (folder / "nan.json").write_text(codec.encode(initial()).replace("0.1", "NaN"))
    (folder / "dangling.json").write_text(codec.encode(initial()).replace('"to_vertex": "output"', '"to_vertex": "x"'))
    (folder / "weights").write_bytes(b"\x80\x04.")
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(folder / "pickled.npz", x=objects, y=objects)
    pets(folder / "text")
    (folder / "text" / "cat" / "notes.txt").write_text("no image")
    pets(folder / "corrupt")
    (folder / "corrupt" / "dog" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    pets(folder / "empty")
    (folder / "empty" / "bird").mkdir()
    batches = folder / "cifar" / "cifar-10-batches-bin"
    batches.mkdir(parents=True)
    for n in range(1, 6):
        (batches / f"data_batch_{n}.bin").write_bytes(b"\0" * 5000)
    (batches / "test_batch.bin").write_bytes(b"\0" * 5000)
    return folder


BAD = {
    "missing DNA": (["dna", "show", "gone.json"], "gone.json"),
    "DNA with a cycle": (["dna", "show", "cycle.json"], "cycle"),
    "DNA of another version": (["dna", "show", "other.json"], "version 7"),
    "DNA with an unknown field": (["train", "unknown.json"], "colour"),
    "DNA with NaN": (["dna", "mutate", "nan.json"], "nan.json"),
    "DNA with a dangling edge": (["train", "dangling.json"], "'trunk' is dangling"),
    "strange image shape": (["dna", "show", "good.json", "--image", "32x32"], "32x32x3"),
    "strange size": (["train", "good.json", "--size", "6,6"], "like 32x32"),
    "unknown network": (["dna", "zoo", "resnet20"], "did you mean 'resnet-20'"),
    "unknown mutation": (["dna", "mutate", "good.json", "--mutation", "add-skips"], "did you mean 'add-skip'"),
    "mutation that cannot act": (["dna", "mutate", "good.json", "--mutation", "remove-skip"], "none of the allowed"),
    "unknown data set": (["train", "good.json", "--data", "cifar10"], "did you mean 'cifar-10'"),
    "unknown setting": (["train", "good.json", "--set", "step=5"], "did you mean 'training.steps'"),
    "setting without a value": (["train", "good.json", "--set", "training.steps"], "section.name=value"),
    "setting of the wrong kind": (["train", "good.json", "--set", "training.steps=many"], "steps"),
    "setting out of bounds": (["train", "good.json", "--set", "training.momentum=2"], "momentum"),
    "unknown preset": (["train", "good.json", "--preset", "papre"], "did you mean 'paper'"),
    "unknown device": (["train", "good.json", "--device", "tpu"], "no device 'tpu'"),
    "absent device": (["train", "good.json", "--device", "mps"], "no device 'mps'"),
    "unknown flag": (["train", "good.json", "--fast"], "--fast"),
    "unknown verb": (["evolve"], "evolve"),
    "missing weights": (["train", "good.json", "--parent", "gone"], "gone"),
    "weights that are a pickle": (["train", "good.json", "--parent", "weights"], "safetensors"),
    "npz of pickled objects": (["train", "good.json", "--data", "pickled.npz"], "pickled.npz"),
    "folder with a text file": (["train", "good.json", "--data", "text"], "notes.txt"),
    "folder with a corrupt image": (["train", "good.json", "--data", "corrupt"], "broken.png"),
    "folder with an empty class": (["train", "good.json", "--data", "empty"], "bird"),
    "truncated CIFAR file": (["train", "good.json", "--data", "cifar-10", "--data-dir", "cifar"], "data_batch_"),
    "unwritable weights": (["train", "good.json", "--out", "no/weights"], "no/weights"),
    "unwritable output": (["dna", "zoo", "initial", "--out", "no/where.json"], "where.json"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_input_gets_one_sentence_and_exit_code_2(arguments, said, mess):
    before = sorted(mess.rglob("*"))
    result = genepool(*arguments, cwd=mess)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    complaint = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(complaint) == 1
    assert result.stderr.splitlines()[-1] == complaint[0]
    assert sorted(mess.rglob("*")) == before


def test_a_fault_of_ours_is_one_sentence_too():
    code = "import genepool.cli as c; c.import_module = lambda name: 1 / 0; c.main()"
    result = subprocess.run([sys.executable, "-c", code, "dna"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "ZeroDivisionError" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_reader_that_goes_away_is_no_fault():
    command = f"{GENEPOOL} dna zoo wrn-28-10 | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stdout == "{\n"
    assert result.stderr == ""
