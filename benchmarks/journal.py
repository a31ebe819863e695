"""Optuna's journal file storage with ask and tell, for comparison; runs without genepool where Optuna is installed.

    python -m benchmarks.journal seed FILE TRIALS
    python -m benchmarks.journal run FILE PROCESSES SECONDS

Everything is Optuna's default: the journal's lock, the random sampler, one float. The rest of this file finds and
starts a Python that has Optuna.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.simultaneous import Measured, Work, measure, timed

ROOT = Path(__file__).parent.parent
STUDY = "bench"


class Journal:
    """Journals of a given length in a directory, measured with a Python that has Optuna."""

    def __init__(self, python: str, directory: Path) -> None:
        self._python, self._directory = python, directory

    def measure(self, trials: int, processes: int, seconds: float) -> Measured:
        """Return the trials per second on a journal that starts with that many trials."""
        seeded = self._directory / f"{trials}.journal"
        if not seeded.exists():
            self._ask("seed", seeded, trials)
        used = self._directory / "used.journal"
        shutil.copyfile(seeded, used)
        return Measured(*json.loads(self._ask("run", used, processes, seconds)))

    def _ask(self, *words: object) -> str:
        command = [self._python, "-m", "benchmarks.journal", *map(str, words)]
        return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def python_with_optuna() -> str | None:
    """Return our own Python, or that of `.venv-bench`, which `make bench` makes."""
    if importlib.util.find_spec("optuna"):
        return sys.executable
    other = ROOT / ".venv-bench" / "bin" / "python"
    if other.exists() and subprocess.run([other, "-c", "import optuna"], capture_output=True).returncode == 0:
        return str(other)
    return None


@dataclass(frozen=True)
class AskTell:
    """The job of one process."""

    file: str

    def prepare(self) -> Work:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(self.file))
        study = optuna.load_study(study_name=STUDY, storage=storage, sampler=optuna.samplers.RandomSampler())
        ask_tell(study)

        return lambda seconds: [timed(lambda: _ask_tell_for(study, seconds))]


def _ask_tell_for(study, seconds: float) -> int:
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        ask_tell(study)
        count += 1
    return count


def ask_tell(study) -> None:
    trial = study.ask()
    study.tell(trial, trial.suggest_float("x", 0.0, 1.0))


def seed(file: str, trials: int) -> None:
    """Write a journal with that many trials: the records of the first one, repeated under new numbers."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    backend = optuna.storages.journal.JournalFileBackend(file)
    study = optuna.create_study(study_name=STUDY, storage=optuna.storages.JournalStorage(backend))
    before = len(list(backend.read_logs(0)))
    ask_tell(study)
    first = list(backend.read_logs(before))
    numbered = (
        {**log, "trial_id": number} if "trial_id" in log else log for number in range(1, trials) for log in first
    )
    backend.append_logs(list(numbered))


def main() -> None:
    match sys.argv[1:]:
        case ["seed", file, trials]:
            seed(file, int(trials))
        case ["run", file, processes, seconds]:
            print(json.dumps(measure([AskTell(file)] * int(processes), float(seconds))[0]))


if __name__ == "__main__":
    main()
