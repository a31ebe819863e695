"""Jobs for schedulers, as a user writes them: what is in them, that a shell can run them, and what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from genepool.cli import cli
from genepool.experiment import Experiment
from genepool.settings import override, preset
from genepool.study import begin_study, read_plan
from tests.support.processes import steps_done, training, wait_until, workers_of

SECRET = "s3cret-t0ken-of-nobody"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "My shirts 100%"
    Experiment.create(
        path,
        override(
            preset("laptop"),
            [
                "training.steps=20",
                "training_budget.share=none",
                "final_phase.share=0",
                "budget.individuals=3",
                "budget.time=none",
            ],
        ),
    )
    return path


def launch(*words: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["launch", *map(str, words)], env=env)


def test_a_slurm_array_is_requeued_and_signalled_before_its_end(directory):
    result = launch("slurm", directory, "--workers", 7, "--gpus-per-worker", 1, "--memory", "2G", "--time-limit", "24h")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for line in ("--array=0-6", "--requeue", "--open-mode=append", "--gres=gpu:1", "--mem=2048M", "--time=1-00:00:00"):
        assert f"#SBATCH {line}" in lines
    assert "#SBATCH --signal=TERM@90" in lines
    assert f'#SBATCH --output="{directory}%/logs/slurm-%A-%a.log"' in lines  # a per cent sign is written twice
    assert (directory / "logs").is_dir()
    assert subprocess.run(["bash", "-n"], input=result.output, text=True, check=False).returncode == 0


def test_the_script_of_a_slurm_array_works(directory, tmp_path):
    """With a stand-in for srun, which only starts the command; tests/cluster has the real one."""
    script = launch("slurm", directory, "--workers", 1).output
    put(tmp_path / "bin/srun", 'exec "$@"')
    done = subprocess.run(
        ["bash", "-s"],
        input=script,
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert len(Experiment.open(directory).history().finished()) == 3


@pytest.mark.parametrize(
    ("codes", "code", "requeued"), [("75", 75, 1), ("143", 143, 1), ("1 9 0", 0, 0), ("1 75", 75, 1), ("2", 2, 0)]
)
def test_a_stopped_worker_is_requeued_and_a_dead_one_is_started_again(codes, code, requeued, directory, tmp_path):
    """With stand-ins for Slurm's programs, and no waiting; tests/cluster has the real ones."""
    script = launch("slurm", directory, "--workers", 1).output
    (tmp_path / "codes").write_text(codes.replace(" ", "\n") + "\n")
    put(tmp_path / "bin/srun", f"code=$(head -n 1 {tmp_path}/codes); sed -i 1d {tmp_path}/codes; exit $code")
    put(tmp_path / "bin/scontrol", f'echo "$@" >> {tmp_path}/said')
    put(tmp_path / "bin/sleep", "exit 0")
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    environment |= {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    done = subprocess.run(["bash", "-s"], input=script, text=True, check=False, env={**os.environ, **environment})
    assert done.returncode == code
    assert (tmp_path / "codes").read_text() == ""
    said = (tmp_path / "said").read_text() if (tmp_path / "said").exists() else ""
    assert said == "requeue 7_3\n" * requeued


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text(
        'preset = "faithful"\nrepeats = 1\n[arms.a]\n[arms.b]\n[settings]\ntraining.steps = 20\n'
        "training.validation_images = 100\nbudget.individuals = 3\nbudget.time = 'none'\nworkers.count = 2\n"
    )
    folder = tmp_path / "My study"
    begin_study(read_plan(str(tmp_path / "plan.toml")), folder)
    return folder


@pytest.mark.thorough
def test_each_task_of_a_slurm_array_runs_the_study(study, tmp_path):
    """With a stand-in for srun; tests/cluster has the real one, and several tasks."""
    result = launch("slurm", study, "--cpus-per-worker", 2, "--memory", "1G", "--data-dir", tmp_path)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for line in ("--array=0-1", "--cpus-per-task=4", "--mem=3072M", "--requeue"):
        assert f"#SBATCH {line}" in lines
    words = f"study '{study}' --workers 2 --memory 1073741824 --data-dir {tmp_path} --exit-code-on-stop 75\n"
    assert words in result.output

    script = launch("slurm", study, "--workers", 1).output
    put(tmp_path / "bin/srun", 'exec "$@"')
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "0"}
    done = subprocess.run(["bash", "-s"], input=script, text=True, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(list(study.glob("*/seed-*/outcome.json"))) == 2


def test_a_study_on_kubernetes_and_over_ssh(study):
    result = launch(
        "k8s", study, "--tasks", 3, "--workers", 4, "--gpus-per-worker", 0.5, "--image", "i", "--claim", "c"
    )
    assert result.exit_code == 0, result.output
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(result.output)["spec"]
    [container] = job["template"]["spec"]["containers"]
    assert container["command"][:6] == ["python", "-m", "genepool", "study", str(study), "--workers"]
    assert "--number" not in container["command"] and job["completions"] == 3
    assert container["resources"]["requests"] == {"cpu": "4", "nvidia.com/gpu": "2"}
    result = launch("ssh", study, "--hosts", "one,two", "--tasks", 2)
    assert result.exit_code == 0 and "genepool study" in result.output, result.output


def test_an_indexed_job_of_kubernetes(directory):
    result = launch(
        "k8s", directory, "--workers", 4, "--image", "registry/genepool:1", "--claim", "shared", "--memory", "1G"
    )
    assert result.exit_code == 0, result.output
    for line in (
        "completionMode",
        '"Indexed"',
        "backoffLimitPerIndex",
        "DisruptionTarget",
        "terminationGracePeriodSeconds",
    ):
        assert line in result.output
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(result.output)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][:5] == ["python", "-m", "genepool", "worker", str(directory)]
    assert container["command"][-2:] == ["--number", "$(WORKER)"]
    assert container["resources"]["limits"] == {"memory": "1024Mi"}
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (4, 4)


