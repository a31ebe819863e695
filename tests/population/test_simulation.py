"""Five hundred seeded histories of eight workers: stale listings, crashes, stops, lost replies, power loss."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from genepool.population import DirectoryPopulation, check_directory
from tests.population.test_foreign_entries import read_everything
from tests.support.store_simulation import ROOT, Plan, Simulation

SEEDS = 500
BATCH = 50
POWER = Plan(power_loss=0.001)
# Its trainings take time and it writes one heartbeat per step, so its system calls must be faster than the toy's.
PRODUCTION = {"production": True, "clock_jump": 0.002, "pace": 0.3, "lease": 200.0, "founders": 10, "shards": 2}


def plan_of(seed: int) -> Plan:
    """A quarter of the histories lose power, a quarter have clients that never cache; the rest is as it comes.

    In half of them the worker is the toy, in half the one of production, on walls with unreliable clocks.
    """
    plan = (Plan(), POWER, Plan(stale=0.0), Plan(workers=8, size=4, crash=0.004))[seed % 4]
    return dataclasses.replace(plan, **PRODUCTION) if seed // 4 % 2 else plan


def problems_of(seed: int) -> list[str]:
    """Return everything that is wrong with one history."""
    simulation = Simulation(seed, plan_of(seed))
    report = simulation.run()
    found = [*simulation.problems, *map(str, report.violations)]
    if report.census.living < 2:
        found.append(f"only {report.census.living} are living")
    if not simulation.finished:
        found.append("no individual was ever finished")
    return found


QUICK = 1
"""Batches that the quick tests go through; each has every plan several times."""


@pytest.mark.parametrize(
    "batch",
    [*range(QUICK), *(pytest.param(batch, marks=pytest.mark.thorough) for batch in range(QUICK, SEEDS // BATCH))],
)
def test_nothing_is_lost(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        assert problems_of(seed) == [], seed


@pytest.mark.thorough
def test_without_syncs_a_power_loss_costs_the_latest_changes_and_damage_is_quarantined() -> None:
    quarantined = 0
    for seed in range(40):
        simulation = Simulation(seed, Plan(durability="fast", power_loss=0.001))
        simulation.run()
        assert simulation.problems == [], seed
        # A worker quarantines the damage that it meets, so one must have read everything.
        read_everything(DirectoryPopulation.open(ROOT, files=simulation.client()))
        report = check_directory(ROOT, files=simulation.client(), settled=True, finished=simulation.finished)
        # The latest individuals may be missing; the others are complete or quarantined.
        assert {violation.invariant for violation in report.violations} <= {"I1", "I5", "I7", "I12"}, seed
        assert report.census.living >= 2, seed
        quarantined += report.census.quarantined
    assert quarantined > 0


@pytest.mark.parametrize("kind", [{}, PRODUCTION], ids=["toy", "production"])
def test_the_same_seed_is_the_same_history(kind: dict[str, Any]) -> None:
    traces = []
    for _ in range(2):
        simulation = Simulation(11, dataclasses.replace(POWER, **kind))
        simulation.run()
        traces.append((simulation.trace.hexdigest(), simulation.finished))
    assert traces[0] == traces[1]
