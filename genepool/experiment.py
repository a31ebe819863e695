"""An experiment: a directory with a population, settings that may change, and the parts wired together for a worker.

No logic of its own: what evolves is in evolution/, what is stored in population/, what trains in nn/.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from genepool.analysis import History, Interval, Ledger, Stopwatch, spending
from genepool.dna import DNA, Price, cropped, price
from genepool.errors import ModelTooLargeError, PopulationFormatError, SettingsError, StorageError, shown
from genepool.evaluation import Evaluator
from genepool.evolution import (
    FREE_OF_CHARGE,
    SELECTIONS,
    SETPOINTS,
    Breeding,
    Budget,
    Phase,
    Planning,
    Pricing,
    Rules,
    Spending,
    Worker,
)
from genepool.mutations import MUTATIONS
from genepool.population import DirectoryPopulation, DirectoryView, Files
from genepool.population.manifest import Manifest, config_versions, publish_config, read_config, read_manifest
from genepool.settings import FIXED, Settings, changed, from_values, to_values

if TYPE_CHECKING:
    from genepool.nn.data import Dataset
    from genepool.nn.sources import Source


class Experiment:
    """A directory that workers evolve a population in. Opening one writes nothing."""

    def __init__(self, path: Path, manifest: Manifest, files: Files | None = None) -> None:
        self.path = path
        self.manifest = manifest
        self._files = files or Files()
        self._settings: dict[int, Settings] = {}
        self._rules: Rules | None = None

    @classmethod
    def create(cls, path: Path, settings: Settings) -> Experiment:
        """A new experiment, or the one that is there if it was made with the same fixed settings."""
        check_names(settings)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"'{shown(path)}' cannot be made: {error.strerror or error}.") from None
        # What a creator that was killed left behind, under a private name, is no stranger's.
        others = [entry for entry in path.iterdir() if not entry.name.startswith("new-")]
        if others and not (path / "experiment.json").exists():
            raise PopulationFormatError(f"'{shown(path)}' is not empty and not an experiment; choose another.")
        fixed, tunable = _parted(to_values(settings))
        manifest = DirectoryPopulation.establish(
            path, population_size=settings.population_size, lease=settings.lease, settings=fixed, tunable=tunable
        )
        experiment = cls(path, manifest)
        experiment._refuse_other(fixed)
        return experiment

    @classmethod
    def open(cls, path: Path, files: Files | None = None) -> Experiment:
        """The experiment in a directory, of this machine or of another one whose files are served."""
        files = files or Files()
        return cls(path, read_manifest(files, str(path)), files)

    def _refuse_other(self, fixed: dict[str, Any]) -> None:
        there = self.manifest.settings
        other = [f"{name} is {there[name]!r}, not {fixed[name]!r}" for name in FIXED if there.get(name) != fixed[name]]
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
            self._settings[number] = from_values({**self.manifest.settings, **tunable})
        return self._settings[number]

    def set(self, changes: dict[str, Any]) -> int:
        """Publishes settings with some values changed, if any is; workers take them before their next step."""
        now = self.settings()
        new = changed(now, changes)
        check_names(new)
        if new == now:
            return self.version()
        self._refuse_other(_parted(to_values(new))[0])
        return publish_config(self._files, str(self.path), _parted(to_values(new))[1])

    # -- looking -------------------------------------------------------------------------------------------------------

    def view(self) -> DirectoryView:
        """The population for somebody who only looks."""
        return DirectoryView.open(self.path, files=self._files)

    def history(self) -> History:
        """Everybody who ever lived in it."""
        history = History(self.view())
        history.refresh()
        return history

    # -- working -------------------------------------------------------------------------------------------------------

    def source(self, data_dir: Path | None = None, progress: Callable[..., None] | None = None) -> Source:
        """The images, wherever they are on this machine."""
        from genepool.nn.sources import open_source

        settings = self.settings()
        size = tuple(int(side) for side in settings.size.split("x")) if settings.size else None
        return open_source(settings.data, data_dir=data_dir, size=size, progress=progress)  # type: ignore[arg-type]

    def evaluators(
        self, data: Dataset, device: str, number: int = 0, memory: int | None = None, together: int | None = None
    ) -> Callable[[int], Evaluator]:
        """Trains individuals under the settings of the version that they were born under, within so many bytes.

        On a GPU the bytes are its own, shared by so many workers.
        """
        from genepool.nn.evaluator import evaluator_for
        from genepool.nn.runtime import choose_device, gpus, share_of_gpu

        where = choose_device(device, number)
        if where.type == "cuda":  # networks live there, so that memory is what they must fit into
            settings = self.settings()
            together = together or -(-settings.workers // gpus(device)) or settings.workers_per_gpu
            memory = share_of_gpu(where, together)

        @lru_cache(maxsize=8)
        def of_version(version: int) -> Evaluator:
            return evaluator_for(data, self.settings(version), where, memory)

        return of_version

    def rules(self) -> Rules:
        """What a worker goes by now."""
        version = self.version()
        if self._rules is None or self._rules.version != version:
            self._rules = self._rules_of(version)
        return self._rules

    def _rules_of(self, version: int) -> Rules:
        settings = self.settings(version)
        return Rules(
            version=version,
            population_size=settings.population_size,
            selection=SELECTIONS.get(settings.selection),
            setpoint=SETPOINTS.get(settings.setpoint),
            breeding=breeding_of(settings),
            planning=Planning(
                share=settings.share,
                first=settings.first_share,
                most=settings.steps,
                finish=settings.finish,
                early_crop=settings.early_crop,
                cooling=settings.cooling,
            ),
            affordable=settings.affordable,
            checkpoint_every=settings.checkpoint_every,
        )

    def pricing(self, data: Dataset) -> Pricing:
        """What networks cost on these images."""

        @lru_cache(maxsize=256)
        def of_a_step(dna: DNA, crop: float) -> Price:
            try:
                return price(dna, cropped(data.image, crop), len(data.classes), self.manifest.settings["batch"])
            except ModelTooLargeError:
                return Price(float("inf"), float("inf"))

        return of_a_step

    def worker(
        self,
        number: int,
        evaluator: Callable[[int], Evaluator],
        reason_to_stop: Callable[[], str | None],
        phase: Callable[[], Phase] = Phase,
        pricing: Pricing = lambda dna, crop: FREE_OF_CHARGE,
    ) -> Worker:
        """A worker of this number. Its random numbers follow from the seed, the number and how many came before it."""
        settings = self.settings()
        before = len(self._files.list(f"{self.path}/workers"))
        population = DirectoryPopulation.open(self.path, files=self._files.at(settings.durability))
        rng = Random(f"{settings.seed} {number} {before}")
        return Worker(
            population,
            rng,
            rules=self.rules,
            evaluator=evaluator,
            reason_to_stop=reason_to_stop,
            phase=phase,
            price=pricing,
        )


class Accounts:
    """What an experiment has spent, together with the time of a run that goes on."""

    def __init__(self, experiment: Experiment, every: float = 0.0) -> None:
        """Looks at the records again at most so often, in seconds."""
        self._ledger = Ledger(experiment.view())
        self._every, self._next_look = every, 0.0

    def __call__(self, also: Interval) -> Spending:
        if time.monotonic() >= self._next_look:
            self._ledger.refresh()
            self._next_look = time.monotonic() + self._every
        return spending(self._ledger.entries.values(), also=also)


class Watch:
    """Why a worker should stop: a signal, the end of the budget, or that whoever started it is gone."""

    CHEAP = 0.02
    """Seconds; a look at what was spent that takes longer is not taken at every step."""

    def __init__(
        self,
        experiment: Experiment,
        parent: int | None = None,
        *,
        spent: Callable[[Interval], Spending] | None = None,
        every: float = 0.0,
    ) -> None:
        """What was spent is read off the records, unless somebody else keeps the ledger, asked at most so often."""
        self._experiment, self._parent = experiment, parent
        self._spent = spent or Accounts(experiment)
        self._every = every
        self._stopwatch = Stopwatch()
        self._next_look = 0.0
        self._signalled: str | None = None
        self._over: str | None = None
        self._last = (time.monotonic(), Budget(), Spending())

    def obey_signals(self) -> None:
        """SIGTERM and SIGINT ask the worker to stop; it hands over what it trains."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)

    def _told(self, number: int, frame: FrameType | None) -> None:
        self._signalled = f"it was told to by {signal.Signals(number).name}"

    @property
    def told(self) -> bool:
        """Whether somebody wants it to stop, though there may be more to do."""
        return self._signalled is not None

    def __call__(self) -> str | None:
        if self._signalled is None and self._parent is not None and os.getppid() != self._parent:
            self._signalled = "the program that started it is gone"
        now = time.monotonic()
        if self._over is None and now >= self._next_look:
            self._over = self._look()
            took = time.monotonic() - now
            self._next_look = time.monotonic() + max(self._every, 0.0 if took < self.CHEAP else 20 * took)
        return self._signalled or self._over

    def _look(self) -> str | None:
        try:
            budget = budget_of(self._experiment.settings())
            if not budget.limits_anything:
                return None
            spent = self._spent(self._stopwatch.interval())
        except StorageError:  # what was spent is not known just now, which is no reason to stop
            return None
        self._last = (time.monotonic(), budget, spent)
        return budget.over(spent)

    def phase(self) -> Phase:
        """Where the experiment stands, from the latest look at what was spent."""
        looked, budget, spent = self._last
        elapsed = spent.seconds + time.monotonic() - looked
        return budget.phase(msgspec.structs.replace(spent, seconds=elapsed))


def budget_of(settings: Settings) -> Budget:
    """The limits in the settings."""
    return Budget(
        time=settings.time,
        individuals=settings.individuals,
        flops=settings.flops,
        target=settings.target,
        plateau=settings.plateau,
    )


def breeding_of(settings: Settings) -> Breeding:
    """How children are made under these settings."""
    return Breeding(
        learning_rate=settings.learning_rate,
        mutations=settings.mutations,
        odds=settings.mutation_odds or None,
    )


def check_names(settings: Settings) -> None:
    """Refuses names that nothing answers to, before an experiment or a worker stumbles over them."""
    SELECTIONS.get(settings.selection)
    SETPOINTS.get(settings.setpoint)
    for name in settings.mutation_odds:
        MUTATIONS.get(name)
    if settings.mutation_odds and not any(settings.mutation_odds.values()):
        raise SettingsError("All mutation_odds are 0; give at least one mutation a chance.")


def _parted(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that stay, and those that may change."""
    return (
        {name: value for name, value in values.items() if name in FIXED},
        {name: value for name, value in values.items() if name not in FIXED},
    )
