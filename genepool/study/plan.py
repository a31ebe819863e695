"""The plan of a study: a TOML file with settings for all, arms that change some of them, and how often to repeat.

docs/guide/reproducing.md explains the file with examples; plans/ has those that are shipped.
"""

import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from genepool.errors import SettingsError, shown
from genepool.registry import nearest
from genepool.settings import FIXED, Settings, by_name, changed, flat, preset, read_toml, rules_label
from genepool.study.statistics import STATISTICS

PLANS = Path(__file__).parent / "plans"
LAPTOP = "laptop"  # the scale of a plan without changes
RESET = "reset_weights"
_ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ,_+-]{0,60}", re.ASCII)


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published result for comparison."""

    label: str
    flops: float
    accuracy: float
    data: str = ""  # the data set of the result; it is drawn in figures about other data only on request
    arm: str = ""  # the arm that it is the result of at the paper's scale; the estimate takes its FLOPs


class PublishedCurve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published curve, or single points of one, for the figure `repeatability`."""

    label: str
    hours: float  # the length of the run; the figure compares shares of it
    points: tuple[tuple[float, float], ...]  # hours and test accuracy
    deviation: float | None = None  # the standard deviation of the accuracy between repeats, if it was published
    data: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that change while an experiment runs, after the changes listed before it."""

    # The share of the budget after which they change; with `when`, after which they change at the latest.
    spent: float | None = None
    # `plateau`: as soon as `individuals` in a row were not better than the best since the previous change.
    when: Literal["plateau"] | None = None
    individuals: int | None = None
    set: dict[str, Any] = {}  # new values by name
    reset_weights: bool = False  # whether all weights are reset, as by `genepool intervene --reset-weights`

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "set", flat(self.set))

    def due(self, share: float, waited: int) -> Literal["plateau", "spent"] | None:
        """Why the change is made now, given the share of the budget spent and the individuals without a better one."""
        if self.individuals is not None and waited >= self.individuals:
            return "plateau"
        return "spent" if self.spent is not None and share >= self.spent else None

    @property
    def recorded(self) -> dict[str, Any]:
        """What changes, as it is recorded."""
        return {**self.set, RESET: True} if self.reset_weights else self.set

    @property
    def moment(self) -> str:
        """When it is made, in words."""
        share = "" if self.spent is None else f"{100 * self.spent:g} % of the budget"
        if self.individuals is None:
            return f"at {share}"
        latest = f", at the latest at {share}" if share else ""
        return f"after {self.individuals} individuals without a better one{latest}"


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is different on a larger or smaller machine."""

    preset: str | None = None
    repeats: int | None = None
    settings: dict[str, Any] = {}
    arms: dict[str, dict[str, Any]] = {}  # settings of arms, instead of those that the plan gives them
    only: tuple[str, ...] = ()  # the arms that are run; none given: all

    def __post_init__(self) -> None:
        _flatten(self)


class StudyPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of the file. Settings are by name here (`section.name`), in the file in tables."""

    about: str = ""
    repeats: int = 3
    preset: str = "laptop"
    settings: dict[str, Any] = {}
    arms: dict[str, dict[str, Any]]
    points: tuple[Point, ...] = ()
    curves: tuple[PublishedCurve, ...] = ()
    # What is computed from the outcomes; part of the plan, so that it is not chosen after seeing them.
    statistics: tuple[str, ...] = ("mean", "flops")
    # The figure that the question calls for; accuracy against FLOPs is always drawn.
    figure: Literal["repeatability", "dependence", "escape", "economy"] = "economy"
    against: str = ""  # the setting on the horizontal axis of the figure `dependence`
    scale: str = LAPTOP
    scales: dict[str, Scale] = {}

    def __post_init__(self) -> None:
        _flatten(self)

    def common(self) -> Settings:
        """The settings before any arm changes them."""
        return changed(preset(self.preset), self.settings)

    def label(self) -> str:
        """Data, preset, numbers and departures from the paper, for every report and figure; arms name their own."""
        return rules_label(self.common(), self.preset, [self.settings_of(arm, 1) for arm in self.arms])

    def settings_of(self, arm: str, seed: int) -> Settings:
        """The settings with which an experiment begins."""
        own = {name: value for name, value in self.arms[arm].items() if name != "changes"}
        return changed(preset(self.preset), _merged(self.settings, own, {"experiment.seed": seed}))

    def changes(self, arm: str) -> tuple[Change, ...]:
        """What changes while an experiment of this arm runs, in order."""
        try:
            return msgspec.convert(self.arms[arm].get("changes", ()), tuple[Change, ...])
        except msgspec.ValidationError as error:
            raise SettingsError(f"the `changes` of a running experiment are not valid: {shown(str(error))}.") from None

    def runs(self) -> list[tuple[str, int]]:
        """The arm and seed of every experiment: all arms once, then again, so that half a study is fair too."""
        return [(arm, seed) for seed in range(1, self.repeats + 1) for arm in self.arms]


def _flatten(plan: StudyPlan | Scale) -> None:
    msgspec.structs.force_setattr(plan, "settings", flat(plan.settings))
    msgspec.structs.force_setattr(plan, "arms", {arm: flat(settings) for arm, settings in plan.arms.items()})


def _merged(*changes: dict[str, Any]) -> dict[str, Any]:
    """Merge changes; later ones win, and odds of mutations are combined."""
    merged: dict[str, Any] = {}
    for change in changes:
        for name, value in change.items():
            both = isinstance(value, dict) and isinstance(merged.get(name), dict)
            merged[name] = {**merged[name], **value} if both else value
    return merged


def shipped_plans() -> list[str]:
    """The names of the plans that come with the program."""
    return sorted(path.stem for path in PLANS.glob("*.toml"))


def read_plan(name: str, scale: str = LAPTOP) -> StudyPlan:
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
    try:
        plan = scaled(plan, scale)
    except SettingsError as error:
        raise SettingsError(f"The plan '{shown(path)}' {error}") from None
    check_plan(plan, path)
    return plan


def scaled(plan: StudyPlan, scale: str) -> StudyPlan:
    """The plan at one of its scales."""
    if scale != LAPTOP and scale not in plan.scales:
        raise SettingsError(f"has no scale '{shown(scale)}'; {nearest(scale, [LAPTOP, *plan.scales])}")
    change = plan.scales.get(scale, Scale())
    unknown = [arm for arm in (*change.arms, *change.only) if arm not in plan.arms]
    if unknown:
        raise SettingsError(
            f"changes the arm '{shown(unknown[0])}' at the scale '{shown(scale)}', but has no such arm."
        )
    arms = {**plan.arms, **change.arms}
    return msgspec.structs.replace(
        plan,
        preset=change.preset or plan.preset,
        repeats=plan.repeats if change.repeats is None else change.repeats,
        settings=_merged(plan.settings, change.settings),
        arms={arm: arms[arm] for arm in change.only or arms},
        scale=scale,
        scales={},
    )


def narrowed(
    plan: StudyPlan, *, repeats: int | None = None, arms: tuple[str, ...] = (), changes: dict[str, Any] | None = None
) -> StudyPlan:
    """The plan with other repeats or settings, or with some arms only; a new kind of budget replaces the plan's."""
    for arm in arms:
        if arm not in plan.arms:
            raise SettingsError(f"The plan has no arm '{arm}'; {nearest(arm, list(plan.arms))}")
    changes = changes or {}
    settings = {**plan.settings, **changes}
    if "budget.time" in changes and "budget.flops" not in changes:
        settings.pop("budget.flops", None)
    if "budget.flops" in changes and "budget.time" not in changes:
        settings["budget.time"] = None
    chosen = {arm: plan.arms[arm] for arm in arms} or plan.arms
    return msgspec.structs.replace(plan, repeats=repeats or plan.repeats, arms=chosen, settings=settings)


def check_plan(plan: StudyPlan, path: Path) -> None:
    """Refuse mistakes that would otherwise show only after hours."""
    if not plan.arms or plan.repeats < 1:
        raise SettingsError(f"The plan '{shown(path)}' needs at least one arm and one repeat.")
    for name in plan.statistics:
        if name not in STATISTICS:
            raise SettingsError(f"There is no statistic '{shown(name)}'; {nearest(name, list(STATISTICS))}")
    if (plan.figure == "dependence") != bool(plan.against):
        raise SettingsError(
            f"The plan '{shown(path)}' needs `against`, a setting, for the figure dependence, and only for it."
        )
    if len({arm.replace(" ", "-") for arm in plan.arms}) < len(plan.arms):
        raise SettingsError(
            f"In the plan '{shown(path)}' two arms differ only in spaces and hyphens; name one otherwise."
        )
    for arm in plan.arms:
        if not _ARM.fullmatch(arm):
            raise SettingsError(f"An arm cannot be called '{shown(arm)}'; use letters, digits, spaces and hyphens.")
        try:
            settings = plan.settings_of(arm, 1)
            if plan.against and not isinstance(by_name(settings).get(plan.against), int | float):
                raise SettingsError(f"there is no setting '{shown(plan.against)}' with a number, to draw against.")
            _check_changes(settings, plan.changes(arm))
        except SettingsError as error:
            raise SettingsError(f"In the plan '{shown(path)}', arm '{arm}': {error}") from None


def _check_changes(settings: Settings, changes: tuple[Change, ...]) -> None:
    before = 0.0
    for number, change in enumerate(changes, start=1):
        if (change.when is None) != (change.individuals is None) or (change.individuals or 1) < 1:
            raise SettingsError('`when = "plateau"` and `individuals`, at least 1, belong together.')
        if change.spent is None and change.when is None:
            raise SettingsError('a change needs `spent`, or `when = "plateau"` with `individuals`.')
        if change.spent is not None and not before < change.spent < 1:
            raise SettingsError(
                f"`spent` is {change.spent:g}, but must lie between 0 and 1 and be larger than in the change before."
            )
        if not (change.set or change.reset_weights):
            raise SettingsError(f"change {number} changes nothing; give `set` or `reset_weights`.")
        fixed = [name for name in change.set if name in FIXED]
        if fixed:
            raise SettingsError(f"{fixed[0]} cannot change while an experiment runs.")
        settings, before = changed(settings, change.set), change.spent or before
