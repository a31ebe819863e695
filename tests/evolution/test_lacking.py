"""Workers that lack what the settings ask for, and founders."""

from random import Random

from msgspec.structs import replace

from genepool.dna.zoo import zoo
from genepool.errors import SettingsError
from genepool.evolution import Breeding, Founder
from genepool.evolution.reproduction import dna_of, first_birth
from genepool.population import MemoryPopulation, State


def orphan(world, version):
    stranger = MemoryPopulation(world.store)
    return stranger.hand_over(stranger.create(first_birth(Breeding(), Random(version), version).birth))


def test_an_orphan_whose_settings_are_not_known_here_is_left_to_others(world):
    known, unknown = orphan(world, 1), orphan(world, 2)
    worker = world.worker()

    def evaluator(version):
        if version == 2:
            raise SettingsError("There is no schedule 'cosine'.")
        return world.judge

    worker._evaluator = evaluator
    world.rules = worker.rules = replace(world.rules, barren=True)
    for _ in range(20):
        worker.step()
    states = {individual.id: individual for individual in worker.population.snapshot()}
    assert states[known.id].state is State.ALIVE
    assert states[unknown.id] == unknown  # not even taken over
    assert len(states) == 2 and world.slept  # nobody was born, and it did not spin


def test_the_first_are_the_founder_with_its_weights_and_the_others_their_children(world):
    founder = Founder(zoo("resnet-20"), b"learnt")
    worker = world.worker(founder=founder, reason_to_stop=world.trainings(30))
    worker.run()
    births = [worker.population.read_birth(individual) for individual in world.living()]
    assert all(dna_of(birth) == founder.dna for birth in births if not birth.parents)
    firsts = [seen for seen in world.judge.seen if seen[2] == b"learnt"]
    assert len(firsts) >= 2 and all(dna == founder.dna for dna, *_ in firsts)
    assert len(firsts) < 30 and all(inherited is not None for _, _, inherited, _ in world.judge.seen)


def test_the_record_names_what_was_left_out_of_the_draw(world):
    world.rules = replace(world.rules, breeding=Breeding(odds={"identity": 1.0}), lacking=("leak",))
    worker = world.worker(reason_to_stop=world.trainings(15))
    worker.run()
    births = [worker.population.read_birth(individual) for individual in world.living()]
    assert {birth.lacking for birth in births if birth.parents} == {("leak",)}
    assert {birth.lacking for birth in births if not birth.parents} <= {()}
