"""The plan of a study: a TOML file with settings for all, arms that change some of them, and how often to repeat.

about = "What the study asks."
repeats = 3
preset = "laptop"

[settings]                  # of every arm
flops = 2e12

[arms.all]
[arms."weights by shape"]
inheritance = "matching"

[[points]]                  # for comparison, in the figure
label = "ResNet-20, by hand"
flops = 6.5e13
accuracy = 0.854
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from genepool.errors import SettingsError, shown
from genepool.registry import nearest
from genepool.settings import Settings, changed, preset, read_toml

PLANS = Path(__file__).parent / "plans"
_ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ,_+-]{0,60}", re.ASCII)


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody else's result."""

    label: str
    flops: float
    accuracy: float
    data: str = ""
    """The data set that it was reached on; it is drawn in figures about this one only."""


class StudyPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of the file."""

    about: str = ""
    repeats: int = 3
    preset: str = "laptop"
    settings: dict[str, Any] = {}
    arms: dict[str, dict[str, Any]]
    points: tuple[Point, ...] = ()

    def settings_of(self, arm: str, seed: int) -> Settings:
        """Of one experiment."""
        return changed(preset(self.preset), _merged(self.settings, self.arms[arm], {"seed": seed}))

    def runs(self) -> list[tuple[str, int]]:
        """Arm and seed of every experiment: all arms once, then again, so that half a study is a fair one."""
        return [(arm, seed) for seed in range(1, self.repeats + 1) for arm in self.arms]


def _merged(*changes: dict[str, Any]) -> dict[str, Any]:
    """The later ones win; tables, such as the odds of mutations, are merged as well."""
    merged: dict[str, Any] = {}
    for change in changes:
        for name, value in change.items():
            both = isinstance(value, dict) and isinstance(merged.get(name), dict)
            merged[name] = {**merged[name], **value} if both else value
    return merged


def shipped_plans() -> list[str]:
    """The names of the plans that come with the program."""
    return sorted(path.stem for path in PLANS.glob("*.toml"))


def read_plan(name: str) -> StudyPlan:
    """A shipped plan by its name, or one of your own by its file; every arm's settings are checked."""
    path = Path(name)
    if path.suffix != ".toml":
        if name not in shipped_plans():
            raise SettingsError(
                f"There is no plan '{shown(name)}'; {nearest(name, shipped_plans())} Your own is a .toml file."
            )
        path = PLANS / f"{name}.toml"
    try:
        plan = msgspec.convert(read_toml(path), StudyPlan)
    except msgspec.ValidationError as error:
        raise SettingsError(f"The plan '{shown(path)}' is not one: {shown(str(error))}.") from None
    check_plan(plan, path)
    return plan


def check_plan(plan: StudyPlan, path: Path) -> None:
    """Refuses what would only show after hours."""
    if not plan.arms or plan.repeats < 1:
        raise SettingsError(f"The plan '{shown(path)}' needs at least one arm and one repeat.")
    for arm in plan.arms:
        if not _ARM.fullmatch(arm):
            raise SettingsError(f"An arm cannot be called '{shown(arm)}'; use letters, digits, spaces and hyphens.")
        try:
            plan.settings_of(arm, 1)
        except SettingsError as error:
            raise SettingsError(f"In the plan '{shown(path)}', arm '{arm}': {error}") from None
