"""Foreign entries never stop a worker: each is left alone and reported once, or quarantined; all others live on."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from genepool.errors import DataError, StepAbandoned
from genepool.population import DirectoryPopulation, DirectoryView, Files, State, check_directory
from genepool.population.directory.log import read_events
from genepool.testing import Clock, make_weights
from tests.support.foreign_entries import TRAP, Case, Place, cases, healthy
from tests.support.toy_worker import ToyWorker

LEASE = 100.0
CASES = list(cases())


def test_the_corpus_is_large_and_has_no_duplicates() -> None:
    assert len(CASES) >= 200
    assert len({name for name, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_foreign_entry_is_contained(tmp_path: Path, case: Case) -> None:
    clock = Clock()
    files = Files(durability="fast", monotonic=clock)
    DirectoryPopulation.establish(tmp_path, population_size=6, lease=LEASE, files=files)
    place = healthy(tmp_path, DirectoryPopulation.open(tmp_path, files=files))
    bystander = next(i for i in place.worker.snapshot() if i.fitness == 0.4)
    case[1](place)

    look_at_everything(tmp_path, files)
    worker = ToyWorker(DirectoryPopulation.open(tmp_path, files=files), random.Random(1), 6, {})
    read_everything(worker.population)
    for _ in range(14):
        clock.advance(LEASE / 5)
        worker.try_step()
    assert sum(worker.try_step() for _ in range(8)) >= 4

    is_known(bystander.id, place, worker.population)
    report = check_directory(tmp_path, files=files, finished=worker.finished)
    # Two copies of one individual live and die separately; that is reported and does no other harm.
    allowed = {"I2", "I4"} if case[0] == "duplicate-id" else set()
    assert {violation.invariant for violation in report.violations} <= allowed
    notes = [event.place for who, event in read_events(files, f"{tmp_path}/workers") if event.what == "foreign"]
    assert set(report.foreign) <= set(notes)
    assert len(notes) <= 2 * len(set(notes)), "each of two workers reports a foreign entry once"
    assert not TRAP.exists()
    assert Path("/etc/passwd").exists()


def look_at_everything(path: Path, files: Files) -> None:
    """Let an observer read everything first; it may report damage, but it changes nothing."""
    before = sorted(os.walk(path))
    view = DirectoryView.open(path, files=files)
    for individual in view.snapshot():
        for read in (view.read_birth, view.read_result, view.weights, view.inherited_weights, view.checkpoint):
            try:
                read(individual)
            except (StepAbandoned, DataError):
                continue
    check_directory(path, files=files)
    assert sorted(os.walk(path)) == before


def read_everything(worker: DirectoryPopulation) -> None:
    """Let a worker read everything; damaged individuals are quarantined and only end the step."""
    for individual in worker.snapshot():
        if individual.state in (State.STAGING, State.COLLECTED, State.QUARANTINED):
            continue
        reads = [worker.read_birth]
        if individual.state is State.TRAINING:
            reads += [worker.inherited_weights, worker.checkpoint]
        elif individual.state is not State.FAILED:
            reads += [worker.read_result, worker.weights, worker.verify]
        for read in reads:
            try:
                read(individual)
            except StepAbandoned:
                break


def is_known(identity: str, place: Place, worker: DirectoryPopulation) -> None:
    if identity in {fossil.id for fossil in worker.fossils()}:
        return
    for individual in worker.snapshot():
        if individual.id == identity and individual.state is not State.QUARANTINED:
            assert individual.state is State.FAILED or worker.weights(individual) in (make_weights(), None)
            return
    raise AssertionError(f"{identity} was lost")
