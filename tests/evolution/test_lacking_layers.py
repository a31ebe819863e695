"""Workers that lack a kind of layer leave the individuals that have it to other workers."""

import json
import logging

import msgspec
import pytest
from msgspec.structs import replace

from genepool.dna import decode, encode, initial
from genepool.evolution import Breeding, BudgetUse, FinalPhase, Founder, dna_of
from genepool.layers import LAYERS, Vertex
from genepool.population import Birth, MemoryPopulation, State
from tests.evolution.conftest import first_individual, next_job

SWIRL = json.loads(encode(initial()))
SWIRL["vertices"].insert(1, {"type": "swirl", "id": "s", "turns": 3})
SWIRL["edges"] = [
    {"type": "identity", "id": "a", "from_vertex": "input", "to_vertex": "s"},
    {"type": "identity", "id": "trunk", "from_vertex": "s", "to_vertex": "output"},
]
DNA = json.dumps(SWIRL).encode()


def swirls(world, *fitness, version=1):
    """Living individuals with a layer that this process lacks."""
    other = MemoryPopulation(world.store)
    births = [Birth(dna=msgspec.Raw(DNA), mutation_seed=0, training_seed=1, settings_version=version) for _ in fitness]
    found = [other.create(birth) for birth in births]
    for individual, value in zip(found, fitness, strict=True):
        other.finish(individual, fitness=value, files={"weights.safetensors": b"w"})
    return {individual.id for individual in found}


def known(world, *fitness):
    other = MemoryPopulation(world.store)
    for number, value in enumerate(fitness):
        other.finish(first_individual(other, number), fitness=value, files={"weights.safetensors": b"w"})


def states(world):
    return {individual.id: individual.state for individual in MemoryPopulation(world.store).snapshot()}


def steps(world, count, **options):
    """Let a worker take this many steps of its loop."""
    left = iter(range(count))
    worker = world.worker(reason_to_stop=lambda: None if next(left, None) is not None else "enough", **options)
    worker.run()
    return worker


def test_a_winner_that_cannot_be_reproduced_costs_the_loser_nothing(world, caplog):
    swirls(world, *([0.5] * 10))
    before = states(world)
    with caplog.at_level(logging.WARNING):
        steps(world, 40)
    assert states(world) == before and not world.judge.seen
    assert len(world.slept) == 40  # no busy loop
    [said] = [record.getMessage() for record in caplog.records]
    assert "lacks the layer 'swirl' and leaves individuals that have it to other workers" in said and "--plugin" in said


@pytest.mark.parametrize("recombination", ["off", "weights", "fusion", "probabilities"])
def test_the_others_evolve_on(world, recombination):
    world.rules = replace(world.rules, breeding=Breeding(recombination=recombination, recombination_odds=0.5))
    theirs = swirls(world, 0.3, 0.4, 0.9)
    known(world, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6)
    steps(world, 120)
    seen = states(world)
    assert len(world.judge.seen) > 20
    assert all(not dna.missing_kinds for dna, *_ in world.judge.seen)
    assert {seen.get(one, State.DEAD) for one in theirs} <= {State.ALIVE, State.DEAD}
    assert not world.store.counts[State.QUARANTINED] and not world.store.counts[State.FAILED]
    assert max(theirs) in seen and seen[max(theirs)] is State.ALIVE  # the fittest is never a loser
    births = [MemoryPopulation(world.store).read_birth(one) for one in world.living()]
    assert not [birth for birth in births if theirs & {*birth.parents}]


def test_an_orphan_is_left_and_the_worker_does_something_else(world, caplog):
    other = MemoryPopulation(world.store)
    orphan = other.hand_over(other.create(Birth(dna=msgspec.Raw(DNA), mutation_seed=0, training_seed=1)))
    steps(world, 30)
    assert next(i for i in MemoryPopulation(world.store).snapshot() if i.id == orphan.id) == orphan
    assert len(world.judge.seen) >= 20
    assert sum("lacks the layer 'swirl'" in record.getMessage() for record in caplog.records) == 1


def test_neither_first_individuals_nor_copies_are_made(world):
    steps(world, 20, founder=Founder(decode(DNA)))
    assert not states(world) and len(world.slept) == 20


def test_a_reset_of_weights_leaves_them_as_they_are(world):
    swirls(world, *([0.5] * 6))
    before = states(world)
    world.rules = replace(world.rules, version=2, reset_version=2)
    steps(world, 20)
    assert states(world) == before and len(world.slept) == 20


def test_in_the_final_phase_nothing_dies_for_a_copy_that_is_not_made(world):
    known(world, *([0.2] * 12))
    swirls(world, 0.9)
    before = states(world)
    world.rules = replace(world.rules, final_phase=FinalPhase(share=0.5))
    use = BudgetUse(used=900.0, total=1000.0)
    steps(world, 10, budget_use=lambda: use, final_phase_threads=1)
    assert states(world) == before and world.slept


def test_a_step_reads_its_parents_birth_record_once(world):
    worker, reads = steps(world, 40), []
    read = worker.population.read_birth

    def read_birth(individual):
        reads.append(individual.id)
        return read(individual)

    worker.population.read_birth = read_birth
    before = len(world.judge.seen)
    for _ in range(20):
        worker.step()
    children = len(world.judge.seen) - before
    assert children > 5 and len(reads) == children


def test_a_kind_that_appears_while_the_worker_runs_is_used(world):
    swirls(world, *([0.5] * 10))
    worker = steps(world, 5)
    assert not world.judge.seen

    class Swirl(Vertex, frozen=True, kw_only=True, tag="swirl"):
        turns: int = 1

    LAYERS.register("swirl")(Swirl)
    try:
        job = next(filter(None, (next_job(worker) for _ in range(50))))
        assert dna_of(job.birth).vertex["s"] == Swirl(id="s", turns=3)
    finally:
        del LAYERS._objects["swirl"], LAYERS._loaded["swirl"]
