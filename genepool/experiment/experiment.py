"""An experiment: its directory, its population and history, and its workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from genepool.analysis import History, Observer, Terms, front, lineage, status_of
from genepool.dna import decode
from genepool.errors import (
    ConcurrencyError,
    DataError,
    InvalidDNAError,
    PopulationFormatError,
    SettingsError,
    StorageError,
    shown,
)
from genepool.evaluation import Evaluator, Evaluators
from genepool.evolution import ChildLimits, Founder, Spending, Surroundings, Worker, child_limits_for
from genepool.experiment.start import Start, keep, recall
from genepool.experiment.stopping import StopCondition
from genepool.experiment.versions import CurrentRules, VersionedSettings, check_names, lacking_rules
from genepool.population import DirectoryPopulation, DirectoryView, Files, State, is_available, read_manifest
from genepool.registry import load
from genepool.settings import Settings, changed, fixed_and_tunable, from_values, to_values
from genepool.workers import LocalPool, PoolOptions, PoolShare, RayOptions, WorkerPool

if TYPE_CHECKING:
    from genepool.analysis import Ancestor, Interval, Point, Row, Status
    from genepool.data import Dataset, Source
    from genepool.experiment.images import ImageRecord
    from genepool.export import TrainedModel


class Experiment(VersionedSettings):
    """A directory in which workers evolve a population. Opening one writes nothing."""

    @classmethod
    def create(cls, path: str | os.PathLike[str], settings: Settings, start: Start | None = None) -> Experiment:
        """Create an experiment, or open the one that is there if it has the same fixed settings. With a start its first
        individuals are that network instead of the trivial one."""
        path = Path(path)
        if start is not None:
            start.dna.require_kinds()
        settings = from_values(to_values(settings))  # structs made in Python are unchecked
        if start is not None:
            settings = changed(settings, {"experiment.start": start.setting})
        check_names(settings)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"'{shown(path)}' cannot be created: {error.strerror or error}.") from None
        if not is_available(Files(), str(path)):
            raise PopulationFormatError(
                f"'{shown(path)}' is not empty and not an experiment; choose another directory, and give a folder of "
                "images with --data."
            )
        fixed, tunable = fixed_and_tunable(settings)
        population = settings.population
        manifest = DirectoryPopulation.establish(
            path, population_size=population.size, lease=population.lease, settings=fixed, tunable=tunable
        )
        experiment = cls(path, manifest)
        experiment.require_same_fixed(settings)
        if start is not None:
            keep(start, path)
        return experiment

    @classmethod
    def open(cls, path: str | os.PathLike[str], files: Files | None = None) -> Experiment:
        """Open the experiment in a directory, on this machine or on another one that serves its files."""
        files = files or Files()
        return cls(Path(path), read_manifest(files, os.fspath(path)), files)

    def require_rules(self) -> None:
        """Raise SettingsError if no worker started here could make a child."""
        if lacking := lacking_rules(self.settings()):
            raise SettingsError(
                f"The settings of '{shown(self.path)}' name {' and '.join(lacking)}, which this process does not have; "
                "give the plugin with --plugin, or change the setting with `genepool set`."
            )
        if kinds := self._lacking_layers():
            raise SettingsError(
                f"All networks of '{shown(self.path)}' have layers that this process does not have (such as "
                f"'{shown(kinds[0])}'); give the plugin with --plugin."
            )

    def _lacking_layers(self) -> tuple[str, ...]:
        """The kinds of layers that this process lacks, if no living individual can be reproduced without them."""
        if founder := self.founder():
            return founder.dna.missing_kinds
        view, kinds = self.view(), set[str]()
        for individual in view.snapshot():
            if individual.state is State.ALIVE:
                with suppress(ConcurrencyError, DataError, InvalidDNAError):  # collected or damaged meanwhile
                    lacking = decode(bytes(view.read_birth(individual).dna)).missing_kinds
                    if not lacking:
                        return ()
                    kinds.update(lacking)
        return tuple(sorted(kinds))

    # -- looking -------------------------------------------------------------------------------------------------------

    def view(self) -> DirectoryView:
        """A read-only view of the population."""
        return DirectoryView.open(self.path, files=self._files)

    def history(self) -> History:
        """All individuals that were ever trained or are in training."""
        history = History(self.view())
        history.refresh()
        return history

    def front(self) -> list[Point]:
        """The networks that no other beats in accuracy, parameters and FLOPs at once, of all that were ever trained."""
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
        """The living individual of highest fitness; None if there is none yet."""
        return self.history().best()

    def population(self) -> list[Row]:
        """The living individuals, the fittest first."""
        alive = [row for row in self.history().rows.values() if row.state is State.ALIVE]
        return sorted(alive, key=lambda row: (-(row.fitness or 0.0), row.id))

    def lineage(self, identity: str | None = None) -> list[Ancestor]:
        """The ancestors of an individual, by default the best, from the first network on; empty if there is none."""
        history = self.history()
        best = history.best()
        known = identity or (best.id if best else None)
        return lineage(history.rows, known) if known else []

    def model(
        self, *identities: str, data_dir: Path | None = None, progress: Callable[..., None] | None = None
    ) -> TrainedModel:
        """Return the best network, the one with the given ID, or several as an ensemble, ready to predict."""
        from genepool.experiment.best import model_to_export
        from genepool.export import TrainedModel

        images = self.recorded_images() or self.prepared(self.source(data_dir, progress))
        model = model_to_export(self, self.history(), identities, images)
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
        """Evolve on this machine, in worker processes, until the budget in the settings is spent. `look` is called
        every so many seconds. An exception from it and Ctrl-C end the run; trainings are handed over, so nothing is
        lost. The other arguments are those of `pool`."""
        plugins = tuple(plugins)
        load(plugins)
        self.require_rules()
        self.prepared(self.source(data_dir))  # once, not by all workers at the same time; bad images are reported here
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
        share: PoolShare = PoolShare(),  # noqa: B008 - a frozen value
    ) -> WorkerPool:
        """Workers for this experiment, on this machine or on a Ray cluster; none is started yet. Each may use `memory`
        bytes, by default an equal share of what is free. Plugins are modules or .py files. Several pools that run side
        by side each have a share."""
        settings = self.settings()
        options = PoolOptions(
            directory=self.path,
            count=settings.workers.number(settings.population.size),
            is_derived=settings.workers.count is None,
            per_gpu=settings.workers.per_gpu,
            device=device,
            data_dir=data_dir,
            memory=memory,
            plugins=tuple(plugins),
            share=share,
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
        """The images."""
        return self.settings().data.open(data_dir, progress)

    def prepared(self, source: Source, *, accept: bool = False) -> Dataset:
        """Prepare the images of the source, which must be those of all earlier runs; `accept` takes changed ones if the
        classes are the same."""
        from genepool.experiment.images import prepared

        return prepared(self._files, self.path, source, accept=accept)

    def recorded_images(self) -> ImageRecord | None:
        """What is known of the images without having them; None if the experiment never ran."""
        from genepool.experiment.images import recorded

        return recorded(self._files, self.path)

    def founder(self) -> Founder | None:
        """The network of the first individuals; None: the trivial one."""
        if (setting := self.settings().experiment.start) is None:
            return None
        start = recall(setting, self.path)
        return Founder(start.dna, start.weights)

    def evaluators(
        self, data: Dataset, device: str, number: int = 0, memory: int | None = None, per_gpu: int = 1
    ) -> Evaluators:
        """The evaluators; trainings must fit into `memory` bytes, or into a GPU divided by `per_gpu` workers."""
        from genepool.nn import TorchEvaluator, choose_device, share_of_gpu

        where = choose_device(device, number)
        if where.type == "cuda":  # networks must fit into the GPU's memory, which several workers share
            memory = share_of_gpu(where, per_gpu)

        @lru_cache(maxsize=8)
        def of_version(version: int) -> Evaluator:
            settings = self.settings(version)
            return TorchEvaluator(data, settings.training, settings.limits, where, settings.objective, memory)

        return of_version

    def child_limits(self, data: Dataset) -> ChildLimits:
        """What is known about networks on these images before they are trained."""
        return child_limits_for(data.image, len(data.classes), self.settings().training.batch)

    def worker(
        self,
        number: int,
        evaluator: Evaluators,
        surroundings: Surroundings,
        limits: ChildLimits = ChildLimits(),  # noqa: B008 - a frozen value
        spent: Callable[[], Spending] | None = None,
    ) -> Worker:
        """Make a worker; its random numbers depend on the seed, its number and how many workers came before it."""
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
