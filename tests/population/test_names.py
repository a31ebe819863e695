"""Names survive parsing and formatting unchanged, and nothing else is taken for a name."""

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genepool.population import FREE, Individual, State
from genepool.population.directory import names

letters = st.sampled_from(names.ALPHABET)
ids = st.text(letters, min_size=25, max_size=25)
whos = st.text(letters, min_size=8, max_size=8)
claims = st.integers(1, names.MAX_CLAIM)
whys = st.from_regex(r"[a-z]{1,12}", fullmatch=True)
fitnesses = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def individuals(draw: st.DrawFn) -> Individual:
    state, claim = draw(st.sampled_from(State)), draw(claims)
    identity, who, why = draw(ids), draw(whos), draw(whys)
    attempt = f"{draw(st.integers(1, claim))}-{draw(whos)}"
    match state:
        case State.STAGING | State.COLLECTED:
            return Individual(id=identity, state=state, owner=who)
        case State.TRAINING:
            strikes = draw(st.integers(0, 9))
            return Individual(
                id=identity, state=state, claim=claim, strikes=strikes, owner=who, attempt=f"{claim}-{who}"
            )
        case State.ALIVE:
            return Individual(id=identity, state=state, claim=claim, attempt=attempt, fitness=draw(fitnesses))
        case State.DEAD:
            return Individual(
                id=identity, state=state, claim=claim, attempt=attempt, fitness=draw(fitnesses), owner=who, why=why
            )
        case State.FAILED:
            return Individual(id=identity, state=state, claim=claim, owner=who, why=why)
        case State.QUARANTINED:
            return Individual(id=identity, state=state, owner=who, why=why)


@given(individuals())
def test_names_round_trip(individual: Individual) -> None:
    name = names.encode(individual)
    assert len(name.encode()) <= 120
    parsed = names.parse(name)
    assert parsed == individual
    assert names.encode(parsed) == name
    assert name[3:28] == individual.id


@given(individuals(), st.data())
def test_a_changed_letter_gives_another_valid_name_or_none(individual: Individual, data: st.DataObject) -> None:
    name = names.encode(individual)
    place = data.draw(st.integers(0, len(name) - 1))
    changed = name[:place] + data.draw(st.characters()) + name[place + 1 :]
    parsed = names.parse(changed)
    assert parsed is None or names.encode(parsed) == changed


@given(individuals(), st.sampled_from(["\n", " ", "\0", "/", ".", "_", "\udcff", "0", "x"]))
def test_nothing_may_precede_or_follow(individual: Individual, extra: str) -> None:
    name = names.encode(individual)
    assert names.parse(extra + name) is None
    parsed = names.parse(name + extra)
    assert parsed is None or names.encode(parsed) == name + extra


@given(st.text())
@example("")
@example("A1_")
def test_any_text_is_foreign_or_round_trips(text: str) -> None:
    parsed = names.parse(text)
    assert parsed is None or names.encode(parsed) == text


IDENTITY, WHO = "0" * 25, "1" * 8


@pytest.mark.parametrize(
    "name",
    [
        f"A1_{IDENTITY}_0_1-{WHO}_0.5",
        f"A1_{IDENTITY}_01_1-{WHO}_0.5",
        f"A1_{IDENTITY}_99999999_1-{WHO}_0.5",
        f"A1_{IDENTITY}_1_2-{WHO}_0.5",
        f"A1_{IDENTITY}_1_1-{WHO}_nan",
        f"A1_{IDENTITY}_1_1-{WHO}_inf",
        f"A1_{IDENTITY}_1_1-{WHO}_1e999",
        f"A1_{IDENTITY}_1_1-{WHO}_0.50",
        f"A1_{IDENTITY}_1_1-{WHO}_1e+22",
        f"A1_{IDENTITY}_1_1-{WHO}_\u0660.\u0665",
        f"A1_{IDENTITY}_1_1-{WHO}_0.5\n",
        f"a1_{IDENTITY}_1_1-{WHO}_0.5",
        f"A1_{IDENTITY[1:]}i_1_1-{WHO}_0.5",
        f"A1_{IDENTITY.replace('0', 'A')}_1_1-{WHO}_0.5",
        f"T1_{IDENTITY}_1_10_{WHO}",
        f"D1_{IDENTITY}_1_1-{WHO}_0.5_{WHO}-Lost",
        f"F1_{IDENTITY}_1_{WHO}-",
        f"X1_{IDENTITY}",
        f"t1_{IDENTITY}_{WHO}_",
        "..",
        "",
    ],
)
def test_near_misses_are_foreign(name: str) -> None:
    assert names.parse(name) is None
    assert not names.is_newer(name)


