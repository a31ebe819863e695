"""Workers that lack plugins named in the settings, and founders."""

from msgspec.structs import replace

from genepool.dna import zoo
from genepool.errors import SettingsError
from genepool.evolution import Breeding, Founder, dna_of
from genepool.population import MemoryPopulation, State
from tests.evolution.conftest import first_individual


def orphan(world, version):
    other = MemoryPopulation(world.store)
    return other.hand_over(first_individual(other, version, version))


def test_an_orphan_that_needs_a_missing_plugin_is_left_to_other_workers(world):
    known, unknown = orphan(world, 1), orphan(world, 2)
    worker = world.worker()

    def evaluator(version):
        if version == 2:
            raise SettingsError("There is no schedule 'cosine'.")
        return world.judge

    worker.trainer.evaluator = evaluator
    world.rules = worker.rules = replace(world.rules, can_reproduce=False)
    for _ in range(20):
        worker.step()
    states = {individual.id: individual for individual in worker.population.snapshot()}
    assert states[known.id].state is State.ALIVE
    assert states[unknown.id] == unknown  # not even taken over
    assert len(states) == 2 and world.slept  # there was no birth, and no busy loop


def test_first_individuals_are_the_founder_with_its_weights(world):
    founder = Founder(zoo("resnet-20"), b"learnt")
    worker = world.worker(founder=founder, reason_to_stop=world.trainings(30))
    worker.run()
    births = [worker.population.read_birth(individual) for individual in world.living()]
    assert all(dna_of(birth) == founder.dna for birth in births if not birth.parents)
    firsts = [seen for seen in world.judge.seen if seen[2] == (b"learnt",)]
    assert len(firsts) >= 2 and all(dna == founder.dna for dna, *_ in firsts)
    assert len(firsts) < 30 and all(inherited for _, _, inherited, _ in world.judge.seen)


def test_the_record_names_what_was_left_out_of_the_draw(world):
    world.rules = replace(world.rules, breeding=Breeding(odds={"identity": 1.0}), lacking=("leak",))
    worker = world.worker(reason_to_stop=world.trainings(15))
    worker.run()
    births = [worker.population.read_birth(individual) for individual in world.living()]
    assert {birth.lacking for birth in births if birth.parents} == {("leak",)}
    assert {birth.lacking for birth in births if not birth.parents} <= {()}
