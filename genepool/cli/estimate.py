"""What `genepool study --estimate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genepool.cli.options import json_text
from genepool.cli.text import amount, table

if TYPE_CHECKING:
    from genepool.study import ArmEstimate, Estimate, StudyPlan

BASES = {
    "published": "published by the paper",
    "as published": "as many per worker and hour as the paper's",
    "budget": "the budget",
    "time": "at most what the workers compute in the budget's time",
    "ResNet-20": "as if every individual were ResNet-20",
}


def estimate_text(plan: StudyPlan, speed: float | None, device: str, as_json: bool) -> str:
    """The estimate of a plan, for workers of this speed in FLOPs per second, or of this machine's."""
    from genepool.study import estimate_study

    found = estimate_study(plan, flops_per_second=speed, device=device)
    return json_text(found) if as_json else estimate_page(found)


def estimate_page(found: Estimate) -> str:
    """The estimate as a table, with its assumptions."""
    rows = [
        [
            arm.arm, str(found.repeats), f"{arm.workers:,}", _between(*arm.individuals), _flops(arm.flops),
            "-" if arm.budget_seconds is None else hours(arm.budget_seconds), hours(arm.seconds),
        ]
        for arm in found.arms
    ]  # fmt: skip
    header = ["arm", "experiments", "workers", "individuals", "FLOPs", "budget", "for these FLOPs"]
    return "\n".join([found.rules, "", table(header, rows), "", *_totals(found), "", *_assumptions(found)])


def _totals(found: Estimate) -> list[str]:
    most, together = max(arm.workers for arm in found.arms), found.repeats * sum(arm.workers for arm in found.arms)
    limits = [arm.budget_seconds for arm in found.arms if arm.budget_seconds]
    memory = max(found.arms, key=lambda arm: arm.memory * arm.workers)
    lines = [
        f"experiments  {found.experiments:,}: arms {len(found.arms)}, repeats {found.repeats}",
        f"FLOPs        {_flops(found.flops)} in total",
    ]
    spans = [("by the budgets", limits)] if limits else []
    for words, seconds in [*spans, ("for these FLOPs", [arm.seconds for arm in found.arms])]:
        after, beside = (", one experiment after another", "side by side") if found.experiments > 1 else ("", "")
        line = f"time         {words}: {hours(found.repeats * sum(seconds))} on {most:,} workers{after}"
        lines.append(line + (f"; {hours(max(seconds))} on {together:,} workers, all {beside}" if beside else ""))
    alone = found.flops / (found.cores * found.flops_per_second)
    return [
        *lines,
        f"             for these FLOPs: {hours(alone)} on {found.cores} workers, one per core of this machine",
        f"disk         {_bytes(max(arm.disk for arm in found.arms))} per experiment, {_bytes(found.disk)} in total",
        f"memory       {_bytes(memory.memory)} per worker, {_bytes(memory.memory * memory.workers)} per experiment",
    ]


def _assumptions(found: Estimate) -> list[str]:
    how = "measured here with ResNet-20" if found.measured else "given"
    lines = ["Assumptions:", f"  speed of a worker: {amount(found.flops_per_second)}FLOP per second, {how}"]
    for basis in dict.fromkeys(arm.basis for arm in found.arms):
        arms = [arm.arm for arm in found.arms if arm.basis == basis]
        lines.append(f"  FLOPs of {', '.join(arms)}: {BASES[basis]}")
    lines += [
        "  individuals: between all as large as ResNet-20 and all as small as the initial network",
        "  disk and memory: every network as large as ResNet-110, or as the paper's best at its scale",
    ]
    return lines + [
        f"  {_short(arm, found)}" for arm in found.arms if arm.seconds > 1.01 * (arm.budget_seconds or 1e99)
    ]


def _short(arm: ArmEstimate, found: Estimate) -> str:
    reached = (arm.budget_seconds or 0.0) * arm.workers * found.flops_per_second
    return (
        f"{arm.arm}: the budget of {hours(arm.budget_seconds or 0.0)} ends first; until then {arm.workers:,} workers "
        f"of this speed spend at most {_flops(reached)} FLOPs"
    )


def hours(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, length, most in (("s", 1.0, 300.0), ("min", 60.0, 7200.0), ("h", 3600.0, 3600.0 * 10_000)):
        if seconds < most:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 3600 / 24 / 365.25:,.1f} years"


def _between(least: int, most: int) -> str:
    return amount(least).strip() if least == most else f"{amount(least).strip()} to {amount(most).strip()}"


def _flops(count: float) -> str:
    return f"{count:.2g}".replace("e+", "e")


def _bytes(count: int) -> str:
    return f"{amount(count)}B"
