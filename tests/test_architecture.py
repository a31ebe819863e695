"""The rules between layers (ARCHITECTURE.md), read off the source: who imports whom, who may touch what."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "genepool"
FILES = sorted(ROOT.rglob("*.py"))

# A file may import from its own folder, from every lower row, and from what stands to the right of it in its own row.
LAYERS = (
    ("cli",),
    ("classifier", "dashboard", "study", "testing"),
    ("experiment",),
    ("workers", "analysis"),
    ("settings", "export", "nn", "evolution", "data"),
    ("population", "mutations", "evaluation"),
    ("dna", "layers"),
    ("registry", "errors"),
)
PLACE_OF = {name: (row, column) for row, names in enumerate(LAYERS) for column, name in enumerate(names)}
BORDERS = {
    "torch": ("layers", "nn", "export", "testing/bench", "testing/layer_contract.py", "testing/layer_checks.py"),
    "safetensors": ("nn", "export"),
    "onnx": ("export",),
    "onnxruntime": ("export",),
    "matplotlib": ("study/plots",),
    "ray": ("workers/ray",),
    "starlette": ("dashboard",),
    "uvicorn": ("dashboard",),
    "tensorboard": ("experiment",),
    "mlflow": ("experiment",),
}


def package_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Every module that the file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def inner(path: Path) -> set[str]:
    """The packages of ours that the file imports."""
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("genepool.")}
    return {name for name in ours if name in PLACE_OF}


INSIDE = [path for path in FILES if package_of(path) not in ("__init__", "__main__")]


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards_only(path):
    package = package_of(path)
    assert package in PLACE_OF, f"{package} has no layer: give it one here and in ARCHITECTURE.md"
    assert not {name for name in inner(path) if PLACE_OF[name] < PLACE_OF[package]}


def test_there_are_few_layers():
    assert len(LAYERS) <= 9


@pytest.mark.parametrize("library", BORDERS)
def test_each_heavy_library_has_one_room(library):
    users = [p.relative_to(ROOT) for p in FILES if any(name.split(".")[0] == library for name in imports(p))]
    assert not [path for path in users if not any(path.is_relative_to(folder) for folder in BORDERS[library])]


def test_layers_load_torch_only_when_a_network_is_built():
    """Commands that do not train read DNAs, and must not wait for torch or NumPy."""
    for path in (ROOT / "layers").glob("*.py"):
        if path.name == "tensors.py":
            continue
        first = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [alias.name for node in first if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in first if isinstance(node, ast.ImportFrom)]
        heavy = [name for name in names if name.split(".")[0] in ("torch", "numpy") or name.endswith("layers.tensors")]
        assert not heavy, path


def test_only_layers_and_mutations_know_the_kinds_of_layers():
    """Everything else asks the layer. One place is allowed: `DNA.convs`, which the paper's mutations use."""
    known = re.compile(r"bn_relu|isinstance\([^)]*\bConv\b")
    outside = [path for path in FILES if package_of(path) not in ("layers", "mutations")]
    found = [
        f"{path.name}: {line.strip()}"
        for path in outside
        for line in path.read_text().splitlines()
        if known.search(line)
    ]
    assert len(found) <= 1, found


def test_evolution_and_torch_meet_only_in_the_evaluation():
    assert not [path for path in FILES if package_of(path) == "evolution" and "nn" in inner(path)]
    assert not [path for path in FILES if package_of(path) == "nn" and inner(path) & {"evolution", "population"}]


def test_only_one_module_makes_system_calls_for_the_store():
    """The port that tests replace: a call past it would be a call that no fault was ever injected into."""
    for path in (ROOT / "population").rglob("*.py"):
        if path.name not in ("files.py", "doctor.py"):
            assert not imports(path) & {"os", "shutil", "tempfile", "subprocess"}, path


def test_only_one_module_reads_the_test_images():
    """The sources themselves may wrap one another; everybody else goes through nn/final_test.py."""
    outside = [path for path in FILES if package_of(path) != "data"]
    readers = {p.name for p in outside if any(_calls(node, "held_out") for node in ast.walk(ast.parse(p.read_text())))}
    assert readers == {"final_test.py"}


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def test_nothing_unpickles():
    """Neither by name nor by a loader that would: torch.load, numpy.load without allow_pickle=False."""
    for path in FILES:
        assert not imports(path) & {"pickle", "marshal", "shelve", "dill", "joblib"}, path
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load"):
                continue
            module = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            assert module != "torch", path
            safe = any(k.arg == "allow_pickle" and getattr(k.value, "value", True) is False for k in node.keywords)
            assert module not in ("np", "numpy") or safe, path


def test_what_runs_a_models_own_code_is_used_only_where_models_are_written():
    """torch.export.load unpickles, runpy runs: for files that we wrote a moment ago, in the one place of each."""
    for path in FILES:
        text = path.read_text()
        assert "torch.export.load(" not in text or path.name == "torch_program.py", path
        assert "runpy" not in imports(path) or path.name == "source.py", path
        assert "InferenceSession" not in text or path.name == "onnx_file.py", path


def test_there_is_no_drawer_for_odds_and_ends():
    assert not [path for path in FILES if path.stem in ("utils", "helpers", "misc", "common")]
