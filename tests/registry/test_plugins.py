"""What is loaded and what never is: the command line, the environment, installed packages; not a directory's files."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

GENEPOOL = str(Path(sys.executable).parent / "genepool")
EXAMPLES = Path(__file__).parents[2] / "examples"


def genepool(*words, cwd=None, **environment):
    command = [GENEPOOL, *map(str, words)]
    if "PYTHONPATH" in environment and "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, **environment}
    )


def mutate(*words, **options):
    """The cheapest verb that looks up a name."""
    dna = EXAMPLES / "three-convolutions.json"
    return genepool("dna", "mutate", dna, "--mutation", "leak", "--json", *words, **options)


def test_a_file_and_a_module_and_the_environment(tmp_path):
    (tmp_path / "leaky_module.py").write_bytes((EXAMPLES / "leaky_mutation.py").read_bytes())
    assert mutate("--plugin", EXAMPLES / "leaky_mutation.py").returncode == 0
    assert mutate("--plugin", "leaky_module", PYTHONPATH=str(tmp_path)).returncode == 0
    assert mutate(GENEPOOL_PLUGINS=str(EXAMPLES / "leaky_mutation.py")).returncode == 0
    assert "There is no mutation 'leak'" in mutate().stderr


BAD = {
    "no file": ("nowhere.py", None, "there is no such file"),
    "no module": ("no_such_module", None, "there is no such module; install it, or give the path of a .py file"),
    "a path as a module": ("../../evil", None, "cannot be loaded"),
    "a fault in it": ("bad.py", "1 / 0", "ZeroDivisionError: division by zero"),
    "an exit in it": ("bad.py", "import sys; sys.exit(0)", "SystemExit"),
    "no Python": ("bad.py", "this is no Python", "SyntaxError"),
    "a taken name": (
        "bad.py",
        "from genepool.mutations import MUTATIONS\nMUTATIONS.register('add-skip')(int)",
        "'add-skip' is registered twice",
    ),
}


@pytest.mark.parametrize(("name", "code", "said"), BAD.values(), ids=BAD)
def test_what_cannot_be_loaded_is_one_sentence(tmp_path, name, code, said):
    if code is not None:
        (tmp_path / name).write_text(code)
    result = mutate("--plugin", name, cwd=tmp_path)
    assert result.returncode == 2 and said in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("code", ["return 1 / 0", "return 'dna'"])
def test_a_mutation_that_fails_is_one_sentence(tmp_path, code):
    plugin = tmp_path / "bad.py"
    plugin.write_text(
        f"from genepool.mutations import MUTATIONS\n@MUTATIONS.register('leak')\ndef leak(dna, rng):\n    {code}\n"
    )
    result = mutate("--plugin", plugin)
    assert result.returncode == 2 and "The mutation 'leak' failed" in result.stderr


def test_installed_packages(tmp_path):
    """As an installer leaves them; a broken one is told of only where a name is missing."""
    (tmp_path / "stranger.py").write_bytes((EXAMPLES / "leaky_mutation.py").read_bytes())
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[genepool.registry]\nours = stranger\nbroken = nowhere_at_all\n")
    result = mutate(PYTHONPATH=str(tmp_path))
    assert result.returncode == 0 and "nowhere" not in result.stderr
    dna = EXAMPLES / "three-convolutions.json"
    result = genepool("dna", "mutate", dna, "--mutation", "no-such", PYTHONPATH=str(tmp_path))
    assert "There is no mutation 'no-such'" in result.stderr
    assert "The installed plugin 'broken' cannot be loaded: there is no such module" in result.stderr


def test_a_hostile_directory_brings_no_code(tmp_path):
    """Modules, start-up files and names that are paths, all over an experiment, with a worker that runs right in it."""
    from genepool import Experiment
    from genepool.settings import changed, preset

    directory = tmp_path / "e"
    small = {
        "data.source": "fashion-mini",
        "budget.individuals": 3,
        "budget.time": None,
        "training.steps": 5,
        "training_budget.share": None,
        "workers.count": 1,
    }
    Experiment.create(directory, changed(preset("laptop"), small))
    trap = textwrap.dedent(f"""
        from pathlib import Path
        Path({str(tmp_path / "sprung")!r}).write_text(__name__)
    """)
    names = ("evil", "sitecustomize", "usercustomize", "torch", "msgspec", "numpy", "genepool", "logging", "__init__")
    for place in (directory, directory / "logs", directory / "best", directory / "config"):
        place.mkdir(exist_ok=True)
        for name in names:
            (place / f"{name}.py").write_text(trap)
        (place / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'sprung')!r}).touch()\n")
    (tmp_path / "evil.py").write_text(trap)
    # What no verb would write: names that are paths, modules and files.
    odds = {"evil": 1, "../../evil": 1, "evil.py": 1, str(tmp_path / "evil.py"): 1, "evil:Evil": 1, "identity": 1}
    _publish(directory, breeding={"odds": odds})
    result = genepool("worker", ".", "--number", 0, cwd=directory)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("lacks the mutation") == len(odds) - 1
    result = genepool("run", ".", "--individuals", 5, cwd=directory)  # whose workers are started with `python -m`
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / "sprung").exists()
    _publish(directory, population={"selection": "../../evil", "set_point": "evil"}, training={"schedule": "evil.py"})
    result = genepool("run", ".", "--individuals", 7, cwd=directory)
    assert result.returncode == 2 and "name the selection '../../evil'" in result.stderr
    for words in (("check", "."), ("lineage", "."), ("best", ".", "--no-test")):
        assert genepool(*words, cwd=directory).returncode == 0
    assert not (tmp_path / "sprung").exists()


def _publish(directory, **sections):
    folder = directory / "config"
    newest = max(folder.glob("0*.json"))
    values = json.loads(newest.read_text())
    values |= {name: {**values[name], **section} for name, section in sections.items()}
    (folder / f"{int(newest.stem) + 1:06}.json").write_text(json.dumps(values))
