"""Where settings depart from the paper, by the marks `Differs from the paper` in the docstrings of the sections.

The table of departures in the documentation, and the labels of reports and figures, are made of these.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from genepool.settings.presets import PRESETS
from genepool.settings.sections import SECTIONS, Settings
from genepool.settings.values import by_name, differences, written

MARK = "iffers from the paper"


@cache
def meanings() -> dict[str, str]:
    """The docstring of every setting, by name."""
    return {
        f"{section}.{name}": meaning for section, struct in SECTIONS.items() for name, meaning in _documented(struct)
    }


def _documented(struct: type[msgspec.Struct]) -> list[tuple[str, str]]:
    [node] = ast.parse(inspect.getsource(struct)).body
    assert isinstance(node, ast.ClassDef)
    pairs = zip(node.body, [*node.body[1:], None], strict=True)
    return [(ast.unparse(one.target), _text(after)) for one, after in pairs if isinstance(one, ast.AnnAssign)]


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def marked() -> list[str]:
    """The names of the settings that can depart from the paper."""
    return [name for name, meaning in meanings().items() if MARK in meaning]


def departures(settings: Settings) -> dict[str, Any]:
    """The settings that depart from the paper, with their values."""
    different = differences(PRESETS["paper"], settings)
    return {name: different[name] for name in marked() if name in different}


def nearest_preset(settings: Settings) -> str:
    """The preset whose departures are the most similar; of several, the one with the most settings in common."""
    values, own = by_name(settings), departures(settings)

    def distance(name: str) -> tuple[int, int]:
        other = departures(PRESETS[name])
        rules = sum(own.get(key) != other.get(key) for key in own.keys() | other.keys())
        return rules, sum(values[key] != value for key, value in by_name(PRESETS[name]).items())

    return min(PRESETS, key=distance)


def rules_label(settings: Settings, preset: str = "", arms: Sequence[Settings] = ()) -> str:
    """The data, preset, numbers and departures of an experiment, in words for reports and figures.

    Without the preset's name, which directories do not record, the most similar one is named. `arms` are the settings
    of a study's arms, which may differ in their numbers.
    """
    found = departures(settings)
    name = preset or nearest_preset(settings)
    like = "preset" if preset or found == departures(PRESETS[name]) else "nearest preset"
    all_of_them = arms or [settings]
    sizes = _several(each.population.size for each in all_of_them)
    steps = _several(each.training.steps for each in all_of_them)
    most = "at most " if settings.training_budget.share is not None else ""
    rules = ", ".join(f"{key}={_shown(value)}" for key, value in found.items())
    return (
        f"{settings.data.source}, {like} {name}, population {sizes}, {most}{steps} steps. "
        f"Departures from the paper: {rules or 'none'}."
    )


def _several(numbers: Iterable[int]) -> str:
    return "/".join(f"{number:,}" for number in sorted(set(numbers)))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "own"
    return f"{value:.2g}".replace("e+0", "e") if isinstance(value, int) and value >= 10**6 else written(value)
