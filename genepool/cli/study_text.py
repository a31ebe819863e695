"""The text of `genepool study`: the announcement, the progress of the study and the table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from genepool.cli.text import amount, percent, span, table

if TYPE_CHECKING:
    from genepool.study import Line, StudyPlan, StudyProgress

EVERY = 10.0  # seconds between two lines if the output is not a terminal


def announcement(plan: StudyPlan) -> str:
    """The plan and its statistics, before anything runs."""
    from genepool.study import description

    statistics = "\n".join(f"  {name}: {description(name)}" for name in plan.statistics)
    return (
        f"{plan.about}\n{len(plan.arms)} arms, {plan.repeats} repeats, scale {plan.scale}: {plan.label()}\n"
        f"Statistics, decided now:\n{statistics}"
    )


@contextmanager
def progress_view() -> Iterator[Callable[[StudyProgress], None]]:
    """Show the progress while the context lasts: a panel on a terminal, otherwise lines, on standard error."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), auto_refresh=False) as shown:
        yield lambda progress: shown.update(Text(progress_text(progress)), refresh=True)


def _lines() -> Callable[[StudyProgress], None]:
    due, last = 0.0, (-1, -1)

    def look(progress: StudyProgress) -> None:
        nonlocal due, last
        now = (progress.done, len(progress.running))
        if time.monotonic() >= due or now != last:
            due, last = time.monotonic() + EVERY, now
            click.echo(progress_text(progress), err=True)

    return look


def progress_text(progress: StudyProgress) -> str:
    """A line for the study, and one for each experiment that runs anywhere."""
    left = "" if progress.seconds_left is None else f"; about {span(progress.seconds_left)} left"
    others = f" by {progress.drivers} drivers" if progress.drivers > 1 else ""
    head = f"{progress.done} done, {len(progress.running)} running{others}, {progress.waiting} waiting{left}"
    rows = [
        f"  {one.key}: {percent(one.share)} spent, {one.individuals} individuals"
        + (f", best {percent(one.best)}" if one.best is not None else "")
        + f", {one.workers} {'worker' if one.workers == 1 else 'workers'}"
        + (f" ({one.trouble})" if one.trouble else "")
        for one in progress.running
    ]
    return "\n".join([head, *rows])


def shipped() -> str:
    from genepool.study import read_plan, shipped_plans

    width = max(map(len, shipped_plans()))
    return "\n".join(f"{name:{width}}  {read_plan(name).about}" for name in shipped_plans())


def page(found: list[Line]) -> str:
    rows = [
        [
            line.arm, str(line.repeats), percent(line.validation), percent(line.test),
            "" if line.spread is None else f"± {100 * line.spread:.1f}", f"{line.individuals:.0f}",
            f"{amount(line.flops)}FLOP", amount(round(line.parameters)).strip(), percent(line.useful),
        ]
        for line in found
    ]  # fmt: skip
    columns = ["validation", "test", "2 s.e.", "individuals", "spent", "parameters", "in the best's lineage"]
    return table(["arm", "repeats", *columns], rows)
