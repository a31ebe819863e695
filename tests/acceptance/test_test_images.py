"""No code path of evolution opens the test images, nor what was ever measured on them."""

import os
import subprocess
import sys
import textwrap

import pytest

from genepool.experiment import Experiment
from genepool.settings import changed, preset

WATCHED = textwrap.dedent(
    """
    import os, sys

    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def hook(event, args):
        if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
            path = os.fsdecode(args[0])
            os.write(log, (path + "\\n").encode())
            if path.endswith(os.path.join("fashion_mini", "test.png")):
                raise OSError("the test images are poisoned")

    sys.addaudithook(hook)
    from genepool.cli import main

    sys.argv = ["genepool", *sys.argv[2:]]
    main()
    """
)
MEASURED = (
    "best/best.json",
    "best/tests.json",
    "records/x.safetensors",
    "outcome.json",
    "changes.json",
    "report/report.html",
)


@pytest.fixture
def watched(tmp_path):
    """Runs a verb with an own cache, an eye on every file that is opened, and test images that cannot be."""

    def run(*words):
        environment = {**os.environ, "GENEPOOL_CACHE": str(tmp_path / "cache")}
        log = tmp_path / "opened"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-c", WATCHED, str(log), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        return done, log.read_text().splitlines()

    return run


def test_a_worker_evolves_from_nothing_without_the_test_images(watched, tmp_path):
    changes = {
        "population.size": 3,
        "training.steps": 5,
        "budget.individuals": 8,
        "population.durability": "fast",
        "budget.time": None,
    }
    experiment = Experiment.create(tmp_path / "run", changed(preset("faithful"), changes))
    for name in MEASURED:
        (experiment.path / name).parent.mkdir(exist_ok=True)
        (experiment.path / name).write_text("poison")
    done, opened = watched("worker", experiment.path, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert experiment.history().spending().individuals >= 8
    assert any(path.endswith("fashion_mini/train.png") for path in opened), "the eye sees what is opened"
    assert not [path for path in opened if path.endswith("test.png")]
    assert not [path for path in opened for name in MEASURED if path.endswith(name)]
    # `best` does open them: the check above can fail.
    (experiment.path / "best" / "best.json").unlink()
    done, opened = watched("best", experiment.path)
    assert "test accuracy        not measured" in done.stdout
    assert any(path.endswith("fashion_mini/test.png") for path in opened)
