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

from genepool.data.paths import write_atomic
from genepool.errors import SettingsError, shown
from genepool.experiment import Experiment
from genepool.experiment.best import best_network
from genepool.settings import by_name
from genepool.study.outcome import Outcome, outcome_of, read_outcome, write_outcome
from genepool.study.plan import StudyPlan, check_plan
from genepool.study.records import Follower, forget_weights, read_changes, records
from genepool.workers.local import LocalPool

if TYPE_CHECKING:
    from genepool.data import Source

EVERY = 0.2
"""Seconds between two looks: whoever sets a record may be dead, and without weights, soon after."""
PLAN = "plan.json"
Look = Callable[[str, Experiment], None]
"""Shown what goes on: where the study is, and the experiment that runs."""


def run_study(plan: StudyPlan, folder: Path, *, data_dir: Path | None, device: str, look: Look) -> list[Outcome]:
    """The outcome of every experiment, in the plan's order."""
    begin_study(plan, folder)
    outcomes = []
    for number, (arm, seed) in enumerate(plan.runs(), start=1):
        path = path_of(folder, arm, seed)
        outcome = read_outcome(path)
        if outcome is None:
            experiment = Experiment.create(path, plan.settings_of(arm, seed))
            source = experiment.source(data_dir)
            where = f"{number} of {len(plan.runs())}: {arm}, seed {seed}"
            follower = Follower(experiment, plan.changes(arm))
            _work(experiment, data_dir, device, partial(_look, follower, partial(look, where, experiment)))
            outcome = _close(experiment, arm, seed, source, device)
        outcomes.append(outcome)
    return outcomes


def _look(follower: Follower, look: Callable[[], None]) -> None:
    follower.look()
    look()


def path_of(folder: Path, arm: str, seed: int) -> Path:
    """Where an experiment of a study is."""
    return folder / arm.replace(" ", "-") / f"seed-{seed}"


def read_study(folder: Path) -> tuple[StudyPlan, list[Outcome]]:
    """The plan of a study and what came of it so far; nothing is run."""
    try:
        plan = msgspec.json.decode((folder / PLAN).read_bytes(), type=StudyPlan)
        check_plan(plan, folder / PLAN)
    except (OSError, msgspec.MsgspecError):
        raise SettingsError(f"The plan '{shown(folder / PLAN)}' is missing or damaged; run the study again.") from None
    found = [read_outcome(path_of(folder, arm, seed)) for arm, seed in plan.runs()]
    return plan, [outcome for outcome in found if outcome is not None]


def begin_study(plan: StudyPlan, folder: Path) -> None:
    """Writes the plan down before anything runs. One folder, one plan: only repeats and arms may be added."""
    _refuse_endless(plan)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PLAN
    if path.exists():
        try:
            known = msgspec.json.decode(path.read_bytes(), type=StudyPlan)
        except msgspec.MsgspecError:
            raise SettingsError(f"'{shown(path)}' is damaged; choose another folder.") from None
        if _fixed(known) != _fixed(plan) or any(plan.arms.get(arm) != was for arm, was in known.arms.items()):
            raise SettingsError(f"'{shown(folder)}' holds a study with another plan; choose another folder.")
    write_atomic(path, msgspec.json.format(msgspec.json.encode(plan), indent=2))


def _fixed(plan: StudyPlan) -> tuple[object, ...]:
    """What stays, and with it the statistics: they are not chosen when the results are known."""
    return plan.settings, plan.preset, plan.statistics


def _refuse_endless(plan: StudyPlan) -> None:
    for arm in plan.arms:
        if not plan.settings_of(arm, 1).budget.limits_anything:
            raise SettingsError(
                f"The arm '{arm}' would never end; set budget.time, budget.individuals or budget.flops."
            )


def _work(experiment: Experiment, data_dir: Path | None, device: str, look: Callable[[], None]) -> None:
    count = experiment.settings().workers.count or os.cpu_count() or 1
    options = ["--device", device, *(["--data-dir", str(data_dir)] if data_dir else [])]
    pool = LocalPool(experiment.path, count, options)
    try:
        pool.work(look, EVERY)
    except BaseException:
        pool.stop()
        raise


def _close(experiment: Experiment, arm: str, seed: int, source: Source, device: str) -> Outcome:
    """Chooses by validation, tests once, and writes it down."""
    from genepool.nn import versions

    found = best_network(experiment, source=source, device=device)
    outcome = outcome_of(
        arm,
        seed,
        found,
        experiment.history(),
        records=records(experiment, source, device),
        changes=read_changes(experiment.path),
        settings=by_name(experiment.settings(1)),
        versions=versions(),
    )
    write_outcome(experiment.path, outcome)
    forget_weights(experiment)
    return outcome
