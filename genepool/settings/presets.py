"""The presets: the paper's own settings, its rules for a night or for minutes, and the most accuracy in minutes."""

from __future__ import annotations

from genepool.data import DataSettings
from genepool.errors import SettingsError, shown
from genepool.evaluation import Limits, Training
from genepool.evolution import Breeding, Budget, FinalPhase, TrainingBudgetRules
from genepool.registry import nearest
from genepool.settings.sections import PopulationSettings, Settings, WorkerSettings

PRESETS: dict[str, Settings] = {
    "paper": Settings(),
    # The paper's own rules in numbers for one workstation and one night.
    "lab": Settings(
        population=PopulationSettings(size=100),
        training=Training(steps=2560),
        budget=Budget(time=12 * 3600.0),
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
        breeding=Breeding(
            odds={
                "grow-convolution": 2.0,
                "widen": 3.0,
                "alter-learning-rate": 1.0,
                "identity": 1.0,
                "add-skip": 0.5,
                "filter-size": 0.5,
                "alter-stride": 0.5,
                "insert-one-to-one": 0.2,
                "remove-convolution": 0.2,
                "remove-skip": 0.1,
            },
            width_step=16,
        ),
        training=Training(
            steps=500, inheritance="preserving", schedule="linear", nesterov=True, smoothing=0.1, precision="auto"
        ),
        training_budget=TrainingBudgetRules(share=0.05, first_share=0.02),
        final_phase=FinalPhase(share=0.4),
        limits=Limits(parameters=100_000_000, memory=4 * 2**30, child_steps=400, redraw=True),
        budget=Budget(time=120.0),
    ),
}


def preset(name: str) -> Settings:
    """The settings of that name."""
    if name not in PRESETS:
        raise SettingsError(f"There is no preset '{shown(name)}'; {nearest(name, list(PRESETS))}")
    return PRESETS[name]
