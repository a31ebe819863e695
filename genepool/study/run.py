"""A study in a folder: its plan, its experiments, their outcomes.

    <study>/plan.json                    written before anything runs
    <study>/<arm>/seed-<number>/         an experiment; it is finished when it has an outcome.json

A study that was stopped or killed continues when it is started again. Several processes on several machines can run it
at the same time: see schedule.py.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from genepool.data import Source, prepare, write_atomic
from genepool.errors import SettingsError, shown
from genepool.experiment import Experiment, best_network
from genepool.settings import by_name
from genepool.study.lease import Driver
from genepool.study.outcome import Outcome, around, curve, read_outcome, splits, useful, write_outcome
from genepool.study.plan import StudyPlan, check_plan
from genepool.study.records import Follower, forget_weights, read_changes, records
from genepool.study.schedule import Look, Scheduler
from genepool.study.serve import Planned, StudyRun
from genepool.workers import memory_per_pool

PLAN = "plan.json"


def run_study(plan: StudyPlan, folder: Path, run: StudyRun, look: Look) -> list[Outcome]:
    """Run the experiments that have no outcome yet, with other drivers if there are any; return all outcomes.
    KeyboardInterrupt after Ctrl-C or SIGTERM: trainings are handed over, and the next driver continues.
    """
    begin_study(plan, folder)
    planned = [_planned(plan, folder, arm, seed, run) for arm, seed in plan.runs()]
    if not all(one.finished for one in planned):
        if run.ray is None:
            _prepare_images(planned, run)
            run = msgspec.structs.replace(run, room=memory_per_pool(run.parallel))
        lease = max(one.settings.population.lease for one in planned)
        with _joined(run), Driver(folder, lease) as driver:
            Scheduler(planned, driver, run).work(look)
    return _outcomes(one.path for one in planned)


def _planned(plan: StudyPlan, folder: Path, arm: str, seed: int, run: StudyRun) -> Planned:
    path, changes = path_of(folder, arm, seed), plan.changes(arm)

    def close(experiment: Experiment) -> None:
        _close(experiment, arm, seed, experiment.source(run.data_dir), run.device, len(changes))

    return Planned(
        key=str(path.relative_to(folder)), path=path, settings=plan.settings_of(arm, seed), close=close,
        follow=lambda experiment: Follower(experiment, changes).look,
    )  # fmt: skip


def _prepare_images(planned: list[Planned], run: StudyRun) -> None:
    """Prepare all images once, and not by all workers at the same time; bad ones are reported here."""
    for data in {one.settings.data for one in planned if not one.finished}:
        prepare(data.open(run.data_dir))


@contextmanager
def _joined(run: StudyRun) -> Iterator[None]:
    if run.ray is None:
        yield
        return
    from genepool.workers.ray import join

    ray = join(run.ray.address)
    try:
        yield
    finally:
        ray.shutdown()


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
    return plan, _outcomes(path_of(folder, arm, seed) for arm, seed in plan.runs())


def _outcomes(paths: Iterable[Path]) -> list[Outcome]:
    return [outcome for outcome in map(read_outcome, paths) if outcome is not None]


def begin_study(plan: StudyPlan, folder: Path) -> None:
    """Write the plan before anything runs. A folder holds one plan, to which only repeats and arms may be added."""
    for arm in plan.arms:
        if not plan.settings_of(arm, 1).budget.limits_anything:
            raise SettingsError(
                f"The arm '{arm}' would never end; set budget.time, budget.individuals or budget.flops."
            )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PLAN
    if path.exists():
        try:
            known = msgspec.json.decode(path.read_bytes(), type=StudyPlan)
        except msgspec.MsgspecError:
            raise SettingsError(f"'{shown(path)}' is damaged; choose another folder.") from None
        if _fixed(known) != _fixed(plan) or any(plan.arms.get(arm, was) != was for arm, was in known.arms.items()):
            raise SettingsError(f"'{shown(folder)}' holds a study with another plan; choose another folder.")
        # Of several drivers, some may run only a part of the study.
        plan = msgspec.structs.replace(plan, repeats=max(plan.repeats, known.repeats), arms={**known.arms, **plan.arms})
        if plan == known:
            return
    write_atomic(path, msgspec.json.format(msgspec.json.encode(plan), indent=2))


def _fixed(plan: StudyPlan) -> tuple[object, ...]:
    """What must not change: statistics must not be chosen when the results are known."""
    return plan.settings, plan.preset, plan.statistics


def _close(experiment: Experiment, arm: str, seed: int, source: Source, device: str, planned: int) -> None:
    """Choose the best network by validation accuracy, test it once, and record the outcome."""
    from genepool.nn import versions

    best, history = best_network(experiment, source=lambda: source, device=device), experiment.history()
    first, changes = experiment.settings(1), read_changes(experiment.path)
    outcome = Outcome(
        arm=arm, seed=seed, best=best, curve=curve(history), useful=useful(history, best.id),
        records=records(experiment, source, device), changes=changes, planned=planned,
        around_changes=around(history, changes), splits=splits(history, first.budget),
        settings=by_name(first), versions=versions(),
    )  # fmt: skip
    write_outcome(experiment.path, outcome)
    forget_weights(experiment)
