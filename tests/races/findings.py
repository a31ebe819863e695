"""The findings after a storm: figures for people, and every violation.

There are three independent oracles: the checker of the store, the testimonies of the workers, and a repetition of every
training from the recorded DNA, seeds and parents.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from genepool.analysis import Row
from genepool.dna import decode
from genepool.evaluation import TrainingRequest
from genepool.population import FREE, WEIGHTS, DirectoryView, Files, State, check_directory
from genepool.population.directory.contents import sha256
from genepool.population.directory.log import read_events, read_logs
from genepool.population.directory.workers import Info
from genepool.population.individual import claim_of
from genepool.testing import ToyEvaluator, toy_fitness
from tests.races.plan import Plan
from tests.races.storm_worker import read_testimonies
from tests.support.records import records

FAULTS = {
    "lost": ("I1", "I12"),
    "doubled": ("I2", "I4", "I5"),
    "damaged": ("I3", "I6", "I13", "weights"),
    "orphaned": ("I7", "I9"),
    "out of bounds": ("I8",),
    "strange": ("I10", "I11", "exit"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The figures in the order of printing, and the violations."""

    figures: Mapping[str, int | float | str]
    faults: list[tuple[str, str]]
    """Invariant and description of each violation."""


def is_settled(path: Path, plan: Plan, alive: Collection[int]) -> bool:
    """Return whether nothing is owned by a dead process any more and the population has its size."""
    sweep = DirectoryView.open(path).sweep()
    owned = [i for i in sweep.individuals if i.state in (State.TRAINING, State.STAGING, State.COLLECTED)]
    least, most = plan.bounds
    return least <= sweep.census().living <= most and all(_process_of(path, i.owner) in alive for i in owned)


def _process_of(path: Path, who: str) -> int | None:
    try:
        return msgspec.json.decode((path / "workers" / who / "info.json").read_bytes(), type=Info).process
    except OSError:  # it has no owner
        return None


def judge(path: Path, testimonies: Path, plan: Plan, unexpected_exits: list[str]) -> Verdict:
    """Judge a population whose workers have all been stopped in an orderly way."""
    finished, races = read_testimonies(testimonies)
    report = check_directory(path, settled=True, bounds=plan.bounds, finished=finished)
    view = DirectoryView.open(path)
    rows = list(records(view))
    faults = [(broken.invariant, f"{broken.place}: {broken.text}") for broken in report.violations]
    faults += [("exit", sentence) for sentence in unexpected_exits]
    faults += [("I10", f"{place} is foreign") for place in report.foreign]
    faults += [("I3", f"{i.id} is in quarantine") for i in view.snapshot() if i.state is State.QUARANTINED]
    faults += [("I9", f"{i.id} has no owner") for i in view.snapshot() if i.state is State.TRAINING and i.owner != FREE]
    faults += _trained_wrongly(rows, plan)
    counted = Counter(name for invariant, _ in faults for name, several in FAULTS.items() if invariant in several)
    figures = {
        "finished, as testified": len(finished),
        **_event_counts(path),
        "lost races": races,
        "failed": sum(row.individual.state is State.FAILED for row in rows),
        "trainings repeated": len(rows),
        **{name: counted[name] for name in FAULTS},
        "archived twice": _archive_lines(path) - report.fossils,
        "torn records": len(report.damaged_lines),
        "alive + training": report.census.living,
    }
    return Verdict(figures=figures, faults=faults)


def _event_counts(path: Path) -> dict[str, int]:
    """Count what the workers did by their event logs; a killed worker may have lost its last line."""
    events = [event for _, event in read_events(Files(), f"{path}/workers")]
    counts = Counter(event.what for event in events)
    adopted = sum(event.what == "finish" and claim_of(event.attempt) != event.claim for event in events)
    return {
        "born": counts["create"],
        "killed in tournaments": counts["kill"],
        "collected": counts["collect"],
        "handed over": counts["hand-over"],
        "taken over": counts["take-over"],
        "results adopted": adopted,
    }


def _archive_lines(path: Path) -> int:
    return sum(line is not None for _, line in read_logs(Files(), f"{path}/workers", "archive"))


def _trained_wrongly(rows: list[Row], plan: Plan) -> list[tuple[str, str]]:
    """Return the individuals whose weights or fitness do not follow from their DNA, seed and ancestors."""
    births = {record.individual.id: record.birth for record in rows}
    evaluator, weights = ToyEvaluator(steps=plan.steps), dict[str, bytes | None]()

    def repeat(identity: str) -> bytes | None:
        line = [identity]
        while line[-1] not in weights and births[line[-1]].parents:
            line.append(births[line[-1]].parents[0])
        for one in reversed([each for each in line if each not in weights]):
            birth = births[one]
            inherited = tuple(filter(None, (weights[parent] for parent in birth.parents)))
            weights[one] = evaluator.evaluate(
                TrainingRequest(decode(bytes(birth.dna)), seed=birth.training_seed, inherited=inherited)
            ).weights
        return weights[identity]

    wrong = []
    for record in rows:
        if record.result is not None:
            promised = record.result.files[WEIGHTS].sha256
            if promised != sha256(repeat(record.individual.id) or b""):
                wrong.append(("weights", f"{record.individual.id} does not have the weights of an unbroken training"))
            if record.result.fitness != toy_fitness(decode(bytes(record.birth.dna))):
                wrong.append(("weights", f"{record.individual.id} does not have the fitness of its DNA"))
    return wrong
