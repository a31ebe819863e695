"""Layers of plugins: what can be registered, an experiment that one joins, processes without it, and broken ones."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image

from genepool import Experiment
from genepool.dna import DNA, encode, initial
from genepool.errors import InvalidDNAError, SettingsError
from genepool.layers import LAYERS, BatchNormRelu, Conv, Edge, Identity, Linear, Vertex
from genepool.layers.plugins import require_kind
from genepool.population import State
from tests.support import in_process
from tests.support.page_example import spatial_gate
from tests.support.processes import PATIENCE

GENEPOOL = str(Path(sys.executable).parent / "genepool")
EXAMPLE = spatial_gate()
SMALL = ("--workers", 1, "--population", 4, "--steps", 20, "--set", "budget.time=none", "--set", "population.lease=2")
INSERT = "breeding.odds.insert-spatial-gate=50"
LACKS = "The network has a layer of the kind 'spatial_gate', which this process does not have"


def process(*words, **options):
    """In a process of its own: a plugin that is loaded in this one would stay."""
    return subprocess.run([GENEPOOL, *map(str, words)], capture_output=True, text=True, check=False, **options)


def done(*words, **options):
    result = process(*words, **options) if "--plugin" in words or options else in_process.genepool(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*words):
    result = in_process.genepool(*words)
    assert result.returncode == 2 and result.stderr.strip().count("\n") == 0, result.stderr
    return result.stderr


# Registration


class Good(Vertex, frozen=True, kw_only=True, tag="good"):
    slope: float = 0.0


class Unnamed(Edge, frozen=True, kw_only=True):
    pass


class Listing(Edge, frozen=True, kw_only=True, tag="listing"):
    numbers: tuple[int, ...] = ()


class Unbounded(Vertex, frozen=True, kw_only=True, tag="unbounded"):
    BOUNDS = {"slope": (0.0, 1.0)}  # noqa: RUF012


class Derived(Conv, frozen=True, kw_only=True, tag="derived"):
    gain: float = 1.0
    BOUNDS = {**Conv.BOUNDS, "gain": (0.0, 2.0)}  # noqa: RUF012


class DerivedNorm(BatchNormRelu, frozen=True, kw_only=True, tag="derived_norm"):
    gain: float = 1.0
    BOUNDS = {**BatchNormRelu.BOUNDS, "gain": (0.0, 2.0)}  # noqa: RUF012


class Struct(msgspec.Struct, frozen=True, tag="struct"):
    pass


BAD = {
    "another tag": ("good2", Good, "the class Good has the tag 'good'; add tag=\"good2\" to its first line"),
    "no tag": ("unnamed", Unnamed, "the class Unnamed has the tag 'Unnamed'"),
    "neither edge nor vertex": ("struct", Struct, "Struct is not a class derived from Edge or Vertex"),
    "no class": ("function", len, "len is not a class"),
    "no identifier": ("Good", Good, "its name must be up to 40 small letters"),
    "reserved": ("missing", Good, "and not 'missing'"),
    "a list in it": ("listing", Listing, "the field 'numbers' is not a number, a truth value or a string"),
    "bounds of nothing": ("unbounded", Unbounded, "BOUNDS names 'slope', which is not one of its fields"),
    "registered already": ("conv", Good, "The layer 'conv' is registered twice"),
}


@pytest.mark.parametrize(("name", "kind", "said"), BAD.values(), ids=BAD)
def test_what_cannot_be_a_layer_is_refused(name, kind, said):
    with pytest.raises(SettingsError, match=re.escape(said)):
        LAYERS.register(name)(kind)
    assert name == "conv" or name not in LAYERS
    assert LAYERS.get("conv") is Conv


def test_what_can_be_a_layer():
    require_kind("good", Good)
    for name, kind in LAYERS.loaded.items():
        require_kind(name, kind)


def test_bounds_hold_for_kinds_that_derive_from_ours():
    for layer in (Derived(id="e", from_vertex="input", to_vertex="b", gain=9.0), DerivedNorm(id="b", gain=9.0)):
        first = layer if isinstance(layer, Edge) else Conv(id="e", from_vertex="input", to_vertex="b")
        middle = layer if isinstance(layer, Vertex) else Linear(id="b")
        end = Identity(id="i", from_vertex="b", to_vertex="output")
        with pytest.raises(InvalidDNAError, match="gain"):
            DNA(learning_rate=0.1, vertices=(Linear(id="input"), middle, Linear(id="output")), edges=(first, end))


# An experiment that a layer joins


@pytest.fixture(scope="module")
def gates(tmp_path_factory):
    """An experiment that began without the plugin and went on with it."""
    directory = tmp_path_factory.mktemp("gates") / "gates"
    done("run", directory, *SMALL, "--individuals", 4, "--seed", 1)
    assert "no mutation 'insert-spatial-gate'" in refused("set", directory, INSERT)
    others = [f"breeding.odds.{name}=0" for name in Experiment.open(directory).settings().breeding.odds]
    done("set", directory, INSERT, *others, "--plugin", EXAMPLE)
    done("run", directory, "--individuals", 14, "--plugin", EXAMPLE)
    return directory


@pytest.fixture
def untested(gates, tmp_path):
    """A copy whose best network was not tested yet."""
    copy = shutil.copytree(gates, tmp_path / "gates")
    shutil.rmtree(copy / "best")
    return copy


def test_the_layer_joins_the_experiment(gates):
    rows = Experiment.open(gates).history().rows.values()
    made = [row for row in rows if row.birth.mutations == ("insert-spatial-gate",)]
    assert made and all(row.dna.missing_kinds == ("spatial_gate",) for row in made)
    assert any(name.endswith(".weight") and "vertex_" in name for row in made for name in row.evaluation.fresh)
    assert all(row.evaluation.reason is None for row in made)
    assert Experiment.open(gates).best().dna.missing_kinds


def test_without_the_plugin_one_can_look(gates):
    assert "every invariant holds" in done("check", gates)
    assert "insert-spatial-gate" in done("lineage", gates) and "?spatial_gate" in done("lineage", gates)
    assert "?spatial_gate" in done("status", gates)
    assert "?spatial_gate" in done("best", gates, "--front")
    assert "report.html" in done("report", gates)


def test_without_the_plugin_the_best_is_kept_but_not_tested(untested):
    said = done("best", untested)
    assert f"test accuracy        not measured: {LACKS}" in said
    assert {"dna.json", "weights.safetensors", "best.json"} <= {path.name for path in (untested / "best").iterdir()}
    found = json.loads(done("best", untested, "--json"))
    assert found["test_accuracy"] is None and found["untested"].startswith(LACKS)
    found = json.loads(done("best", untested, "--json", "--plugin", EXAMPLE))
    assert found["test_accuracy"] > 0 and found["untested"] is None
    assert json.loads(done("best", untested, "--json"))["test_accuracy"] == found["test_accuracy"]  # known now


def test_without_the_plugin_all_else_is_refused(gates, tmp_path):
    dna, picture, out = gates / "best" / "dna.json", tmp_path / "x.png", tmp_path / "out"
    Image.new("L", (28, 28), 90).save(picture)
    for words in (
        ("export", gates, "--out", tmp_path / "model.pt2"), ("predict", gates, picture), ("migrate", gates, gates),
        ("train", dna, "--steps", 1), ("dna", "show", dna), ("dna", "mutate", dna), ("reach", dna), ("replay", gates),
        ("ensemble", gates, "--out", tmp_path / "e.pt2"), ("run", gates, "--individuals", 13),
        ("run", out, "--start", dna),
    ):  # fmt: skip
        said = refused(*words)
        if words[0] not in ("migrate", "reach", "replay", "run"):
            assert LACKS in said and "--plugin" in said
        assert not out.exists()
    assert "--plugin" in refused("run", gates, "--individuals", 13) and len(list(tmp_path.iterdir())) == 1


@pytest.mark.thorough
def test_the_replay_agrees_with_the_plugin(gates):
    assert "The replay agrees" in done("replay", gates, "--plugin", EXAMPLE)


@pytest.mark.parametrize(
    "name",
    ["onnx", pytest.param("torch", marks=pytest.mark.thorough), pytest.param("source", marks=pytest.mark.thorough)],
)
def test_an_exported_model_needs_the_plugin_only_for_genepool(gates, tmp_path, name):
    model, picture = tmp_path / {"torch": "m.pt2", "onnx": "m.onnx", "source": "m"}[name], tmp_path / "x.png"
    Image.new("L", (28, 28), 90).save(picture)
    done("export", gates, "--format", name, "--out", model, "--plugin", EXAMPLE)
    said = refused("predict", model, picture)
    assert f"The model '{model}' cannot be used: the network has a layer of the kind 'spatial_gate'" in said
    assert "cannot be used" in refused("import", model, "--out", tmp_path / "x.json")
    answers = json.loads(done("predict", model, picture, "--json", "--top", 1, "--plugin", EXAMPLE))[0]["guesses"]
    assert abs(answers[0]["probability"] - max(_without_genepool(name, model, picture, tmp_path))) < 1e-4


FOREIGN = """
import json, sys
sys.modules["genepool"] = None  # importing it would fail
import numpy
images = numpy.full((1, 28, 28, 1), 90, numpy.uint8)
name, model = sys.argv[1:]
if name == "onnx":
    import onnxruntime
    answers = onnxruntime.InferenceSession(model).run(["probabilities"], {"images": images})[0]
