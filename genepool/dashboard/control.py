"""Orders of clients that have the token: what `genepool set` and `genepool intervene` do."""

from __future__ import annotations

from typing import Any

import msgspec

from genepool.analysis import Observer, spending
from genepool.errors import SettingsError
from genepool.evolution import Intervention, Spending
from genepool.experiment import Experiment
from genepool.settings import by_name, differences, override, seconds


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /api/experiments/KEY/control`, with one of these fields."""

    set: dict[str, str] = {}
    """Settings by name (`section.name`), with values as on the command line."""
    mutations: int = 0
    """Mutations per reproduction..."""
    lasts: str = ""
    """...for a number of individuals (500) or a time (10m)."""
    reset_weights: bool = False
    stop: bool = False
    """Workers hand over their trainings and exit."""


def obey(observer: Observer, order: Order) -> dict[str, Any]:
    """Publish new settings, which workers use from their next step on."""
    experiment = Experiment.open(observer.path)
    if order.set:
        before = experiment.settings()
        after = override(before, [f"{name}={value}" for name, value in order.set.items()])
        return _done(experiment, experiment.set(differences(before, after)))
    if order.stop:
        return _done(experiment, experiment.set({"budget.individuals": max(1, _so_far(observer).individuals)}))
    individuals, time = _while(order.lasts)
    intervention = Intervention(
        mutations=order.mutations, individuals=individuals, seconds=time, reset_weights=order.reset_weights
    )
    return _done(experiment, experiment.intervene(intervention, _so_far(observer)))


def _so_far(observer: Observer) -> Spending:
    observer.refresh()
    with observer.lock:
        return spending(observer.table)


def _done(experiment: Experiment, version: int | None) -> dict[str, Any]:
    return {"settings_version": version, "settings": by_name(experiment.settings())}


def _while(text: str) -> tuple[int, float]:
    """Individuals and seconds, one of which is 0; a time has a unit."""
    if not text:
        return 0, 0.0
    found = (int(text[:12]), 0.0) if text.isascii() and text.isdigit() else (0, seconds(text))
    if not 0 < max(found) <= 1e9:
        raise SettingsError("That is too short or too long; write 500 (individuals) or 10m (time).")
    return found
