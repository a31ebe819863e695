"""`genepool run --track`: with the real packages where they are installed; one sentence where they are not."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.in_process import genepool

GENEPOOL = str(Path(sys.executable).parent / "genepool")
SMALL = ("--workers", 1, "--population", 3, "--steps", 5, "--individuals", 3, "--set", "budget.time=none")


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_gets_one_sentence(tmp_path, name):
    if importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed")
    result = genepool("run", tmp_path / "e", "--track", name, *SMALL)
    assert result.returncode == 2 and f"pip install 'genepool[{name}]'" in result.stderr
    assert "Traceback" not in result.stderr and not (tmp_path / "e" / "logs").exists()


def test_an_unknown_tracker_gets_one_sentence(tmp_path):
    result = genepool("run", tmp_path / "e", "--track", "tensorbord", *SMALL)
    assert result.returncode == 2 and "did you mean 'tensorboard'?" in result.stderr


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_gets_a_point_an_individual(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = genepool("run", tmp_path / "e", "--track", "tensorboard", *SMALL)
    assert result.returncode == 0, result.stderr
    events = EventAccumulator(str(tmp_path / "e" / "tensorboard"))
    events.Reload()
    values = {
        name: [event.tensor_proto.float_val[0] for event in events.Tensors(name)] for name in events.Tags()["tensors"]
    }
    assert set(values) == {"fitness", "best", "flops", "validation_accuracy", "test_accuracy"}
    assert len(values["fitness"]) >= 3 and values["best"] == sorted(values["best"])
    assert values["best"][-1] == max(values["fitness"]) and values["flops"][0] > 0


@pytest.mark.filterwarnings("ignore")
def test_mlflow_gets_figures_and_the_best_model(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow import MlflowClient

    result = genepool("run", tmp_path / "e", "--track", "mlflow", *SMALL)
    assert result.returncode == 0, result.stderr
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'e' / 'mlflow.db'}")
    [run] = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    history = client.get_metric_history(run.info.run_id, "best")
    assert len(history) >= 3 and run.info.status == "FINISHED"
    assert (tmp_path / "e" / "mlruns" / run.info.run_id / "artifacts" / "best" / "weights.safetensors").exists()


GONE = "raise ConnectionError('gone')"


@pytest.mark.parametrize(
    ("at_start", "later"), [pytest.param(GONE, "pass", marks=pytest.mark.thorough), ("pass", GONE)]
)
def test_a_tracker_that_fails_ends_no_run(tmp_path, at_start, later):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from genepool.experiment.tracking import TRACKERS\n@TRACKERS.register('mine')\nclass Mine:\n"
        f"    def __init__(self, directory): {at_start}\n    def log(self, figures, step): {later}\n"
    )
    command = [GENEPOOL, "run", tmp_path / "e", "--plugin", plugin, "--track", "mine", *SMALL]
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("Tracking with mine failed and stops: ConnectionError: gone") == 1
