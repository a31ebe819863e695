"""The sections of the settings, and every field in them by its name."""

from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import msgspec
from msgspec import Meta
from msgspec.inspect import Metadata, NoneType, Type, UnionType, type_info

from genepool.data import DataSettings
from genepool.evaluation import Limits, Objective, Training
from genepool.evolution import Breeding, Budget, Escape, FinalPhase, Founders, TrainingBudgetRules


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
    founders: Founders = "population"
    """What an experiment begins with: a whole population of first individuals, or two (Differs from the paper's text:
    as in its listing, children are born as soon as two are alive)."""
    lease: Annotated[float, Meta(ge=0.5, le=1e6, extra={"fixed": True})] = 600.0
    """Seconds without a heartbeat after which a worker's training is taken over."""
    durability: Annotated[Literal["safe", "fast"], Meta(extra={"fixed": True})] = "safe"
    """Whether writes are forced to disk before they count (safe) or not (fast)."""


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The worker processes of an experiment."""

    count: Annotated[int, Meta(ge=1, le=10**5)] | None = None
    """Worker processes; none: by `workers.rule`."""
    rule: Literal["quarter", "cores"] = "quarter"
    """The number of workers if `workers.count` is none: a quarter of the population, or one per core (Differs from the
    paper), or `workers.per_gpu` per GPU."""
    per_gpu: Annotated[int, Meta(ge=1, le=1000)] = 4
    """With the rule `cores`: workers that share a GPU, since small networks leave most of one idle."""

    def number(self, population_size: int) -> int | None:
        """The number of workers for a population of this size; None: as many as the machine has room for."""
        if self.count is not None or self.rule == "cores":
            return self.count
        return max(1, population_size // 4)


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
    kind: Type  # without None and without marks
    optional: bool
    fixed: bool
    example: str = ""
    """How a text with a pattern is written."""


def _field(hint: Any) -> Field:
    info = type_info(hint)
    fixed = isinstance(info, Metadata) and bool((info.extra or {}).get("fixed"))
    kind, optional = _unmarked(info), False
    if isinstance(kind, UnionType):
        info, optional = next(each for each in kind.types if not isinstance(each, NoneType)), True
        kind = _unmarked(info)
    return Field(hint, kind, optional, fixed, _example(info))


def _unmarked(info: Type) -> Type:
    return info.type if isinstance(info, Metadata) else info


def _example(info: Type) -> str:
    examples = (info.extra_json_schema or {}).get("examples", [""]) if isinstance(info, Metadata) else [""]
    return str(examples[0])


SECTIONS: dict[str, type[msgspec.Struct]] = get_type_hints(Settings)
FIELDS: dict[str, Field] = {
    f"{section}.{name}": _field(hint)
    for section, struct in SECTIONS.items()
    for name, hint in get_type_hints(struct, include_extras=True).items()
}
"""Every setting by its name."""
FIXED = tuple(name for name, field in FIELDS.items() if field.fixed)
"""The settings that cannot change after the experiment was created."""
