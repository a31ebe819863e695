"""The presets, and where settings depart from the paper: see the marks `Differs from the paper` in the sections.

The table of departures in the documentation, and the labels of reports and figures, are made of these marks.
"""

import ast
import inspect
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from genepool.data import DataSettings
from genepool.errors import SettingsError, shown
from genepool.evaluation import Limits, Training
from genepool.evolution import Breeding, Budget, FinalPhase, TrainingBudgetRules
from genepool.registry import nearest
from genepool.settings.sections import SECTIONS, PopulationSettings, Settings, WorkerSettings
from genepool.settings.values import by_name, differences, written

MARK = "iffers from the paper"
LAPTOP_ODDS = {
    "grow-convolution": 2.0, "widen": 3.0, "alter-learning-rate": 1.0, "identity": 1.0, "add-skip": 0.5,
    "filter-size": 0.5, "alter-stride": 0.5, "insert-one-to-one": 0.2, "remove-convolution": 0.2, "remove-skip": 0.1,
}  # fmt: skip
FINETUNE_ODDS = {
    "alter-learning-rate": 2.0, "alter-body-rate": 2.0, "identity": 1.0, "prune-channels": 0.3, "prune-layer": 0.2,
    "insert-squeeze-excitation": 0.2, "insert-residual-block": 0.2, "add-skip": 0.2,
}  # fmt: skip
PRESETS: dict[str, Settings] = {
    "paper": Settings(),
    # The paper's own rules in numbers for one workstation and one night.
    "lab": Settings(
        population=PopulationSettings(size=100), training=Training(steps=2560), budget=Budget(time=12 * 3600.0)
    ),
    # The paper's own rules in numbers for two cores and two minutes.
    "faithful": Settings(
        data=DataSettings(source="fashion-mini"),
        population=PopulationSettings(size=10, lease=60.0),
        training=Training(steps=200),
        budget=Budget(time=120.0),
    ),
    # For two cores and minutes. Differs from the paper in every line but `data`; `genepool study yield` measures the
    # effect of each departure.
    "laptop": Settings(
        data=DataSettings(source="fashion-mini"),
        population=PopulationSettings(size=4, set_point="damped", founders="two", lease=60.0),
        workers=WorkerSettings(rule="cores"),
        breeding=Breeding(odds=LAPTOP_ODDS, width_step=16),
        training=Training(
            steps=500, inheritance="preserving", schedule="linear", nesterov=True, smoothing=0.1, precision="auto"
        ),
        training_budget=TrainingBudgetRules(share=0.05, first_share=0.02),
        final_phase=FinalPhase(share=0.4, parallel=True),
        limits=Limits(parameters=100_000_000, memory=4 * 2**30, child_steps=400, redraw=True),
        budget=Budget(time=120.0),
    ),
    # For a pretrained network and other images, on two cores and for minutes: few individuals, and most of the time for
    # the last training of the best. Differs from the paper in every line but `data`.
    "finetune": Settings(
        data=DataSettings(source="fashion-mini"),
        population=PopulationSettings(size=4, set_point="damped", founders="two", lease=60.0),
        workers=WorkerSettings(rule="cores"),
        breeding=Breeding(learning_rate=0.1, body_rate=0.5, odds=FINETUNE_ODDS),
        training=Training(
            steps=2000,
            batch=32,
            inheritance="preserving",
            schedule="linear",
            nesterov=True,
            smoothing=0.1,
            precision="auto",
        ),
        training_budget=TrainingBudgetRules(share=0.05, first_share=0.05, min_steps=5),
        final_phase=FinalPhase(share=0.8, parallel=True),
        limits=Limits(redraw=True),
        budget=Budget(time=600.0),
    ),
}


def preset(name: str) -> Settings:
    """The settings of that name."""
    if name not in PRESETS:
        raise SettingsError(f"There is no preset '{shown(name)}'; {nearest(name, list(PRESETS))}")
    return PRESETS[name]


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
    """The data, preset, numbers and departures of an experiment, in words for reports and figures. Directories do not
    record the preset: without `preset`, the most similar one is named. `arms` may differ in numbers.
    """
    found = departures(settings)
    name = preset or nearest_preset(settings)
    like = "preset" if preset or found == departures(PRESETS[name]) else "nearest preset"
    sizes = _several(each.population.size for each in arms or [settings])
    steps = _several(each.training.steps for each in arms or [settings])
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
