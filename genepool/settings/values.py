"""Settings from plain values and back: changes by name, tables of sections, TOML files, texts."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.inspect import BoolType, DictType, FloatType, IntType, LiteralType, StrType, Type

from genepool.errors import SettingsError, shown
from genepool.settings.sections import FIELDS, SECTIONS, Field, Settings

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
    old = {full.partition(".")[2]: full for full in FIELDS} | _RENAMED
    if name in old:
        raise SettingsError(f"There is no setting '{name}'; it is now {old[name]}.")
    advice = f"write section.name, with one of the sections {', '.join(SECTIONS)}."
    if close := difflib.get_close_matches(name, [*FIELDS, *old], n=1):
        advice = f"did you mean '{old.get(close[0], close[0])}'?"
    raise SettingsError(f"There is no setting '{shown(name)}'; {advice}")


def _converted(name: str, value: Any) -> Any:
    field = FIELDS[name]
    if field.optional and value == "none":
        return None
    try:
        return msgspec.convert(value, field.hint, strict=False)
    except msgspec.ValidationError as error:
        wanted = _requirement(field, str(error)) + (", or none" if field.optional else "")
        raise SettingsError(f"The setting {name} is {_quoted(value)}, but must be {wanted}.") from None


_COMPARED = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_NOUNS: dict[type[Type], str] = {
    IntType: "a whole number",
    FloatType: "a number",
    BoolType: "true or false",
    StrType: "a text",
    DictType: "a table with the odds of at least one mutation",
}


def _requirement(field: Field, error: str) -> str:
    """What a value must be, from the bound that msgspec names or from the type."""
    kind = field.kind
    if bound := re.match(r"Expected `(?:int|float)` ([<>]=?) (\S+)", error):
        odds = "a table of odds, each " if isinstance(kind, DictType) else ""
        return f"{odds}{_COMPARED[bound[1]]} {bound[2].removesuffix('.0')}"
    if isinstance(kind, LiteralType):
        return "one of " + ", ".join(map(str, kind.values))
    if isinstance(kind, StrType) and kind.pattern:
        return f"written like {field.example}"
    return _NOUNS[type(kind)]


def _quoted(value: Any) -> str:
    text = shown(written(value))
    return text if value is None or re.fullmatch(r"[-+.\w]*\d|true|false", text) else f"'{text}'"


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
    return msgspec.to_builtins(settings)  # type: ignore[no-any-return]


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


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def seconds(text: str) -> float:
    """A time: '90', '90s', '10m', '1.5h', '2d'."""
    value = _number(text, _UNITS)
    if not 0 <= value <= 1e10:
        raise SettingsError(f"'{shown(text)}' is not a time; write it like 90s, 10m, 1.5h or 2d.")
    return value


def duration(text: str) -> tuple[int, float]:
    """Individuals ('500') and seconds ('10m'), one of which is 0."""
    found = (int(text[:12]), 0.0) if text.isascii() and text.isdigit() else (0, seconds(text))
    if not 0 < max(found) <= 1e9:
        raise SettingsError(f"'{shown(text)}' is too short or too long; write 500 (individuals) or 10m (time).")
    return found


def size(text: str) -> int:
    """An amount of memory: '2G', '1.5g', '800M', or a number of bytes."""
    value = _number(text.lower().removesuffix("b").removesuffix("i"), _SIZES)
    if not 1 <= value <= 2**50:
        raise SettingsError(f"'{shown(text)}' is not an amount of memory; write it like 2G, 800M or 1.5G.")
    return int(value)


def _number(text: str, units: Mapping[str, int]) -> float:
    unit = text[-1:].lower()
    try:
        return float(text[:-1] if unit in units else text) * units.get(unit, 1)
    except ValueError:
        return float("nan")
