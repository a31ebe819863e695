"""The settings of an experiment: frozen, checked, with the paper's figures as one preset.

A setting has one name everywhere: here, in files, on the command line (`--set name=value`) and in records. Most may
change while an experiment runs; those in FIXED make it another experiment.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from genepool.errors import SettingsError, shown
from genepool.registry import nearest


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every setting; the defaults are the paper's."""

    # The experiment.
    data: str = "cifar-10"
    """A data set's name, or a path to a folder of images or a .npz file."""
    size: str = ""
    """Height x width to bring a folder's images to; empty: their median."""
    flip: bool = True
    """Whether the mirror image is as good an example, of a folder or a .npz file: not of digits, letters or signs."""
    start: str = ""
    """Differs from the paper where it is given (by `--start`): what the first individuals are, and a digest of it."""
    seed: int = 0
    """Of all random numbers but the names of individuals."""
    lease: float = 600.0
    """Seconds of silence after which a worker's training is taken over."""
    durability: Literal["safe", "fast"] = "safe"
    """Whether what is written is forced to the disk before it counts."""

    # The population.
    population_size: int = 1000
    """Individuals to keep."""
    workers: int = 250
    """Processes that `genepool run` starts; 0: one a core."""
    workers_per_gpu: int = 4
    """Processes that share a GPU, where `workers` is 0: small networks leave most of one idle."""
    selection: str = "tournament"
    """Who of a pair reproduces and who dies: tournament, random (the paper's control), or a plugin's."""
    set_point: str = "paper"
    """How the population keeps its size: paper, damped, or a plugin's."""
    mutations: int = 1
    """At each reproduction."""
    mutation_odds: dict[str, float] = {}
    """By name; none given: the paper's eleven, all alike."""
    recombination: Literal["off", "probabilities", "weights", "fusion"] = "off"
    """Differs from the paper's main results: children of two parents, one of whom gives its mutations' odds, which then
    evolve too; or who mix their weights; or who are fused side by side."""
    recombination_odds: float = 0.2
    """The share of children that have two parents, where recombination is not off."""
    learning_rate: float = 0.1
    """Of the initial individuals."""
    width_step: int = 1
    """Differs from the paper: mutations leave widths at multiples of it, which cost no more than what is between."""
    affordable: int = 0
    """Differs from the paper: steps that a child must have time for, or its mutation is drawn again; 0: any. What costs
    no more than one convolution of 16 channels may always be born."""
    share: float = 0.0
    """Differs from the paper: time of an individual as a share of the time elapsed, not so many steps; 0: steps."""
    first_share: float = 0.02
    """With `share`: the least time of an individual, as a share of the whole budget's."""
    finish: float = 0.0
    """Differs from the paper: the last part of the budget, in which the best is trained on and nothing else happens."""
    early_crop: float = 1.0
    """Differs from the paper: side of the crops in the first half of the budget, as a share of the image's."""
    cooling: float = 0.0
    """Differs from the paper: by how much learning rates have fallen, as a share, when the budget is spent."""

    racing: float = 0.0
    """Differs from the paper: the part of a child's training after which it is stopped if it clearly loses against its
    parent, and gets more time if it clearly wins; 0: no race."""

    # What it strives for.
    objective: Literal["accuracy", "accuracy-per-flops"] = "accuracy"
    """Fitness; the second is accuracy * max(1, FLOPs of one image / flops_target) ** -flops_weight (differs from the
    paper)."""
    flops_target: float = 1e6
    """With `accuracy-per-flops`: FLOPs of one image that cost nothing."""
    flops_weight: float = 0.07
    """With `accuracy-per-flops`: twice the FLOPs are worth 5 % more accuracy at 0.07, which is MnasNet's."""

    # Escaping local optima; see evolution/escape.py. `genepool intervene` writes the last five.
    alarm: int = 0
    """Individuals in a row without a new best after which an alarm is shown; 0: none."""
    auto_escape: int = 0
    """Differs from the paper: individuals that `escape_mutations` last when the alarm rings; 0: only the alarm."""
    escape_mutations: int = 5
    """At each reproduction while an escape lasts."""
    escape_individuals: int = 0
    """An escape lasts until so many individuals have been trained in all; 0: no limit of this kind."""
    escape_time: float = 0.0
    """An escape lasts until the experiment has taken so many seconds; 0: no limit of this kind."""
    alarm_quiet_until: int = 0
    """The alarm is silent before so many individuals have been trained in all."""
    reset_version: int = 0
    """Whoever was born under older versions of the settings passes on no weights and must earn its fitness again."""

    # Training.
    steps: int = 25_600
    """Of one individual; with `share`, the most of them."""
    batch: int = 50
    """Images a step."""
    momentum: float = 0.9
    """Of SGD."""
    weight_decay: float = 0.0001
    """On filters and the classifier's matrix."""
    inheritance: Literal["matching", "preserving", "none"] = "matching"
    """Of weights: those of the same name and shape; all that can be kept (differs from the paper); none."""
    schedule: str = "constant"
    """Of the learning rate within an individual: constant, linear, or a plugin's."""
    nesterov: bool = False
    """Differs from the paper where it is on: Nesterov's form of the momentum."""
    smoothing: float = 0.0
    """Of the labels."""
    averaging: float = 0.0
    """Differs from the paper: the last part of the steps, the mean of whose weights is kept and validated; 0: off."""
    precision: Literal["float32", "mixed", "auto"] = "float32"
    """Of training. Differs from the paper where it is not float32: auto computes networks in bfloat16 on processors
    that have instructions for it, and nowhere else; mixed does so anywhere, or in float16 where a GPU has no other. A
    processor without the instructions then takes ten times as long, and more memory than is predicted."""
    validation: int = 0
    """Validation images that the fitness is measured on; 0: all."""
    checkpoint_every: float = 60.0
    """Seconds between two checkpoints of one training."""
    max_parameters: int = 100_000_000
    """Larger networks are not trained; they get fitness 0."""
    max_flops: float = 0.0
    """Differs from the paper: FLOPs of one image, forward, above which networks are not trained; 0: any number."""
    max_milliseconds: float = 0.0
    """Differs from the paper: of the inference of one image on the machine that trained the network; what takes longer
    is less fit than all that keeps the limit; 0: any time, and none is measured."""
    redraw: bool = False
    """Differs from the paper: a mutation that leads over `max_parameters` or `max_flops` is drawn again, so that
    nobody is born who cannot be trained."""
    max_memory: int = 4 * 2**30
    """Bytes that a worker may grow to, by prediction; networks that need more are not trained. A worker's share of the
    machine's memory, if smaller, counts instead."""

    # The budget of the whole experiment; 0 means no limit.
    time: float = 0.0
    """Seconds."""
    individuals: int = 0
    """So many trained."""
    flops: float = 0.0
    """So many spent, by all individuals together."""
    target: float = 0.0
    """A fitness to reach."""
    plateau: int = 0
    """Individuals in a row without a new best."""

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingsError(f"The setting {name} is {value:g}, but must lie between {low:g} and {high:g}.")
        for name, odds in self.mutation_odds.items():
            if not 0 <= odds < 1e9:
                raise SettingsError(f"The odds of the mutation '{shown(name)}' are {odds}, but must not be negative.")