def test_another_version_digit_is_recognised_as_newer() -> None:
    assert names.is_newer(f"A2_{IDENTITY}_1_1-{WHO}_0.5_more")
    assert not names.is_newer(f"A1_{IDENTITY}_1_1-{WHO}_0.5_more")


@given(fitnesses)
def test_fitness_text_reads_back_bit_for_bit(fitness: float) -> None:
    text = names.fitness_text(fitness)
    assert "+" not in text
    assert repr(float(text)) == repr(fitness)


@pytest.mark.parametrize("fitness", [None, math.nan, math.inf])
def test_no_name_for_a_fitness_that_is_not_finite(fitness: float | None) -> None:
    with pytest.raises(ValueError, match="finite"):
        names.encode(Individual(id=IDENTITY, state=State.ALIVE, claim=1, attempt=f"1-{WHO}", fitness=fitness))


def test_no_name_beyond_the_last_claim() -> None:
    training = Individual(id=IDENTITY, state=State.TRAINING, claim=names.MAX_CLAIM, owner=WHO)
    with pytest.raises(ValueError, match="claim 100000"):
        names.encode(training.handed_over())


@given(st.integers(0, 2**45 - 2), st.binary(min_size=10, max_size=10))
def test_ids_keep_the_order_of_time(milliseconds: int, random: bytes) -> None:
    identity = names.make_id(milliseconds, random)
    assert names.is_id(identity)
    assert names.make_id(milliseconds + 1, bytes(10))[:9] >= identity[:9]


def test_the_reserved_owner_is_never_drawn() -> None:
    value = 0
    for letter in FREE:
        value = value << 5 | names.ALPHABET.index(letter)
    draws = iter([value.to_bytes(5), bytes(5)])
    assert names.make_who(lambda _: next(draws)) == "00000000"


@given(ids, st.sampled_from([1, 2, 16, 128, 1024, 4096]))
def test_shards_are_within_their_number(identity: str, shards: int) -> None:
    assert 0 <= names.shard_of(identity, shards) < shards
    assert re.fullmatch("[0-9a-f]{4}", names.shard_name(names.shard_of(identity, shards)))


@given(st.integers(0, names.MAX_STEP), st.binary())
def test_checkpoint_names_round_trip(step: int, data: bytes) -> None:
    digest = data.hex().ljust(64, "0")[:64]
    assert names.parse_checkpoint(names.checkpoint_name(step, digest)) == (step, digest[:32])


@pytest.mark.parametrize(
    "part",
    [
        names.RESULT,
        names.UNSYNCED,
        names.NEW,
        names.FAILURE,
        names.WEIGHTS,
        "any_other-file.bin",
        names.checkpoint_name(7, "0" * 64),
    ],
)
def test_files_of_an_attempt_are_recognised(part: str) -> None:
    assert names.parse_of_attempt(names.of_attempt(f"12-{WHO}", part)) == (f"12-{WHO}", part)
    assert names.claim_of(f"12-{WHO}") == 12


@pytest.mark.parametrize("part", [names.RESULT, names.UNSYNCED, names.NEW, names.FAILURE])
def test_no_file_of_a_result_is_mistaken_for_another_part(part: str) -> None:
    assert not names.is_file(part)
    assert not names.is_file(names.checkpoint_name(1, "0" * 64))


@pytest.mark.parametrize(
    "name",
    [
        names.BIRTH,
        names.inherited_name(0),
        f"r1-{WHO}",
        f"0-{WHO}.new",
        f"1-{WHO}.",
        f"1-{WHO}.old",
        f"1-{WHO}x.new",
        f"1-{WHO}.a/b.c",
        f"1-{WHO}.new\n",
        f"123456-{WHO}.new",
    ],
)
def test_other_files_belong_to_no_attempt(name: str) -> None:
    assert names.parse_of_attempt(name) is None


@given(st.text())
def test_printable_names_are_plain_ascii(text: str) -> None:
    assert re.fullmatch("[ -~]*", names.printable(text))