else:
    import torch
    if name == "source":
        sys.path.insert(0, model)
        import model as found
        classifier = found.load()
    else:
        classifier = torch.export.load(model).module()
    answers = classifier(torch.from_numpy(images)).detach().numpy()
print(json.dumps(answers[0].tolist()))
"""


def _without_genepool(name, model, picture, folder):
    script = folder / "use.py"
    script.write_text(FOREIGN)
    command = [sys.executable, str(script), name, str(model)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    answers = json.loads(result.stdout.splitlines()[-1])
    assert np.isclose(sum(answers), 1.0, atol=1e-5)
    return answers


def test_a_worker_without_the_plugin_says_so_once_and_leaves_them(gates, tmp_path):
    """A few known networks among them, so that it has something to do."""
    directory = shutil.copytree(gates, tmp_path / "gates")
    done("set", directory, "budget.individuals=none", "population.size=8", "breeding.odds.identity=1")
    done("migrate", _plain(tmp_path), directory, "--best", 3)
    before = {row.id: row.state for row in Experiment.open(directory).history().rows.values() if row.dna.missing_kinds}
    done("set", directory, f"budget.individuals={Experiment.open(directory).history().spending().individuals + 6}")
    result = process("worker", directory, "--number", 7, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("lacks the layer 'spatial_gate' and leaves individuals that have it") == 1
    rows = Experiment.open(directory).history().rows
    assert not [row for row in rows.values() if row.dna.missing_kinds and row.id not in before]  # no children of them
    assert {rows[one].state for one in before} <= {State.ALIVE, State.DEAD}
    assert "every invariant holds" in done("check", directory)


def test_a_worker_with_an_older_version_of_the_plugin_leaves_them_too(gates, tmp_path):
    """It used to put healthy individuals into quarantine, because it could not read their DNA."""
    directory, newer = shutil.copytree(gates, tmp_path / "gates"), tmp_path / "spatial_gate_layer.py"
    text = EXAMPLE.read_text().replace('    SYMBOL = "SG"', '    reach: float = 1.0\n    SYMBOL = "SG"')
    newer.write_text(text.replace("SpatialGate(id=", "SpatialGate(reach=2.0, id="))
    dna = tmp_path / "newer.json"
    first = _file(tmp_path, encode(initial()))
    made = process("dna", "mutate", first, "--mutation", "insert-spatial-gate", "--plugin", newer, "--out", dna)
    assert made.returncode == 0, made.stderr
    result = process("dna", "show", dna, "--plugin", EXAMPLE)
    assert result.returncode == 2 and "does not have with these fields: use the version" in result.stderr
    done("run", directory, "--individuals", 18, "--set", "population.size=8", "--plugin", newer)
    has_newer = {row.id for row in Experiment.open(directory).history().rows.values() if '"reach"' in encode(row.dna)}
    assert has_newer
    done("set", directory, "budget.individuals=none", "breeding.odds.identity=1")
    done("migrate", _plain(tmp_path), directory, "--best", 3)  # so that it has something to do
    done("set", directory, f"budget.individuals={Experiment.open(directory).history().spending().individuals + 4}")
    result = process("worker", directory, "--number", 7, "--plugin", EXAMPLE, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert not list((directory / "quarantine").iterdir())
    assert "every invariant holds" in done("check", directory)


def _plain(folder):
    done("run", folder / "plain", *SMALL, "--individuals", 6, "--seed", 3)
    return folder / "plain"


def test_an_installed_package_may_offer_a_kind(tmp_path):
    """Through the entry point group of layers, where it is imported only when a network has the kind."""
    dna, info = tmp_path / "gate.json", tmp_path / "gate-1.0.dist-info"
    inserted = process("dna", "mutate", _file(tmp_path, encode(initial())), "--mutation", "insert-spatial-gate",
                       "--plugin", EXAMPLE, "--out", dna)  # fmt: skip
    assert inserted.returncode == 0, inserted.stderr
    (tmp_path / "gate_kind.py").write_text(
        "from genepool.layers import Vertex\nclass Gate(Vertex, frozen=True, tag='spatial_gate'):\n    SYMBOL = 'G'\n"
    )
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gate\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[genepool.layers]\nspatial_gate = gate_kind:Gate\n")
    path = os.pathsep.join((str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])))
    assert "spatial_gate" in done("dna", "show", dna, env={**os.environ, "PYTHONPATH": path})
    (tmp_path / "gate_kind.py").write_text("1 / 0")
    result = process("dna", "show", dna, env={**os.environ, "PYTHONPATH": path})
    assert result.returncode == 2 and LACKS in result.stderr  # broken: as if it were not there


def _file(folder, text):
    (folder / "first.json").write_text(text)
    return folder / "first.json"


# Broken plugins


BROKEN = {
    "an error in its computation": ("operation(self, tensors)", "return lambda x: x + undefined", "NameError"),
    "no weights": ("weights(self, source)", "return {'weight': 1 / 0}", "ZeroDivisionError"),
    "no FLOPs": ("flops(self, source, batch)", "raise ValueError('odd')", "ValueError: odd"),
    "no shape": ("result(self, source)", "raise KeyError(1)", "KeyError"),
    "another shape than it says": ("operation(self, tensors)", "return lambda x: x.repeat(1, 2, 1, 1)", "at fault"),
}


def broken(folder, method, body):
    """A plugin with a layer that multiplies by 1, except for one method."""
    (folder / "broken.py").write_text(
        textwrap.dedent(f"""
        from msgspec.structs import replace
        from genepool.layers import LAYERS, Flops, Identity, Vertex
        from genepool.mutations import MUTATIONS, new_id

        @LAYERS.register("broken")
        class Broken(Vertex, frozen=True, kw_only=True, tag="broken"):
            SYMBOL = "B"
            def operation(self, tensors):
                return lambda x: x * 1
            def {method}:
                {body}

        @MUTATIONS.register("break")
        def break_(dna, rng):
            old, new = dna.backbone[0], Broken(id=new_id(dna, rng))
            into = Identity(id=new_id(dna, rng), from_vertex=old.from_vertex, to_vertex=new.id)
            return dna.edited(put=[new, into, replace(old, from_vertex=new.id)])
        """)
    )
    return folder / "broken.py"


def damaged(folder, plugin):
    out = folder / "broken.json"
    first = _file(folder, encode(initial().edited(put=[Identity(id="trunk", from_vertex="input", to_vertex="output")])))
    done("dna", "mutate", first, "--mutation", "break", "--plugin", plugin, "--out", out)
    return out


@pytest.mark.parametrize(("method", "body", "fault"), BROKEN.values(), ids=BROKEN)
def test_a_network_with_a_broken_layer_fails_with_a_reason(tmp_path, method, body, fault):
    plugin = broken(tmp_path, method, body)
    dna = damaged(tmp_path, plugin)
    found = json.loads(done("train", dna, "--steps", 2, "--json", "--plugin", plugin))
    assert found["fitness"] == 0 and "'broken'" in found["reason"] and fault in found["reason"]
    if fault != "at fault":
        wanted = r"the layer kind 'broken' failed \(.*, in line \d+ of broken.py\); fix its plugin"
        assert re.search(wanted, found["reason"])


@pytest.mark.parametrize("words", [("dna", "show"), ("train",)], ids=["show", "train"])
def test_a_broken_layer_is_one_sentence_and_no_bug_of_ours(tmp_path, words):
    plugin = broken(tmp_path, "flops(self, source, batch)", "raise ValueError('odd')")
    result = process(*words, damaged(tmp_path, plugin), *(("--steps", 1) if words == ("train",) else ()), "--plugin",
                     plugin)  # fmt: skip
    assert "Traceback" not in result.stderr and "bug in Genepool" not in result.stderr
    assert "ayer kind 'broken' failed (ValueError: odd" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("operation(self, tensors)", "raise ValueError('odd')"),
        pytest.param("result(self, source)", "raise ValueError('odd')", marks=pytest.mark.thorough),
        pytest.param(
            "label(self)", "raise ValueError('odd')\n            label = property(label)", marks=pytest.mark.thorough
        ),
    ],
    ids=["operation", "shape", "label"],
)
def test_a_broken_layer_does_not_end_a_run(tmp_path, method, body):
    plugin, directory = broken(tmp_path, method, body), tmp_path / "e"
    done("run", directory, *SMALL, "--individuals", 10, "--set", "breeding.odds.break=8", "--plugin", plugin)
    rows = [row for row in Experiment.open(directory).history().rows.values() if row.birth.mutations == ("break",)]
    reasons = {row.evaluation.reason for row in rows}
    assert rows
    if method.startswith("label"):
        assert reasons == {None}
    else:
        assert len(reasons) == 1 and "'broken' failed (ValueError: odd" in reasons.pop()
        assert all(row.fitness == 0 for row in rows)
    assert "every invariant holds" in done("check", directory)
    assert "lacks" not in (directory / "logs" / "worker-0.log").read_text()


def test_a_mutation_that_makes_an_unregistered_layer_is_one_sentence(tmp_path):
    plugin = broken(tmp_path, "kept(self, source)", "return 0")
    plugin.write_text(plugin.read_text().replace('@LAYERS.register("broken")', ""))
    result = process("dna", "mutate", _file(tmp_path, encode(initial())), "--mutation", "break", "--plugin", plugin)
    assert result.returncode == 2 and "it made a layer of the class Broken, which is not registered" in result.stderr