FIXED = (
    "data", "size", "flip", "start", "seed", "lease", "durability", "batch",
    "objective", "flops_target", "flops_weight",
)  # fmt: skip
"""What stays as it was when the experiment was made; fitness by two objectives could not be compared."""

_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("seed", 0, 2**63 - 1),
    ("lease", 0.5, 1e6),
    ("population_size", 2, 10**7),
    ("workers", 0, 10**5),
    ("workers_per_gpu", 1, 1000),
    ("mutations", 1, 1000),
    ("recombination_odds", 0.0, 1.0),
    ("learning_rate", 1e-12, 1e6),
    ("width_step", 1, 1024),
    ("affordable", 0, 10**9),
    ("share", 0.0, 1.0),
    ("first_share", 0.0, 1.0),
    ("finish", 0.0, 0.9),
    ("early_crop", 0.2, 1.0),
    ("cooling", 0.0, 1.0),
    ("racing", 0.0, 0.95),
    ("smoothing", 0.0, 0.9),
    ("averaging", 0.0, 1.0),
    ("steps", 0, 10**9),
    ("batch", 2, 100_000),
    ("momentum", 0.0, 0.9999),
    ("weight_decay", 0.0, 1.0),
    ("validation", 0, 10**9),
    ("checkpoint_every", 0.1, 1e6),
    ("max_parameters", 1, 10**12),
    ("max_flops", 0.0, 1e30),
    ("max_milliseconds", 0.0, 1e9),
    ("flops_target", 1.0, 1e30),
    ("flops_weight", 0.0, 10.0),
    ("max_memory", 1, 2**50),
    ("time", 0.0, 1e10),
    ("individuals", 0, 10**12),
    ("flops", 0.0, 1e30),
    ("target", 0.0, 1.0),
    ("plateau", 0, 10**12),
    ("alarm", 0, 10**12),
    ("auto_escape", 0, 10**12),
    ("escape_mutations", 1, 1000),
    ("escape_individuals", 0, 10**12),
    ("escape_time", 0.0, 1e11),
    ("alarm_quiet_until", 0, 10**12),
    ("reset_version", 0, 10**6),
)

