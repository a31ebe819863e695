"""The settings of an experiment: frozen, checked, with the paper's figures as one preset.

A setting has one name everywhere: here, in files, on the command line (`--set name=value`) and in records.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from genepool.errors import SettingsError, shown
from genepool.registry import nearest


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting; the defaults are the paper's."""

    steps: int = 25_600
    """Training steps of one individual."""
    batch: int = 50
    """Images a step."""
    momentum: float = 0.9
    weight_decay: float = 0.0001
    """On filters and the classifier's matrix."""
    max_parameters: int = 100_000_000
    """Larger networks are not trained; they get fitness 0."""
    max_memory: int = 4 * 2**30
    """Bytes; networks whose training needs more, by estimate, are not trained."""

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingsError(f"The setting {name} is {value}, but must lie between {low} and {high}.")


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("steps", 0, 10**9),
    ("batch", 2, 100_000),
    ("momentum", 0.0, 0.9999),
    ("weight_decay", 0.0, 1.0),
    ("max_parameters", 1, 10**12),
    ("max_memory", 1, 2**50),
)

PRESETS: dict[str, Settings] = {"paper": Settings()}


def preset(name: str) -> Settings:
    """The settings of that name."""
    if name not in PRESETS:
        raise SettingsError(f"There is no preset '{name}'; {nearest(name, list(PRESETS))}")
    return PRESETS[name]


def override(settings: Settings, assignments: Iterable[str]) -> Settings:
    """The settings with some changed, each written `name=value`."""
    values = msgspec.to_builtins(settings)
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign:
            raise SettingsError(f"'{assignment}' is not a setting; write name=value.")
        if name not in values:
            raise SettingsError(f"There is no setting '{name}'; {nearest(name, list(values))}")
        values[name] = text
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"A setting has a value of the wrong kind: {shown(str(error))}.") from None
