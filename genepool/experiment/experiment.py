"""The experiment itself: its directory, its settings, looking at it and working on it."""

from __future__ import annotations

import getpass
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from genepool.analysis import (
    Ancestor,
    History,
    Interval,
    Observer,
    Point,
    Row,
    Status,
    Terms,
    front,
    lineage,
    status_of,
)
from genepool.errors import ConcurrencyError, DataError, PopulationFormatError, SettingsError, StorageError, shown
from genepool.evaluation import Evaluator
from genepool.evolution import (
    ChildLimits,
    Founder,
    Intervention,
    Rules,
    Spending,
    Surroundings,
    Worker,
    child_limits_for,
)
from genepool.experiment.rules import CurrentRules, check_names, lacking_mutations, lacking_rules, rules_of
from genepool.experiment.start import Start, keep, recall
from genepool.experiment.stopping import StopCondition
from genepool.population import (
    DirectoryPopulation,
    DirectoryView,
    Files,
    Manifest,
    Published,
    State,
    config_versions,
    publish_version,
    published,
    read_config,
    read_manifest,
)
from genepool.registry import forget_installed, load
from genepool.settings import (
    FIXED,
    Settings,
    by_name,
    changed,
    differences,
    fixed_and_tunable,
    flat,
    from_values,
    to_values,
    written,
)
from genepool.workers import LocalPool, PoolOptions, RayOptions, WorkerPool

if TYPE_CHECKING:
    from genepool.data import Dataset, Source
    from genepool.export import TrainedModel

log = logging.getLogger(__name__)


