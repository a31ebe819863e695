"""The tables and targets of the store benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from genepool.cli.text import percent, table

OF_RAW = 0.4
TIMES_JOURNAL = {2_000: 2.0, 20_000: 5.0}
FLAT = 2.0


class Figures:
    """The measurements by name."""

    def __init__(self, results: dict[str, Any]) -> None:
        self._figures = results["figures"]
        plan = results["plan"]
        self.base: int = plan["populations"][1]
        self.largest: int = plan["populations"][-1]
        self.raw: list[int] = list(plan["raw"])
        self.contestants: int = plan["contestants"]

    def rows(self, kind: str) -> list[list[str]]:
        """Return the words after the kind in the name of each figure."""
        return [name.split()[1:] for name in self._figures if name.split()[0] == kind]

    def rate(self, *words: object) -> float:
        return float(self._figures[" ".join(map(str, words))]["per_second"])

    def cpu(self, *words: object) -> float:
        return float(self._figures[" ".join(map(str, words))]["cpu_ms"])


def report(results: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the text to print, and the targets as data."""
    figures = Figures(results)
    bars = list(_bars(figures))
    lines = [f"{'met    ' if bar['met'] else 'NOT met'}  {bar['bar']}: {bar['value']:.2f}" for bar in bars]
    journal = _journal(figures) or "Optuna is not installed here, so its column is left out; `make bench` installs it."
    return "\n\n".join([_steps(figures), _raw(figures), journal, "\n".join(lines)]), bars


def _steps(figures: Figures) -> str:
    rows = []
    for level, population, workers, place in figures.rows("evolve"):
        if place != "disk":
            continue
        rate, cpu = (look("evolve", level, population, workers, place) for look in (figures.rate, figures.cpu))
        share = figures.cpu("raw", level, figures.base, min(int(workers), max(figures.raw))) / cpu
        rows.append([level, f"{int(population):,}", workers, f"{rate:,.0f}", f"{cpu:.2f}", percent(share)])
    rows.sort(key=lambda row: row[0])
    return table(["durability", "population", "workers", "steps/s", "CPU ms/step", "raw limit's CPU"], rows)


def _raw(figures: Figures) -> str:
    rows = []
    for level, population, processes in figures.rows("raw"):
        where = (level, population, processes)
        raw, ours = figures.rate("raw", *where), figures.rate("beside-raw", *where)
        shares = [ours / raw, figures.cpu("raw", *where) / figures.cpu("beside-raw", *where)]
        cpu = f"{figures.cpu('raw', *where):.2f}"
        rows.append([*where, f"{raw:,.0f}", cpu, f"{ours:,.0f}", *map(percent, shares)])
    header = ["raw limit", "population", "processes", "raw steps/s", "CPU ms/step", "steps/s", "of raw", "by CPU time"]
    return table(header, rows)


def _journal(figures: Figures) -> str:
    rows = []
    for trials, processes, place in figures.rows("journal"):
        theirs, ours = ("journal", trials, processes, place), ("evolve", "fast", figures.base, processes, place)
        speeds = [text for one in (theirs, ours) for text in (f"{figures.rate(*one):,.0f}", f"{figures.cpu(*one):.2f}")]
        rows.append(
            [f"{int(trials):,}", place, processes, *speeds, f"{figures.rate(*ours) / figures.rate(*theirs):.1f}"]
        )
    header = ["Optuna's journal, trials", "in", "processes", "trials/s", "CPU ms", "our steps/s", "CPU ms", "ratio"]
    return table(header, rows) if rows else ""


def _bars(figures: Figures) -> Iterator[dict[str, Any]]:
    for level, _, processes in figures.rows("raw"):
        where = (level, figures.base, processes)
        value = figures.rate("beside-raw", *where) / figures.rate("raw", *where)
        yield _bar(f"{level}, {processes} processes: at least {OF_RAW} of the raw limit", value, value >= OF_RAW)
    for trials, processes, place in figures.rows("journal"):
        wanted = TIMES_JOURNAL.get(int(trials), 1.0)
        ours = figures.rate("evolve", "fast", figures.base, processes, place)
        value = ours / figures.rate("journal", trials, processes, place)
        name = f"fast, {place}: at least {wanted:g} times Optuna's journal at {int(trials):,} trials"
        yield _bar(name, value, value >= wanted)
    for level in ("fast", "safe"):
        requirements = [figures.cpu("evolve", level, size, 1, "disk") for size in (figures.base, figures.largest)]
        value = requirements[1] / requirements[0]
        name = f"{level}: CPU time a step at {figures.largest:,} at most {FLAT:g} times that at {figures.base:,}"
        yield _bar(name, value, value <= FLAT)


def _bar(name: str, value: float, met: bool) -> dict[str, Any]:
    return {"bar": name, "value": value, "met": met}
