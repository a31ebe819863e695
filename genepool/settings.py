"""The settings of an experiment, in sections: frozen, checked, with the paper's values as the defaults.

A section is the struct that the part of the program it configures receives, with the bounds on its fields. A setting
has one name everywhere, `section.name`: in Python, in TOML files (as tables), on the command line
(`--set section.name=value`), on the dashboard and in records. `none` stands for "not given" or "no limit". Settings
marked as fixed stay as they were when the experiment was created; all others can change while it runs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import msgspec
from msgspec import Meta
from msgspec.inspect import (
    BoolType,
    DictType,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    Type,
    UnionType,
    type_info,
)

from genepool.data import DataSettings
from genepool.errors import SettingsError, shown
from genepool.evaluation import Limits, Objective, Training
from genepool.evolution import Breeding, Budget, Escape, FinalPhase, TrainingBudgetRules
from genepool.registry import nearest


class ExperimentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an experiment begins."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, extra={"fixed": True})] = 0
    """Seed of all random numbers except the names of individuals."""
    start: Annotated[str | None, Meta(extra={"fixed": True})] = None
    """Differs from the paper if given, by `--start`: what the first individuals are, and a digest of it."""


class PopulationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The population: its size, who reproduces and dies, and how it is stored."""

    size: Annotated[int, Meta(ge=2, le=10**7)] = 1000
    """Individuals to keep."""
    selection: str = "tournament"
    """Which of a pair reproduces and which dies: tournament, random (the paper's control), or a plugin's."""
    set_point: str = "paper"
    """How the population keeps its size: paper, damped (Differs from the paper), or a plugin's."""
    lease: Annotated[float, Meta(ge=0.5, le=1e6, extra={"fixed": True})] = 600.0
    """Seconds without a heartbeat after which a worker's training is taken over."""
    durability: Annotated[Literal["safe", "fast"], Meta(extra={"fixed": True})] = "safe"
    """Whether writes are forced to disk before they count (safe) or not (fast)."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The worker processes that `genepool run` starts."""

    count: Annotated[int, Meta(ge=1, le=10**5)] | None = 250
    """Worker processes; none: one per core."""
    per_gpu: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Workers that share a GPU if `workers.count` is none: small networks leave most of one idle."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting, by section; the defaults are the paper's."""

    experiment: ExperimentSettings = ExperimentSettings()
    data: DataSettings = DataSettings()
    population: PopulationSettings = PopulationSettings()
    workers: WorkerSettings = WorkerSettings()
    breeding: Breeding = Breeding()
    training: Training = Training()
    training_budget: TrainingBudgetRules = TrainingBudgetRules()
    final_phase: FinalPhase = FinalPhase()
    objective: Objective = Objective()
    limits: Limits = Limits()
    escape: Escape = Escape()
    budget: Budget = Budget()


class Field(NamedTuple):
    """A setting: its type as it is declared, and what follows from the declaration."""

    hint: Any
    kind: Type
    """The type without None and without marks."""
    optional: bool
    fixed: bool


def _field(hint: Any) -> Field:
    info = type_info(hint)
    fixed = isinstance(info, Metadata) and bool((info.extra or {}).get("fixed"))
    kind = _unmarked(info)
    if isinstance(kind, UnionType):
        return Field(hint, _unmarked(next(each for each in kind.types if not isinstance(each, NoneType))), True, fixed)
    return Field(hint, kind, False, fixed)


def _unmarked(info: Type) -> Type:
    return info.type if isinstance(info, Metadata) else info


SECTIONS: dict[str, type[msgspec.Struct]] = get_type_hints(Settings)
FIELDS: dict[str, Field] = {
    f"{section}.{name}": _field(hint)
    for section, struct in SECTIONS.items()
    for name, hint in get_type_hints(struct, include_extras=True).items()
}
"""Every setting by its name."""
FIXED = tuple(name for name, field in FIELDS.items() if field.fixed)
"""The settings that cannot change after the experiment was created."""
_RENAMED = {
    "data": "data.source",
    "size": "data.size",
    "population_size": "population.size",
    "workers": "workers.count",
    "workers_per_gpu": "workers.per_gpu",
    "mutations": "breeding.mutations",
    "mutation_odds": "breeding.odds",
    "validation": "training.validation_images",
    "share": "training_budget.share",
    "finish": "final_phase.share",
    "objective": "objective.kind",
    "affordable": "limits.child_steps",
    "auto_escape": "escape.auto",
    "alarm_quiet_until": "escape.quiet_until",
    "time": "budget.time",
    "individuals": "budget.individuals",
    "flops": "budget.flops",
    **{f"max_{name}": f"limits.{name}" for name in ("parameters", "flops", "milliseconds", "memory")},
    **{f"escape_{name}": f"escape.{name}" for name in ("mutations", "individuals", "time")},
}
"""Names without a section, where the last part has changed or would be ambiguous."""


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some values replaced, each by its name `section.name`; texts are read as the setting's type."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        section, _, field = _known(name).partition(".")
        sections.setdefault(section, {})[field] = _converted(name, value)
    replaced = {name: msgspec.structs.replace(getattr(settings, name), **new) for name, new in sections.items()}
    return msgspec.structs.replace(settings, **replaced)


def override(settings: Settings, assignments: Iterable[str]) -> Settings:
    """The settings with some changed, each written `section.name=value`, or `breeding.odds.<mutation>=value`."""
    changes: dict[str, Any] = {}
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign:
            raise SettingsError(f"'{shown(assignment)}' is not a setting; write section.name=value.")
        mutation = name.removeprefix("breeding.odds.")
        if mutation != name:
            changes.setdefault("breeding.odds", dict(settings.breeding.odds or {}))[mutation] = text
        else:
            changes[name] = text
    return changed(settings, changes)