class Experiment:
    """A directory that workers evolve a population in. Opening one writes nothing."""

    def __init__(self, path: Path, manifest: Manifest, files: Files | None = None) -> None:
        self.path = path
        self.manifest = manifest
        self._files = files or Files()
        self._settings: dict[int, Settings] = {}
        self._rules: tuple[tuple[int, bool], Rules] | None = None
        self._told: set[str] = set()

    @classmethod
    def create(cls, path: str | os.PathLike[str], settings: Settings, start: Start | None = None) -> Experiment:
        """A new experiment, or the one that is there if it was made with the same fixed settings.

        With a start (genepool.experiment.start) its first individuals are that network, not the trivial one.
        """
        path = Path(path)
        settings = from_values(to_values(settings))  # structs made in Python are unchecked
        if start is not None:
            settings = changed(settings, {"experiment.start": start.setting})
        check_names(settings)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"'{shown(path)}' cannot be made: {error.strerror or error}.") from None
        # What a creator that was killed left behind, under a private name, is no stranger's.
        others = [entry for entry in path.iterdir() if not entry.name.startswith("new-")]
        if others and not (path / "experiment.json").exists():
            raise PopulationFormatError(f"'{shown(path)}' is not empty and not an experiment; choose another.")
        fixed, tunable = fixed_and_tunable(settings)
        manifest = DirectoryPopulation.establish(
            path,
            population_size=settings.population.size,
            lease=settings.population.lease,
            settings=fixed,
            tunable=tunable,
        )
        experiment = cls(path, manifest)
        experiment._refuse_other(settings)
        if start is not None:
            keep(start, path)
        return experiment

    @classmethod
    def open(cls, path: str | os.PathLike[str], files: Files | None = None) -> Experiment:
        """The experiment in a directory, of this machine or of another one whose files are served."""
        files = files or Files()
        return cls(Path(path), read_manifest(files, os.fspath(path)), files)

    def _refuse_other(self, settings: Settings) -> None:
        there, here = by_name(from_values(self.manifest.settings)), by_name(settings)
        other = [f"{name} is {there[name]!r}, not {here[name]!r}" for name in FIXED if there[name] != here[name]]
        if other:
            raise SettingsError(
                f"'{shown(self.path)}' is an experiment with other settings ({'; '.join(other)}); "
                "choose another directory, or leave those settings out to go on with it."
            )

    # -- settings ------------------------------------------------------------------------------------------------------

    def version(self) -> int:
        """The number of the settings in force."""
        try:
            return max(config_versions(self._files, str(self.path)), default=1)
        except OSError as error:
            raise StorageError(f"The settings in '{shown(self.path)}' cannot be read: {error}.") from error

    def settings(self, version: int | None = None) -> Settings:
        """The settings in force, or those of one version."""
        number = self.version() if version is None else version
        if number not in self._settings:
            _, tunable = read_config(self._files, str(self.path), number)
            self._settings[number] = changed(Settings(), {**flat(self.manifest.settings), **flat(tunable)})
        return self._settings[number]

    def set(self, changes: Mapping[str, Any]) -> int:
        """Publishes settings with some values changed, by name; workers use them from their next step on."""
        while True:
            version = self.version()
            now = self.settings(version)
            new = changed(now, changes)
            if new == now:
                return version
            check_names(new, before=now)
            self._refuse_other(new)
            assignments = [f"{name}={written(value)}" for name, value in differences(now, new).items()]
            if self._publish(version + 1, new, "set " + " ".join(assignments)):
                return version + 1

    def intervene(self, intervention: Intervention, spent: Spending, *, who: str = "", version: int = 0) -> int | None:
        """Publishes an intervention and returns its version; with a version given only if that is still in force."""
        while True:
            seen = version or self.version()
            new = changed(self.settings(seen), intervention.changes(spent, seen + 1))
            if self._publish(seen + 1, new, f"intervene: {intervention.label}", intervention.label, who):
                return seen + 1
            if version:
                return None

    def _publish(self, version: int, settings: Settings, what: str, label: str = "", who: str = "") -> bool:
        note = Published(who=who or _user(), when=round(time.time(), 3), what=what, label=label)
        return publish_version(self._files, str(self.path), version, fixed_and_tunable(settings)[1], note)

    def published(self) -> dict[int, Published]:
        """Who changed the settings, when and how, by version."""
        return published(self._files, str(self.path))

    def require_rules(self) -> None:
        """Refuses to start workers none of which could make a child."""
        if lacking := lacking_rules(self.settings()):
            raise SettingsError(
                f"The settings of '{shown(self.path)}' ask for {' and '.join(lacking)}, not known here; give the "
                "plugin with --plugin, or change the setting with `genepool set`."
            )

    # -- looking -------------------------------------------------------------------------------------------------------

    def view(self) -> DirectoryView:
        """The population for somebody who only looks."""
        return DirectoryView.open(self.path, files=self._files)

    def history(self) -> History:
        """Everybody who ever lived in it."""
        history = History(self.view())
        history.refresh()
        return history

    def front(self) -> list[Point]:
        """Those of all that ever lived whom nobody beats in accuracy and cost at once."""
        view = self.view()

        def has_weights(row: Row) -> bool:
            if row.state not in (State.ALIVE, State.DEAD):
                return False
            try:
                return view.weights(row.individual) is not None
            except (ConcurrencyError, DataError):  # collected, or damaged
                return False

        return front(self.history().finished(), self.settings().training.batch, has_weights)

    def observe(self) -> Observer:
        """An observer, which has read nothing yet."""
        return Observer(self.path, self._files)

    def status(self, observer: Observer | None = None, *, also: Interval | None = None) -> Status:
        """The status now, by an observer's latest refresh if one is given; `also` is a run in progress."""
        if observer is None:
            observer = self.observe()
            observer.refresh()
        return status_of(observer, self.terms(), also=also)

    def terms(self) -> Terms:
        """The settings in force that a status depends on."""
        settings = self.settings()
        return Terms(budget=settings.budget, escape=settings.escape, final_phase=settings.final_phase)

    def best(self) -> Row | None:
        """The living individual of highest fitness, or None if nobody is alive yet."""
        return self.history().best()

    def population(self) -> list[Row]:
        """Those who are alive, the fittest first."""
        alive = [row for row in self.history().rows.values() if row.state is State.ALIVE]
        return sorted(alive, key=lambda row: (-(row.fitness or 0.0), row.id))

    def lineage(self, identity: str | None = None) -> list[Ancestor]:
        """From the first network to the individual of that ID, by default the best; empty if nobody is alive yet."""
        history = self.history()
        best = history.best()
        if identity is None and best is None:
            return []
        return lineage(history.rows, identity or (best.id if best else ""))

    def model(
        self, *identities: str, data_dir: Path | None = None, progress: Callable[..., None] | None = None
    ) -> TrainedModel:
        """Return the best network, the one with the given ID, or several as an ensemble, ready to predict."""
        from genepool.data import prepare
        from genepool.experiment.best import model_to_export
        from genepool.export import TrainedModel

        model = model_to_export(self, self.history(), identities, prepare(self.source(data_dir, progress)))
        return TrainedModel(model.facts, model.network)

    # -- working -------------------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        device: str = "auto",
        data_dir: Path | None = None,
        memory: int | None = None,
        plugins: Iterable[str] = (),
        look: Callable[[], None] = lambda: None,
        every: float = 0.5,
    ) -> None:
        """Evolve on this machine, in worker processes, until the budget in the settings is spent.

        `look` is called every so many seconds. An exception from it and Ctrl-C end the run; trainings are handed over,
        so nothing is lost. The other arguments are those of `pool`.
        """
        from genepool.data import prepare

        plugins = tuple(plugins)
        load(plugins)
        self.require_rules()
        prepare(self.source(data_dir))  # once, not by all workers at the same time; bad images are reported here
        with self.pool(device=device, data_dir=data_dir, memory=memory, plugins=plugins) as pool:
            pool.work(look, every)

    def pool(
        self,
        *,
        device: str = "auto",
        data_dir: Path | None = None,
        memory: int | None = None,
        plugins: Iterable[str] = (),
        ray: RayOptions | None = None,
    ) -> WorkerPool:
        """Workers for this experiment, on this machine or on a Ray cluster; none is started yet.

        Each may use `memory` bytes, by default an equal share of what is free. Plugins are modules or .py files.
        """
        settings = self.settings()
        options = PoolOptions(
            directory=self.path,
            count=settings.workers.count,
            per_gpu=settings.workers.per_gpu,
            device=device,
            data_dir=data_dir,
            memory=memory,
            plugins=tuple(plugins),
        )
        if ray is None:
            return LocalPool(options)
        if ray.serve and settings.experiment.start is not None:
            raise SettingsError(
                "An experiment with --start needs nodes that see its directory, not --serve-population."
            )
        from genepool.experiment.worker_process import functions_for
        from genepool.workers.ray import RayPool

        return RayPool(options, ray, functions_for(self))

    def source(self, data_dir: Path | None = None, progress: Callable[..., None] | None = None) -> Source:
        """The images, wherever they are on this machine."""
        return self.settings().data.open(data_dir, progress)

    def founder(self) -> Founder | None:
        """What its first individuals are, where they are not trivial."""
        setting = self.settings().experiment.start
        if setting is None:
            return None
        start = recall(setting, self.path)
        return Founder(start.dna, start.weights)

    def evaluators(
        self, data: Dataset, device: str, number: int = 0, memory: int | None = None, per_gpu: int | None = None
    ) -> Callable[[int], Evaluator]:
        """Return a function from a version of the settings to the evaluator of individuals born under it.

        Trainings must fit into `memory` bytes, or into a GPU's memory divided by the `per_gpu` workers that share it.
        """
        from genepool.nn import TorchEvaluator, choose_device, gpus, share_of_gpu

        where = choose_device(device, number)
        if where.type == "cuda":  # networks must fit into the GPU's memory, which several workers share
            workers = self.settings().workers
            memory = share_of_gpu(where, per_gpu or -(-(workers.count or 0) // gpus(device)) or workers.per_gpu)

        @lru_cache(maxsize=8)
        def of_version(version: int) -> Evaluator:
            settings = self.settings(version)
            return TorchEvaluator(data, settings.training, settings.limits, where, settings.objective, memory)

        return of_version

    def rules(self, version: int | None = None, *, escaping: bool = False) -> Rules:
        """What a worker goes by under a version of the settings, where it is the time for more mutations or not."""
        key = version or self.version(), escaping
        if self._rules is None or self._rules[0] != key:
            self._rules = key, self._rules_of(*key)
        return self._rules[1]

    def _rules_of(self, version: int, escaping: bool) -> Rules:
        settings = self.settings(version)
        forget_installed()
        self._tell(lacking_mutations(settings.breeding), lacking_rules(settings))
        return rules_of(settings, version, escaping=escaping)

    def _tell(self, lacking: tuple[str, ...], barren: tuple[str, ...]) -> None:
        """Of each name that is not known here, once."""
        names = {f"the mutation '{shown(name)}'": "leaves it out of its draws" for name in lacking}
        names |= dict.fromkeys(barren, "makes no children and only takes over what it can train")
        for name in names.keys() - self._told:
            log.warning("This worker lacks %s and %s; start one with --plugin to have it used.", name, names[name])
        self._told |= names.keys()

    def child_limits(self, data: Dataset) -> ChildLimits:
        """Return what is known about networks on these images before they are trained."""
        return child_limits_for(data.image, len(data.classes), self.settings().training.batch)

    def worker(
        self,
        number: int,
        evaluator: Callable[[int], Evaluator],
        surroundings: Surroundings,
        limits: ChildLimits = ChildLimits(),  # noqa: B008 - a frozen value
        spent: Callable[[], Spending] | None = None,
    ) -> Worker:
        """A worker of this number. Its random numbers follow from the seed, the number and how many came before it."""
        settings = self.settings()
        before = len(self._files.list(f"{self.path}/workers"))
        population = DirectoryPopulation.open(self.path, files=self._files.at(settings.population.durability))
        return Worker(
            population,
            Random(f"{settings.experiment.seed} {number} {before}"),
            rules=CurrentRules(self, population.who, spent or StopCondition(self).spent),
            evaluator=evaluator,
            surroundings=surroundings,
            limits=limits,
            founder=self.founder(),
        )


def _user() -> str:
    with suppress(OSError, KeyError, ImportError):  # a number without a name, as in some containers
        return f"{getpass.getuser()}@{socket.gethostname()}"
    return f"somebody@{socket.gethostname()}"
