"""Runs a study: its experiments one after another, each with all the machine's workers.

Whatever is finished stays; a study that was stopped anywhere goes on where it was when it is started again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool.champion import champion
from genepool.engines.processes import Crew
from genepool.errors import SettingsError, shown
from genepool.experiment import Experiment, budget_of
from genepool.study.outcome import Outcome, outcome_of, read_outcome, write_outcome
from genepool.study.plan import StudyPlan

if TYPE_CHECKING:
    from genepool.nn.sources import Source

PATIENCE = 60.0
Look = Callable[[str, Experiment], None]
"""Shown what goes on: where the study is, and the experiment that runs."""


def run_study(plan: StudyPlan, folder: Path, *, data_dir: Path | None, device: str, look: Look) -> list[Outcome]:
    """The outcome of every experiment, in the plan's order."""
    _keep_plan(plan, folder)
    outcomes = []
    for number, (arm, seed) in enumerate(plan.runs(), start=1):
        path = folder / arm.replace(" ", "-") / f"seed-{seed}"
        outcome = read_outcome(path)
        if outcome is None:
            experiment = Experiment.create(path, plan.settings_of(arm, seed))
            _refuse_endless(experiment, arm)
            source = experiment.source(data_dir)
            where = f"{number} of {len(plan.runs())}: {arm}, seed {seed}"
            _work(experiment, data_dir, device, partial(look, where, experiment))
            outcome = _close(experiment, arm, seed, source, device)
        outcomes.append(outcome)
    return outcomes


def _keep_plan(plan: StudyPlan, folder: Path) -> None:
    """One folder, one plan: more repeats may come, but not other arms or settings."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plan.json"
    if path.exists():
        try:
            known = msgspec.json.decode(path.read_bytes(), type=StudyPlan)
        except msgspec.MsgspecError:
            raise SettingsError(f"'{shown(path)}' is damaged; choose another folder.") from None
        if (known.settings, known.preset) != (plan.settings, plan.preset) or any(
            plan.arms.get(arm) != changes for arm, changes in known.arms.items()
        ):
            raise SettingsError(f"'{shown(folder)}' holds a study with another plan; choose another folder.")
    temporary = folder / f".plan.{os.getpid()}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=2))
    temporary.replace(path)


def _refuse_endless(experiment: Experiment, arm: str) -> None:
    if not budget_of(experiment.settings()).limits_anything:
        raise SettingsError(f"The arm '{arm}' has no budget and would never end; set time, individuals or flops.")


def _work(experiment: Experiment, data_dir: Path | None, device: str, look: Callable[[], None]) -> None:
    count = experiment.settings().workers or os.cpu_count() or 1
    options = ["--device", device, *(["--data-dir", str(data_dir)] if data_dir else [])]
    crew = Crew(experiment.path, count, options)
    try:
        crew.work(look)
    except BaseException:
        crew.stop(PATIENCE)
        raise


def _close(experiment: Experiment, arm: str, seed: int, source: Source, device: str) -> Outcome:
    """Chooses by validation, tests once, and writes it down."""
    found = champion(experiment, source=source, device=device)
    outcome = outcome_of(arm, seed, found, experiment.history())
    write_outcome(experiment.path, outcome)
    return outcome