def test_workers_over_ssh_begin_end_and_hand_over(directory, tmp_path):
    """With a stand-in for ssh that runs the command here, as the host's shell would."""
    put(tmp_path / "bin/ssh", 'echo "$4" >> "$HOSTS"; exec sh -c "$5"')
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOSTS": str(tmp_path / "hosts")}
    Experiment.open(directory).set({"training.steps": 1_000_000, "budget.individuals": None})
    script = tmp_path / "workers.sh"
    assert launch("ssh", directory, "--workers", 2, "--hosts", "alpha,beta", "--out", script).exit_code == 0
    try:
        assert subprocess.run(["bash", script], env={**os.environ, **env}, check=False).returncode == 0
        assert (tmp_path / "hosts").read_text().split() == ["alpha", "beta"]
        wait_until(lambda: sum(steps_done(directory, one.owner) > 0 for one in training(directory)) == 2)
        assert subprocess.run(["bash", script, "stop"], env={**os.environ, **env}, check=False).returncode == 0
        wait_until(lambda: {one.owner for one in training(directory)} == {"free0000"})
        for number in (0, 1):
            pid = int((directory / f"logs/ssh-{number}.pid").read_text())
            wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists())
            assert "received SIGTERM" in (directory / f"logs/ssh-{number}.log").read_text()
    finally:
        loops = [int(note.read_text()) for note in (directory / "logs").glob("ssh-*.pid")]
        for process in (*loops, *workers_of(directory)):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                if str(directory) in Path(f"/proc/{process}/cmdline").read_text():
                    os.kill(process, signal.SIGKILL)


def put(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("scheduler", "program", "more"),
    [("slurm", "sbatch", ()), ("k8s", "kubectl", ("--image", "i", "--claim", "c"))],
)
def test_a_missing_program_is_one_sentence(scheduler, program, more, directory, tmp_path):
    (tmp_path / "empty").mkdir()
    result = launch(scheduler, directory, "--workers", 2, "--submit", *more, env={"PATH": str(tmp_path / "empty")})
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: The program '{program}' is not installed here; ")
    assert len(result.stderr.splitlines()) == 1


def test_what_the_scheduler_refuses_is_told_in_its_words(directory, tmp_path):
    put(tmp_path / "bin/sbatch", 'cat > "$0.got"; echo "sbatch: error: invalid partition" >&2; exit 1')
    result = launch("slurm", directory, "--submit", env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"})
    assert result.exit_code == 2
    assert result.stderr == "Error: 'sbatch' refused: sbatch: error: invalid partition.\n"
    assert (tmp_path / "bin/sbatch.got").read_text() == launch("slurm", directory).output


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("slurm", "--gpus-per-worker", 0.25), "Slurm assigns integer numbers of GPUs, not 0.25"),
        (("k8s",), "Kubernetes needs --image"),
        (("ssh",), "ssh needs --hosts"),
        (("ssh", "--hosts", "a,-oProxyCommand=x"), "is not a host name"),
    ],
)
def test_what_cannot_be_launched_is_refused(words, sentence, directory):
    result = launch(words[0], directory, *words[1:])
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_where_there_is_no_experiment_there_is_nothing_to_launch(tmp_path):
    result = launch("slurm", tmp_path)
    assert result.exit_code == 2
    assert "There is no experiment in" in result.stderr


def test_no_secret_of_the_environment_gets_into_a_job(directory):
    secrets = {"RAY_AUTH_TOKEN": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "KUBECONFIG": SECRET, "SLURM_JWT": SECRET}
    for words in (("slurm",), ("k8s", "--image", "i", "--claim", "c"), ("ssh", "--hosts", "a")):
        result = launch(words[0], directory, *words[1:], env=secrets)
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output


def test_the_options_of_ray_without_ray_are_a_mistake(tmp_path):
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "e"), "--gpus-per-worker", "0.5"])
    assert result.exit_code == 2
    assert "need --engine ray" in result.stderr


def test_without_the_extra_the_way_to_get_it_is_told(tmp_path):
    """In a process whose Python cannot import ray, as if it were not installed."""
    (tmp_path / "ray.py").write_text("raise ImportError('no ray')\n")
    done = subprocess.run(
        [sys.executable, "-m", "genepool", "run", str(tmp_path / "e"), "--engine", "ray"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr == "Error: Ray is not installed; type: pip install 'genepool[ray]'.\n"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_reads_the_manifest(directory, tmp_path):
    """Offline it only parses, which is more than nothing: our YAML is written by hand."""
    out = tmp_path / "job.yaml"
    launch("k8s", directory, "--image", "i", "--claim", "c", "--out", out)
    done = subprocess.run(
        [
            "kubectl",
            "create",
            "--dry-run=client",
            "--validate=false",
            "-o",
            "json",
            "-f",
            out,
            "--kubeconfig",
            "/dev/null",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"this kubectl wants a cluster even for a dry run: {done.stderr.splitlines()[0]}")
    assert json.loads(done.stdout)["kind"] == "Job"
