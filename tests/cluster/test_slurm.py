"""A real Slurm of one node runs an array of two workers; they are told to go, pre-empted, killed and requeued."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from genepool.experiment import Experiment
from genepool.population import FREE, Files
from genepool.population.directory.log import read_events
from genepool.settings import override, preset
from genepool.study import begin_study, read_plan
from tests.support.debian_packages import require
from tests.support.processes import COMMAND, assert_sound, finished, steps_done, training, wait_until, workers_of
from tests.support.slurm import PACKAGES, PROGRAMS, Slurm
from tests.support.studies import Study

STEPS = 8_000
PATIENCE = 300.0
SECRET = "s3cret-t0ken-of-slurm"


@pytest.fixture
def slurm(tmp_path):
    require(PROGRAMS, PACKAGES)
    one = Slurm(tmp_path / "slurm")
    one.environment["AWS_SECRET_ACCESS_KEY"] = SECRET  # Slurm hands the environment on to its jobs
    try:
        with one:
            yield one
    except AssertionError as error:
        raise AssertionError(f"{error}\n{one.words()}") from error


def test_preempted_workers_are_requeued_and_their_trainings_resumed(slurm, tmp_path):
    directory = tmp_path / "e"
    settings = (
        f"training.steps={STEPS}",
        "training_budget.share=none",
        "final_phase.share=0",
        "budget.time=none",
        "population.lease=3",
        "training.checkpoint_every=0.5",
    )
    odds = ("breeding.odds.grow-convolution=0", "breeding.odds.widen=0")
    Experiment.create(directory, override(preset("laptop"), [*settings, *odds]))
    words = ("launch", "slurm", str(directory), "--workers", "2", "--time-limit", "24h", "--submit")
    done = subprocess.run([*COMMAND, *words], env=slurm.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + slurm.words()
    job = done.stdout.split()[-1]
    jobs = f"{job}_0", f"{job}_1"
    wait_until(lambda: stopped_while_training(directory), PATIENCE)
    begun = {one.id: one.owner for one in training(directory)}

    # Somebody more important wants the whole node. Slurm tells both workers (SIGCONT, SIGTERM) and ends what is left
    # after the partition's time of grace (SIGKILL): one of them is frozen, as often as it is woken, and hands nothing
    # over.
    [frozen], [other] = workers(directory, "1"), workers(directory, "0")
    slurm.run("sbatch", "--partition=high", "--ntasks=1", "--cpus-per-task=2", "--output=/dev/null", "--wrap=true")
    wait_until(lambda: gone(frozen) and not Path(f"/proc/{other}").exists(), PATIENCE)
    wait_until(lambda: all(state(slurm, one) == "PENDING" for one in jobs), PATIENCE)
    assert not begun.keys() & finished(directory).keys()
    slurm.start_soon(*jobs)

    # Told shortly before its time is over, as --signal does it.
    wait_until(lambda: workers(directory, "0") and set(advanced(directory, 0).values()) - {*begun.values()}, PATIENCE)
    [told] = workers(directory, "0")
    slurm.run("scancel", "--signal=TERM", jobs[0])
    wait_until(lambda: not Path(f"/proc/{told}").exists() and state(slurm, jobs[0]) == "PENDING", PATIENCE)
    slurm.start_soon(jobs[0])

    wait_until(lambda: begun.keys() <= finished(directory).keys() and workers(directory, "0"), PATIENCE)
    assert all(row.evaluation.steps == STEPS for row in finished(directory).values())
    events = [event for _, event in read_events(Files(), f"{directory}/workers") if event.id in begun]
    assert {event.what for event in events} >= {"create", "hand-over", "take-over", "finish"}

    # Whoever cancels the job wants no worker to come back.
    slurm.run("scancel", job)
    wait_until(lambda: not workers(directory) and not any(state(slurm, one) for one in jobs), PATIENCE)
    assert slurm.run("scontrol", "show", "job", job).count("JobState=CANCELLED") == 2
    assert_sound(directory)
    assert not [path for path in directory.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_the_tasks_of_an_array_run_a_study_and_are_requeued(slurm, tmp_path):
    """One is stopped and requeued, the other is killed and started again: every experiment is finished once."""
    study = Study(tmp_path, repeats=2, lease=3, steps=1500, individuals=6)
    begin_study(read_plan(str(study.plan)), study.folder)
    words = ("launch", "slurm", str(study.folder), "--tasks", "2", "--workers", "1", "--submit")
    done = subprocess.run([*COMMAND, *words], env=slurm.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + slurm.words()
    job = done.stdout.split()[-1]
    jobs = f"{job}_0", f"{job}_1"
    wait_until(lambda: sum(bool(finished(path)) for path in study.experiments()) >= 2, PATIENCE)
    known = {path: set(finished(path)) for path in study.experiments()}
    slurm.run("scancel", "--signal=TERM", jobs[0])
    wait_until(lambda: state(slurm, jobs[0]) in ("PENDING", ""), PATIENCE)
    slurm.start_soon(jobs[0])
    [*_, driver] = drivers_of(study.folder)
    os.kill(driver, signal.SIGKILL)  # the script starts it again
    wait_until(lambda: len(list(study.folder.glob("*/*/outcome.json"))) == 4, PATIENCE)
    wait_until(lambda: not any(state(slurm, one) for one in jobs), PATIENCE)
    assert all(before <= finished(path).keys() for path, before in known.items())
    study.assert_complete(4)


def drivers_of(folder: Path) -> list[int]:
    """The processes that run a study, except srun, which has the same words."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if entry.name.isdigit() and b"study" in words and str(folder).encode() in words and b"srun" not in words[0]:
                found.append(int(entry.name))
    return found


def advanced(directory: Path, steps: int) -> dict[str, str]:
    """The trainings that are so far, by their owners' beats, and the owners."""
    owned = [one for one in training(directory) if one.owner != FREE]
    return {one.id: one.owner for one in owned if steps_done(directory, one.owner) > steps}


def stopped_while_training(directory: Path) -> bool:
    """Stops both workers, so that none ends its training before it is told to; if one just has, both go on."""
    if len(advanced(directory, 300)) < 2:
        return False
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for worker in workers(directory):
            os.kill(worker, number)
        if number == signal.SIGSTOP and len(advanced(directory, 300)) == 2 and not results(directory):
            return True
    return False


def results(directory: Path) -> list[Path]:
    """Of those in training: one that is written but not published yet would be adopted."""
    return list(directory.glob("pop/*/T1_*/*.result*"))


def workers(directory: Path, *numbers: str) -> list[int]:
    """The processes that are workers of these numbers, or of any; not srun, which has the same words."""
    return [pid for pid in workers_of(directory) if (found := number_of(pid)) and (not numbers or found in numbers)]


def number_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"--number" in words and b"srun" not in words[0]:
            return words[words.index(b"--number") + 1].decode()
    return ""


def state(slurm: Slurm, job: str) -> str:
    """RUNNING, PENDING, ...; nothing once it is over."""
    return slurm.run("squeue", "-h", "-j", job, "-o", "%T").strip()


def gone(victim: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGSTOP)
        return False
    return True
