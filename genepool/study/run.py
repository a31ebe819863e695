"""Run a study: its experiments one after another, each with all workers of this machine.

A study that was stopped continues where it was when it is started again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool.data import write_atomic
from genepool.errors import SettingsError, shown
from genepool.experiment import Experiment, best_network
from genepool.settings import by_name
from genepool.study.outcome import Outcome, around, curve, read_outcome, splits, useful, write_outcome
from genepool.study.plan import StudyPlan, check_plan
from genepool.study.records import Follower, forget_weights, read_changes, records

if TYPE_CHECKING:
    from genepool.data import Source

EVERY = 0.2
"""Seconds between two looks: an individual that sets a record may be dead, and its weights gone, soon after."""
PLAN = "plan.json"
Look = Callable[[str, Experiment], None]
"""Receives the position in the study and the current experiment."""


def run_study(plan: StudyPlan, folder: Path, *, data_dir: Path | None, device: str, look: Look) -> list[Outcome]:
    """Run the experiments that have no outcome yet; return all outcomes in the plan's order."""
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
            experiment.run(
                device=device,
                data_dir=data_dir,
                look=partial(_look, follower, partial(look, where, experiment)),
                every=EVERY,
            )
            outcome = _close(experiment, arm, seed, source, device, len(plan.changes(arm)))
        outcomes.append(outcome)
    return outcomes


def _look(follower: Follower, look: Callable[[], None]) -> None:
    follower.look()
    look()


def path_of(folder: Path, arm: str, seed: int) -> Path:
    """The directory of an experiment of a study."""
    return folder / arm.replace(" ", "-") / f"seed-{seed}"


def read_study(folder: Path) -> tuple[StudyPlan, list[Outcome]]:
    """The plan of a study and its outcomes so far; nothing is run."""
    try:
        plan = msgspec.json.decode((folder / PLAN).read_bytes(), type=StudyPlan)
        check_plan(plan, folder / PLAN)
    except (OSError, msgspec.MsgspecError):
        raise SettingsError(f"The plan '{shown(folder / PLAN)}' is missing or damaged; run the study again.") from None
    found = [read_outcome(path_of(folder, arm, seed)) for arm, seed in plan.runs()]
    return plan, [outcome for outcome in found if outcome is not None]


def begin_study(plan: StudyPlan, folder: Path) -> None:
    """Write the plan before anything runs. A folder holds one plan, to which only repeats and arms may be added."""
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
    """What must not change: statistics must not be chosen when the results are known."""
    return plan.settings, plan.preset, plan.statistics


def _refuse_endless(plan: StudyPlan) -> None:
    for arm in plan.arms:
        if not plan.settings_of(arm, 1).budget.limits_anything:
            raise SettingsError(
                f"The arm '{arm}' would never end; set budget.time, budget.individuals or budget.flops."
            )


def _close(experiment: Experiment, arm: str, seed: int, source: Source, device: str, planned: int) -> Outcome:
    """Choose the best network by validation accuracy, test it once, and record the outcome."""
    from genepool.nn import versions

    best, history = best_network(experiment, source=source, device=device), experiment.history()
    changes = read_changes(experiment.path)
    outcome = Outcome(
        arm=arm,
        seed=seed,
        best=best,
        curve=curve(history),
        useful=useful(history, best.id),
        records=records(experiment, source, device),
        changes=changes,
        planned=planned,
        around_changes=around(history, changes),
        splits=splits(history, experiment.settings(1).budget),
        settings=by_name(experiment.settings(1)),
        versions=versions(),
    )
    write_outcome(experiment.path, outcome)
    forget_weights(experiment)
    return outcome
