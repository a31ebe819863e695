"""Each kind of plugin, as shipped in examples/, in a real evolution; then without it."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from genepool import Experiment
from tests.support import in_process
from tests.support.processes import PATIENCE, workers_of

GENEPOOL = str(Path(sys.executable).parent / "genepool")
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = (
    "--workers",
    1,
    "--population",
    3,
    "--steps",
    20,
    "--individuals",
    6,
    "--set",
    "budget.time=none",
    "--set",
    "population.lease=2",
)
GROWING = [f"breeding.odds.{name}=0" for name in ("alter-learning-rate", "identity", "widen", "remove-convolution")]
LEAKING = [word for odds in (*GROWING, "breeding.odds.leak=5") for word in ("--set", odds)]


def genepool(*words, **options):
    """In a process of its own where a plugin is loaded, which would stay in this one, or logs are wanted."""
    if "--plugin" in words or "worker" in words or options:
        return subprocess.run([GENEPOOL, *map(str, words)], capture_output=True, text=True, check=False, **options)
    return in_process.genepool(*words)


def done(*words, **options):
    result = genepool(*words, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*words, **options):
    result = genepool(*words, **options)
    assert result.returncode == 2 and "Traceback" not in result.stderr, result.stderr
    assert result.stderr.strip().count("\n") == 0
    return result.stderr


def mutations(directory):
    return [name for row in Experiment.open(directory).history().rows.values() for name in row.birth.mutations]


@pytest.fixture(scope="module")
def leaky(tmp_path_factory):
    """An experiment with a foreign mutation, whose file has gone since."""
    folder = tmp_path_factory.mktemp("leaky")
    plugin = folder / "mine.py"
    plugin.write_bytes((EXAMPLES / "leaky_mutation.py").read_bytes())
    directory = folder / "experiment"
    done("run", directory, "--plugin", plugin, *SMALL, *LEAKING, "--individuals", 14, "--seed", 1)
    return directory


def test_a_foreign_mutation_makes_children(leaky):
    assert "leak" in mutations(leaky)
    rows = Experiment.open(leaky).history().rows.values()
    assert any(getattr(vertex, "leakiness", 0) for row in rows for vertex in row.dna.vertices)


def test_without_its_plugin_everything_but_a_replay_works(leaky):
    [made, *_] = [row.id for row in Experiment.open(leaky).history().rows.values() if "leak" in row.birth.mutations]
    assert "leak" in done("lineage", leaky, made)
    assert "every invariant holds" in done("check", leaky)
    assert json.loads(done("best", leaky, "--json"))["fitness"] > 0
    done("status", leaky)
    said = refused("replay", leaky, made).splitlines()[-1]
    assert "was made when the mutation 'leak' had odds, which is not known here" in said and "--plugin" in said
    assert "the replay agrees" in done("replay", leaky, made, "--plugin", EXAMPLES / "leaky_mutation.py").lower()


@pytest.mark.thorough
def test_a_worker_that_lacks_a_mutation_says_so_once_and_goes_on_without_it(leaky):
    before = len(mutations(leaky))
    done("set", leaky, "budget.individuals=18", "breeding.odds.widen=1")
    result = genepool("worker", leaky, "--number", 7)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("lacks the mutation 'leak' and leaves it out of its draws") == 1
    new = [row for row in Experiment.open(leaky).history().rows.values() if row.birth.lacking]
    assert new and all(row.birth.lacking == ("leak",) and "leak" not in row.birth.mutations for row in new)
    assert len(mutations(leaky)) > before
    plugin = ("--plugin", EXAMPLES / "leaky_mutation.py")
    assert "The replay agrees" in done("replay", leaky, new[-1].id, *plugin)  # drawn without it then, so also now


@contextlib.contextmanager
def running(directory, **environment):
    """`genepool run` with one worker and a budget that is never spent, once it has made children; then it is told to
    stop."""
    command = [GENEPOOL, "run", directory, *SMALL, "--individuals", "100000", *LEAKING[:-2]]
    with started(*command, **environment) as process:
        _wait(lambda: (directory / "experiment.json").exists() and len(mutations(directory)) > 2)
        yield process


@contextlib.contextmanager
def started(*command, **environment):
    process = subprocess.Popen(
        [*map(str, command)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def told_in_the_lineage(directory):
    """Of one whom the mutation `leak` made, if there is one."""
    made = [row.id for row in Experiment.open(directory).history().rows.values() if "leak" in row.birth.mutations]
    return bool(made) and "leak" in done("lineage", directory, made[-1])


def works_on_without_it(directory):
    """The mutation is turned off, and others make children."""
    done("set", directory, "breeding.odds.leak=0")
    before = len(mutations(directory))
    _wait(lambda: len(mutations(directory)) > before + 3)
    assert "every invariant holds" in done("check", directory)
    assert told_in_the_lineage(directory)
    assert json.loads(done("best", directory, "--no-test", "--json"))["fitness"] > 0


def test_a_mutation_is_added_to_an_experiment_that_runs_and_taken_away(tmp_path):
    directory, plugin = tmp_path / "e", tmp_path / "mine.py"
    with running(directory) as first:
        assert "no mutation 'leak'" in refused("set", directory, "breeding.odds.leak=20")
        plugin.write_bytes((EXAMPLES / "leaky_mutation.py").read_bytes())
        done("set", directory, "breeding.odds.leak=20", "--plugin", plugin)
        with started(GENEPOOL, "worker", directory, "--plugin", plugin):
            _wait(lambda: told_in_the_lineage(directory))
        plugin.unlink()
        works_on_without_it(directory)
        assert first.poll() is None  # nobody was started again for any of it
    assert "lacks the mutation 'leak'" in (directory / "logs" / "worker-0.log").read_text()


@pytest.mark.thorough
def test_workers_that_run_take_a_package_that_is_installed_meanwhile(tmp_path):
    """As an installer leaves it; without a new worker, and without the old ones being started again."""
    directory, packages = tmp_path / "e", tmp_path / "packages"
    packages.mkdir()
    with running(directory, PYTHONPATH=str(packages)) as first:
        [worker] = workers_of(directory)
        (packages / "leaky_package.py").write_bytes((EXAMPLES / "leaky_mutation.py").read_bytes())
        info = packages / "leaky-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: leaky\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[genepool.registry]\nleaky = leaky_package\n")
        done("set", directory, "breeding.odds.leak=20", env={**os.environ, "PYTHONPATH": str(packages)})
        _wait(lambda: told_in_the_lineage(directory))
        shutil.rmtree(packages)
        works_on_without_it(directory)
        assert first.poll() is None and workers_of(directory) == [worker]
    done("run", directory, "--individuals", len(mutations(directory)) + 3)


def _wait(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.mark.thorough
def test_a_foreign_selection_and_recipe_and_workers_that_lack_them(tmp_path):
    directory = tmp_path / "e"
    plugins = {"GENEPOOL_PLUGINS": f"{EXAMPLES / 'lenient_selection.py'}:{EXAMPLES / 'cosine_schedule.py'}"}
    choice = ("--set", "population.selection=lenient", "--set", "training.schedule=cosine")
    environment = {**os.environ, **plugins}
    said = refused("run", directory, *SMALL, *choice)
    assert "There is no selection 'lenient'" in said
    done("run", directory, *SMALL, *choice, env=environment)
    assert len(mutations(directory)) > 2
    said = refused("run", directory, "--individuals", 12)
    assert "the selection 'lenient' and the schedule 'cosine', which this process does not have" in said
    # A worker without them leaves everything to others, and loses nothing; with them the same experiment goes on.
    before = len(Experiment.open(directory).history().rows)
    idle = subprocess.Popen([GENEPOOL, "worker", str(directory)], stderr=subprocess.PIPE, text=True)
    said = [next(line for line in idle.stderr if "This worker lacks" in line) for _ in range(2)]
    newest = max((directory / "workers").iterdir(), key=lambda folder: folder.stat().st_ctime_ns)
    _wait(lambda: int((newest / "heartbeat").read_text().split()[2]) > 3)  # steps that did nothing
    idle.terminate()
    words = idle.communicate()[1]
    assert len(set(said)) == 2 and "This worker lacks" not in words and "stops: it received" in words
    assert len(Experiment.open(directory).history().rows) == before
    done("run", directory, "--individuals", 14, env=environment)
    assert len(Experiment.open(directory).history().rows) > before
    assert "The replay agrees" in done("replay", directory, env=environment)
    assert "no schedule 'cosine'" in refused("replay", directory)


def test_a_foreign_data_set(tmp_path):
    directory, plugin = tmp_path / "e", ("--plugin", EXAMPLES / "stripes_data.py")
    found = json.loads(done("run", directory, "--data", "stripes", *plugin, *SMALL, "--json"))
    assert found["test_accuracy"] is not None
    assert "stripes" in done("data", *plugin) and "stripes" not in done("data")
    assert "no data set 'stripes'" in refused("worker", directory).splitlines()[-1]
    assert json.loads(done("best", directory, "--no-test", "--json"))["id"] == found["id"]
    assert "every invariant holds" in done("check", directory)
