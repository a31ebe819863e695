"""`genepool run` and the verbs that look at what it made: one short real evolution on the shipped images."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from genepool.dna import codec
from genepool.experiment import Experiment
from tests.support.in_process import genepool
from tests.support.networks import chain, conv
from tests.support.processes import PATIENCE

GENEPOOL = str(Path(sys.executable).parent / "genepool")


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    """The directory of an experiment of some 25 individuals, and what `run` printed."""
    directory = tmp_path_factory.mktemp("evolved") / "experiment"
    command = ("run", directory, "--workers", 2, "--population", 6, "--steps", 30, "--individuals", 25, "--seed", 3)
    result = genepool(*command, "--set", "budget.time=none", "--set", "population.lease=5")
    assert result.returncode == 0, result.stderr
    return directory, result


def test_run_prints_the_best_network_its_accuracies_and_its_cost(evolved):
    directory, result = evolved
    for line in (
        r"best network         \S",
        r"validation accuracy  \d+\.\d %",
        r"test accuracy        \d+\.\d %",
        r"parameters           [\d,]+",
        r"search               \S+ \wFLOP, \d+ individuals, ",
        f"model                {directory}/best/weights.safetensors",
        f"figure               {directory}/progress.png",
    ):
        assert re.search(line, result.stdout), line
    # Lines come every ten seconds, so all may be over after the first.
    assert re.search(
        r"trained, \d+ per minute, 2 workers, (overhead \d+\.\d % \(.*\), best|no individual)", result.stderr
    )
    assert (directory / "progress.png").read_bytes().startswith(b"\x89PNG")
    assert "Traceback" not in result.stderr


def test_the_model_that_is_kept_is_the_best_and_can_be_trained_on(evolved):
    directory, _ = evolved
    facts = json.loads(genepool("best", directory, "--json").stdout)
    again = genepool(
        "train", directory / "best" / "dna.json", "--parent", facts["weights"], "--steps", 0, "--json",
    )  # fmt: skip
    assert json.loads(again.stdout)["fitness"] == facts["fitness"]
    keys = {"id", "fitness", "test_accuracy", "parameters", "network", "learning_rate", "individuals", "flops"}
    assert set(facts) == keys | {
        "seconds",
        "weights",
        "accuracy",
        "flops_image",
        "milliseconds",
        "body_rate",
        "untested",
    }


def test_test_accuracy_is_measured_once_for_the_chosen_one_only(evolved):
    directory, _ = evolved
    kept = directory / "best" / "tests.json"
    [chosen] = json.loads(kept.read_text())
    kept.write_text(json.dumps({chosen: 0.123}))
    assert json.loads(genepool("best", directory, "--json").stdout)["test_accuracy"] == 0.123
    kept.unlink()
    (directory / "best" / "best.json").unlink()
    assert json.loads(genepool("best", directory, "--no-test", "--json").stdout)["test_accuracy"] is None
    assert json.loads(genepool("best", directory, "--json").stdout)["test_accuracy"] != 0.123


def test_status_tells_how_it_stands(evolved, tmp_path):
    import shutil

    directory, _ = evolved
    facts = json.loads(genepool("status", directory, "--json").stdout)
    assert 25 <= facts["individuals"] <= 27
    assert 4 <= facts["alive"] + facts["training"] <= 8
    assert facts["over"] == "25 individuals have been trained"
    assert facts["flops"] > 1e6
    assert 1 <= len(facts["workers"]) <= 2  # all may be over before the second is there
    assert sum(one["individuals"] for one in facts["workers"].values()) == facts["individuals"]
    assert all(0 < one["overhead"] < 1 for one in facts["workers"].values())
    assert 0 < facts["overhead"] < 1
    page = genepool("status", directory).stdout
    assert re.search(r"overhead     \d+\.\d % .*: \S+ \d+ %", page)
    assert "individuals trained" in page
    assert "25 individuals have been trained" in page
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    assert genepool("set", copy, f"budget.individuals={facts['individuals'] + 2}").returncode == 0
    assert genepool("worker", copy).returncode == 0
    assert len(json.loads(genepool("status", copy, "--json").stdout)["workers"]) == len(facts["workers"]) + 1
    assert re.search(r"overhead     \d+\.\d % .*: \S+ \d+ %, \S+ \d+ %", genepool("status", copy).stdout)


def test_lineage_leads_from_the_beginning_to_the_best(evolved):
    directory, _ = evolved
    chain = json.loads(genepool("lineage", directory, "--json").stdout)
    assert chain[0]["mutations"] == []
    assert chain[-1]["fitness"] == json.loads(genepool("best", directory, "--json").stdout)["fitness"]
    assert set(chain[0]) == {
        "id", "mutations", "second", "fitness", "accuracy", "learning_rate", "body_rate", "parameters", "state",
        "network",
    }  # fmt: skip
    assert "(the beginning)" in genepool("lineage", directory, chain[0]["id"][-8:]).stdout


def test_the_shortest_time_yields_a_network_and_what_is_over_says_so(tmp_path):
    first = genepool("run", tmp_path / "e", "--workers", 1, "--time", "0.3s", "--seed", 1)
    assert first.returncode == 0 and "best network         " in first.stdout, first.stderr
    again = genepool("run", tmp_path / "e", "--workers", 1, "--individuals", 1)
    assert again.returncode == 0 and "best network         " in again.stdout
    assert re.search(r"Nothing is left to do: .*\. To continue, give a larger budget\.", again.stderr)


def test_check_finds_nothing_and_finds_damage(evolved, tmp_path):
    import shutil

    directory, _ = evolved
    clean = genepool("check", directory)
    assert (clean.returncode, clean.stdout.splitlines()[-1]) == (0, "every invariant holds")
    broken = tmp_path / "broken"
    shutil.copytree(directory, broken)
    victim = next(broken.glob("pop/*/A1_*/*.weights.safetensors"))
    data = victim.read_bytes()
    victim.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    result = genepool("check", broken, "--json")
    assert result.returncode == 1
    [violation] = json.loads(result.stdout)["violations"]
    assert violation["invariant"] == "I3"
    assert victim.parent.name.split("_")[1] in violation["place"] + violation["text"]


def test_replay_of_the_best_reaches_the_recorded_fitness(evolved):
    directory, _ = evolved
    result = genepool("replay", directory, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["agrees"] is True


def test_a_record_that_was_tampered_with_does_not_replay(evolved, tmp_path):
    import shutil

    directory, _ = evolved
    forged = tmp_path / "forged"
    shutil.copytree(directory, forged)
    best = json.loads(genepool("best", directory, "--json").stdout)
    [place] = forged.glob(f"pop/*/A1_{best['id']}_*")
    record = place / "dna.json"
    # A seed of another training could reach the same accuracy by chance; a training that diverges cannot.
    record.write_text(re.sub(r'"learning_rate":[^,]+', '"learning_rate":1e5', record.read_text()))
    result = genepool("replay", forged)
    assert result.returncode == 1
    assert "NOT agree" in result.stdout


@pytest.mark.thorough
def test_a_replay_computes_in_what_each_training_was_computed_in(tmp_path):
    """What `auto` means depends on the machine; the record does not."""
    directory, network = tmp_path / "experiment", tmp_path / "network.json"
    network.write_text(codec.encode(chain(conv("a", depth_factor=8.0, stride_scale=1.0))))
    command = ("run", directory, "--start", network, "--workers", 1, "--steps", 40, "--individuals", 3)
    result = genepool(*command, "--set", "budget.time=none", "--set", "training.precision=mixed")
    assert result.returncode == 0, result.stderr
    settings = directory / "config" / "000001.json"
    settings.write_text(settings.read_text().replace('"mixed"', '"float32"'))
    for row in Experiment.open(directory).history().rows.values():
        assert row.evaluation.precision == "bfloat16"
        assert json.loads(genepool("replay", directory, row.id, "--json").stdout)["agrees"] is True


def test_set_publishes_a_version_that_says_what_changed(evolved, tmp_path):
    import shutil

    directory = tmp_path / "copy"
    shutil.copytree(evolved[0], directory)
    result = genepool("set", directory, "breeding.mutations=2", "breeding.odds.identity=3")
    assert result.stdout.splitlines()[0] == "settings version 2"
    assert "mutations: 1 -> 2" in result.stdout
    assert "nothing changed" in genepool("set", directory, "breeding.mutations=2").stdout
    assert json.loads(genepool("status", directory, "--json").stdout)["settings_version"] == 2


def test_gc_collects_the_dead_and_keeps_their_records(evolved, tmp_path):
    import shutil

    directory = tmp_path / "copy"
    shutil.copytree(evolved[0], directory)
    before = json.loads(genepool("status", directory, "--json").stdout)
    assert genepool("gc", directory).stdout.endswith("individuals collected\n")
    after = json.loads(genepool("status", directory, "--json").stdout)
    assert after["dead"] == 0
    assert after["individuals"] == before["individuals"]
    assert genepool("check", directory).returncode == 0


def test_doctor_finds_the_local_disk_safe(tmp_path):
    result = genepool("doctor", tmp_path)
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "safe")
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_the_view_is_a_panel(tmp_path):
    """A real pseudo-terminal: what a user sees is drawn, and ends cleanly."""
    main, side = pty.openpty()
    arguments = ["run", str(tmp_path / "e"), "--workers", "1", "--population", "4", "--steps", "20"]
    child = subprocess.Popen(
        [GENEPOOL, *arguments, "--individuals", "6"], stdin=side, stdout=side, stderr=side, close_fds=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
    )  # fmt: skip
    os.close(side)
    seen = b""
    try:
        while chunk := os.read(main, 65536):
            seen += chunk
    except OSError:
        pass  # Linux tells so that the other side has closed
    assert child.wait(PATIENCE) == 0
    text = seen.decode(errors="replace")
    for word in ("genepool", "individuals", "workers", "overhead", "validation accuracy", "test accuracy"):
        assert word in text
    assert "Traceback" not in text


@pytest.fixture(scope="module")
def mess(tmp_path_factory, evolved):
    folder = tmp_path_factory.mktemp("mess")
    (folder / "other").mkdir()
    (folder / "other" / "thesis.txt").write_text("important")
    (folder / "file").write_text("no directory")
    (folder / "newer").mkdir()
    (folder / "newer" / "experiment.json").write_text('{"format": 9}')
    (folder / "bad.toml").write_text("steps = = 1")
    (folder / "evolved").symlink_to(evolved[0])
    return folder


BAD = {
    "run in somebody's folder": (["run", "other"], "not an experiment"),
    "run in a file": (["run", "file"], "file"),
    "run in a newer experiment": (["run", "newer"], "format 9"),
    "run with an unknown preset": (["run", "new", "--preset", "lap-top"], "did you mean 'laptop'"),
    "run with a preset on an experiment": (["run", "evolved", "--preset", "paper"], "keeps its settings"),
    "run with other data": (["run", "evolved", "--data", "mnist"], "data.source is 'fashion-mini', not 'mnist'"),
    "run with another seed": (["run", "evolved", "--seed", "99"], "seed is 3, not 99"),
    "run with an unknown data set": (["run", "new2", "--data", "fashion-mono"], "did you mean"),
    "run with a bad file of settings": (["run", "new", "--config", "bad.toml"], "bad.toml' is not TOML"),
    "run with a bad time": (["run", "new", "--time", "soon"], "not a time"),
    "run with a bad population": (["run", "new", "--population", "1"], "population.size is 1"),
    "run with an unknown setting": (["run", "new", "--set", "step=3"], "did you mean 'training.steps'"),
    "worker without an experiment": (["worker", "nowhere"], "no experiment in nowhere"),
    "worker on an absent device": (["worker", "evolved", "--device", "mps"], "no device 'mps'"),
    "status of nothing": (["status", "nowhere"], "no experiment in nowhere"),
    "best of nothing": (["best", "other"], "no experiment in other"),
    "lineage of nobody": (["lineage", "evolved", "nobody"], "'nobody' is not in this experiment"),
    "replay of nobody": (["replay", "evolved", "nobody"], "'nobody' is not in this experiment"),
    "set of an unknown name": (["set", "evolved", "mutation=2"], "did you mean 'breeding.mutations'"),
    "set of what is fixed": (["set", "evolved", "experiment.seed=4"], "other settings"),
    "check of nothing": (["check", "nowhere"], "no experiment"),
    "doctor of nothing": (["doctor", "nowhere"], "cannot be probed"),
    "gc of nothing": (["gc", "nowhere"], "no experiment"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_input_gets_one_sentence_and_exit_code_2(arguments, said, mess):
    result = genepool(*arguments, cwd=mess)
    assert result.returncode == 2, result.stdout + result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert len([line for line in result.stderr.splitlines() if line.startswith("Error: ")]) == 1


def test_a_worker_on_a_spent_budget_stops_at_once(evolved):
    result = genepool("worker", evolved[0])
    assert result.returncode == 0
    assert "The worker stops: 25 individuals have been trained." in result.stderr


def test_workers_that_would_not_fit_into_memory_are_refused_before_any_starts(tmp_path):
    result = genepool("run", tmp_path / "e", "--workers", 100_000)
    assert result.returncode == 2
    assert re.search(r"100000 workers .* GiB of free memory, .* use at most \d+ workers", result.stderr)
    assert len(result.stderr.splitlines()) == 1
    result = genepool("run", tmp_path / "e", "--workers", 1, "--memory", "lots")
    assert result.returncode == 2
    assert "not an amount of memory" in result.stderr


def test_an_individual_over_a_worker_s_share_is_recorded_with_fitness_0_and_the_reason(tmp_path):
    """A batch so large that no network at all fits into the little that the worker may take."""
    directory = tmp_path / "e"
    result = genepool(
        "run", directory, "--preset", "faithful", "--workers", 1, "--population", 3, "--steps", 5, "--individuals", 4,
        "--memory", "330M",
        "--set", "budget.time=none", "--set", "training.batch=5000",
    )  # fmt: skip
    assert result.returncode == 2  # nobody has weights to hand out
    [reason] = {row.evaluation.reason for row in Experiment.open(directory).history().finished()}
    assert "this worker's share" in reason


def test_a_mistyped_data_set_leaves_no_directory_behind(tmp_path):
    wrong = genepool("run", tmp_path / "new", "--data", "fashion-mimi")
    assert wrong.returncode == 2
    assert not (tmp_path / "new").exists()
