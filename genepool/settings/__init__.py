"""The settings of an experiment, in sections: frozen, checked, with the paper's values as the defaults.

A section is the struct that the part of the program it configures receives, with the bounds on its fields. A setting
has one name everywhere, `section.name`: in Python, in TOML files (as tables), on the command line
(`--set section.name=value`), on the dashboard and in records. `none` stands for "not given" or "no limit". Settings
marked as fixed stay as they were when the experiment was created; all others can change while it runs.

sections     the class Settings, with one field per section, and every setting by its name
values       changes by name, tables of sections, TOML files, texts
presets      paper, lab, faithful, laptop and finetune; where settings depart from the paper
"""

from genepool.settings.presets import PRESETS, departures, marked, meanings, preset, rules_label
from genepool.settings.sections import FIELDS, FIXED, SECTIONS, Settings
from genepool.settings.values import (
    by_name,
    changed,
    differences,
    duration,
    fixed_and_tunable,
    flat,
    from_values,
    override,
    read_toml,
    seconds,
    size,
    to_values,
    written,
)

__all__ = [
    "Settings", "FIELDS", "FIXED", "SECTIONS", "PRESETS", "preset", "departures", "marked", "meanings", "rules_label",
    "by_name", "changed", "differences", "duration", "fixed_and_tunable", "flat", "from_values", "override",
    "read_toml", "seconds", "size", "to_values", "written",
]  # fmt: skip