PRESETS: dict[str, Settings] = {
    "paper": Settings(),
    # The paper's own rules in numbers for two cores and two minutes. Differs from the paper: in those numbers, and in
    # the damped set-point rule (see evolution/set_point.py).
    "faithful": Settings(
        data="fashion-mini",
        lease=60.0,
        population_size=10,
        workers=0,
        set_point="damped",
        steps=200,
        time=120.0,
    ),
    # For two cores and minutes. Differs from the paper in every line but `data`; `genepool study yield` measures what
    # the departures bring.
    "laptop": Settings(
        data="fashion-mini",
        lease=60.0,
        population_size=4,
        workers=0,
        set_point="damped",
        steps=500,
        time=120.0,
        inheritance="preserving",
        schedule="linear",
        nesterov=True,
        smoothing=0.1,
        precision="auto",
        share=0.05,
        first_share=0.02,
        finish=0.4,
        affordable=400,
        width_step=16,
        redraw=True,
        mutation_odds={
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
    ),
}


def preset(name: str) -> Settings:
    """The settings of that name."""
    if name not in PRESETS:
        raise SettingsError(f"There is no preset '{shown(name)}'; {nearest(name, list(PRESETS))}")
    return PRESETS[name]


def override(settings: Settings, assignments: Iterable[str]) -> Settings:
    """The settings with some changed, each written `name=value`, or `mutation_odds.<name>=value` for one of those."""
    changes: dict[str, Any] = {}
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign:
            raise SettingsError(f"'{shown(assignment)}' is not a setting; write name=value.")
        outer, dot, inner = name.partition(".")
        if dot and outer == "mutation_odds":
            changes.setdefault(outer, dict(settings.mutation_odds))[inner] = text
        else:
            changes[name] = text
    return changed(settings, changes)


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some values replaced; texts are read as the setting's own kind."""
    values = msgspec.to_builtins(settings)
    for name in changes:
        if name not in values:
            raise SettingsError(f"There is no setting '{shown(name)}'; {nearest(name, list(values))}")
    return from_values({**values, **changes})


def from_values(values: Mapping[str, Any]) -> Settings:
    """Settings from plain values, as they stand in files."""
    try:
        return msgspec.convert(dict(values), Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"A setting has a value of the wrong kind: {shown(str(error))}.") from None


def to_values(settings: Settings) -> dict[str, Any]:
    """Settings as plain values."""
    values: dict[str, Any] = msgspec.to_builtins(settings)
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, as plain values."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"The settings file '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise SettingsError(f"The settings file '{shown(path)}' is not TOML: {shown(str(error))}.") from None


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
