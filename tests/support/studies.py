"""Studies of tiny experiments, and the processes that run them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

from genepool.experiment import Experiment
from tests.support.processes import COMMAND, PATIENCE, assert_sound, wait_until, workers_of

PLAN = """
repeats = {repeats}
preset = "paper"

[settings]
data.source = "fashion-mini"
population.size = 3
population.durability = "fast"
population.lease = {lease}
workers.count = {workers}
training.steps = {steps}
training.validation_images = 100
training.checkpoint_every = 0.5
budget.individuals = {individuals}

[arms.evolution]

[arms."random selection"]
population.selection = "random"
"""


class Started:
    """A driver that runs beside the test."""

    def __init__(self, words: tuple[object, ...], said: Path) -> None:
        self.said = said
        with said.open("wb") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "study", *map(str, words)], stdout=out, stderr=out, start_new_session=True
            )

    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> int:
        return self.process.wait(PATIENCE)


class Study:
    """A folder, and the drivers on it."""

    def __init__(self, root: Path, **values: object) -> None:
        plan = root / "plan.toml"
        values = {"repeats": 2, "lease": 60, "workers": 1, "steps": 10, "individuals": 4, **values}
        plan.write_text(PLAN.format(**values))
        self.individuals = values["individuals"]
        self.root, self.plan, self.folder, self.drivers = root, plan, root / "study", []

    def start(self, *words: object) -> Started:
        first = (self.folder,) if self.folder.exists() else (self.plan, "--out", self.folder)
        one = Started((*first, *words), self.root / f"said-{len(self.drivers)}")
        self.drivers.append(one)
        wait_until(lambda: (self.folder / "plan.json").exists() or one.process.poll() is not None)
        return one

    def experiments(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob("*/seed-*/leaders"))

    def leaders(self, experiment: Path) -> list[str]:
        """Those who led it, in order."""
        files = sorted((experiment / "leaders").iterdir(), key=lambda path: int(path.name))
        return [path.read_text() for path in files]

    def assert_complete(self, experiments: int) -> None:
        """Every planned experiment is finished, once, and whole."""
        assert len(self.experiments()) == experiments
        for path in self.experiments():
            outcome = json.loads((path / "outcome.json").read_text())
            assert len(Experiment.open(path).history().finished()) >= self.individuals and outcome["records"]
            assert not (path / "records").exists() and not workers_of(path)
            assert_sound(path)

    def clean_up(self) -> None:
        for one in self.drivers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.process.pid, signal.SIGKILL)
            one.process.wait()
        for path in self.experiments():
            for worker in workers_of(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