def _known(name: str) -> str:
    if name in FIELDS:
        return name
    inner = [each for each in FIELDS if each.endswith(f".{name}")]
    if name in _RENAMED or len(inner) == 1:
        raise SettingsError(f"There is no setting '{name}'; it is now {_RENAMED.get(name) or inner[0]}.")
    raise SettingsError(f"There is no setting '{shown(name)}'; {nearest(name, list(FIELDS))}")


def _converted(name: str, value: Any) -> Any:
    field = FIELDS[name]
    if field.optional and value == "none":
        return None
    try:
        return msgspec.convert(value, field.hint, strict=False)
    except msgspec.ValidationError as error:
        wanted = _requirement(field.kind, str(error)) + (", or none" if field.optional else "")
        raise SettingsError(f"The setting {name} is {_quoted(value)}, but must be {wanted}.") from None


_COMPARED = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


def _requirement(kind: Type, error: str) -> str:
    """What a value must be, from the bound that msgspec names or from the type."""
    if bound := re.match(r"Expected `(?:int|float)` ([<>]=?) (\S+)", error):
        odds = "a table of odds, each " if isinstance(kind, DictType) else ""
        return f"{odds}{_COMPARED[bound[1]]} {bound[2].removesuffix('.0')}"
    if isinstance(kind, LiteralType):
        return "one of " + ", ".join(map(str, kind.values))
    if isinstance(kind, StrType) and kind.pattern:
        return "written like 32x32"
    return _NOUNS[type(kind)]


_NOUNS: dict[type[Type], str] = {
    IntType: "a whole number",
    FloatType: "a number",
    BoolType: "true or false",
    StrType: "a text",
    DictType: "a table with the odds of at least one mutation",
}


def _quoted(value: Any) -> str:
    text = shown(written(value))
    return text if isinstance(value, (int, float)) or value is None else f"'{text}'"


def written(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def differences(before: Settings, after: Settings) -> dict[str, Any]:
    """The settings that changed, with their new values, by name."""
    old = by_name(before)
    return {name: value for name, value in by_name(after).items() if value != old[name]}


def by_name(settings: Settings) -> dict[str, Any]:
    """Every setting as a plain value, by its name `section.name`."""
    return flat(to_values(settings))


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, from a table of sections; what is not in a known section keeps its name, and is refused later."""
    found: dict[str, Any] = {}
    for section, table in values.items():
        nested = section in SECTIONS and isinstance(table, Mapping)
        found |= {f"{section}.{name}": value for name, value in table.items()} if nested else {section: table}
    return found


def from_values(values: Mapping[str, Any]) -> Settings:
    """Settings from a table of sections, as in files; every value is checked."""
    return changed(Settings(), flat(values))


def to_values(settings: Settings) -> dict[str, dict[str, Any]]:
    """Settings as plain values in a table of sections."""
    values: dict[str, dict[str, Any]] = msgspec.to_builtins(settings)
    return values


def fixed_and_tunable(settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two tables of sections: the settings that stay fixed and those that may change."""
    parts: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name, value in by_name(settings).items():
        section, _, field = name.partition(".")
        parts[not FIELDS[name].fixed].setdefault(section, {})[field] = value
    return parts


def read_toml(path: Path) -> dict[str, Any]:
    """The tables in a TOML file, as plain values."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"The settings file '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise SettingsError(f"The settings file '{shown(path)}' is not TOML: {shown(str(error))}.") from None


PRESETS: dict[str, Settings] = {
    "paper": Settings(),
    # The paper's own rules in numbers for two cores and two minutes. Differs from the paper: in those numbers, and in
    # the damped set-point rule (see evolution/set_point.py).
    "faithful": Settings(
        data=DataSettings(source="fashion-mini"),
        population=PopulationSettings(size=10, set_point="damped", lease=60.0),
        workers=WorkerSettings(count=None),
        training=Training(steps=200),
        budget=Budget(time=120.0),
    ),
    # For two cores and minutes. Differs from the paper in every line but `data`; `genepool study yield` measures the
    # effect of each departure.
    "laptop": Settings(
        data=DataSettings(source="fashion-mini"),
        population=PopulationSettings(size=4, set_point="damped", lease=60.0),
        workers=WorkerSettings(count=None),
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
        limits=Limits(child_steps=400, redraw=True),
        budget=Budget(time=120.0),
    ),
}


def preset(name: str) -> Settings:
    """The settings of that name."""
    if name not in PRESETS:
        raise SettingsError(f"There is no preset '{shown(name)}'; {nearest(name, list(PRESETS))}")
    return PRESETS[name]


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """A time: '90', '90s', '10m', '1.5h', '2d'."""
    unit = text[-1:].lower()
    try:
        value = float(text[:-1] if unit in _UNITS else text) * _UNITS.get(unit, 1)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 1e10:
        raise SettingsError(f"'{shown(text)}' is not a time; write it like 90s, 10m, 1.5h or 2d.")
    return value


_SIZES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def size(text: str) -> int:
    """An amount of memory: '2G', '1.5g', '800M', or a number of bytes."""
    plain = text.lower().removesuffix("b").removesuffix("i")
    unit = plain[-1:]
    try:
        value = float(plain[:-1] if unit in _SIZES else plain) * _SIZES.get(unit, 1)
    except ValueError:
        value = float("nan")
    if not 1 <= value <= 2**50:
        raise SettingsError(f"'{shown(text)}' is not an amount of memory; write it like 2G, 800M or 1.5G.")
    return int(value)
