"""The names of all entries in a population directory: only this module composes them or takes them apart.

`docs/reference/store.md` has the grammar. All names are ASCII and matched completely; a name that does not survive
parsing and formatting unchanged is foreign. The digit is the version of the grammar: a name that differs only there was
written by a newer release.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from genepool.population.individual import FREE, Individual, State, attempt_id, claim_of

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: value for value, letter in enumerate(ALPHABET)}
MAX_CLAIM = 99999
MAX_STEP = 10**12
WEIGHTS = "weights.safetensors"
RESULT = "result.json"
UNSYNCED = "result"  # the part that becomes RESULT when its bytes are on the disk
NEW = "new"  # the part that becomes a checkpoint when it is written
FAILURE = "failure.json"
BIRTH = "dna.json"
TAIL_LENGTH = 3  # letters at the end of an ID that determine its shard

_ID = "[0-9a-hjkmnp-tv-z]{25}"
_WHO = "[0-9a-hjkmnp-tv-z]{8}"
_CLAIM = "[1-9][0-9]{0,4}"
_FITNESS = "-?[0-9][0-9.e-]{0,23}"
_WHY = "[a-z]{1,12}"

_NAMES: dict[str, re.Pattern[str]] = {
    "t": re.compile(f"t1_({_ID})_({_WHO})", re.ASCII),
    "T": re.compile(f"T1_({_ID})_({_CLAIM})_([0-9])_({_WHO})", re.ASCII),
    "A": re.compile(f"A1_({_ID})_({_CLAIM})_({_CLAIM}-{_WHO})_({_FITNESS})", re.ASCII),
    "D": re.compile(f"D1_({_ID})_({_CLAIM})_({_CLAIM}-{_WHO})_({_FITNESS})_({_WHO})-({_WHY})", re.ASCII),
    "F": re.compile(f"F1_({_ID})_({_CLAIM})_({_WHO})-({_WHY})", re.ASCII),
    "Q": re.compile(f"Q1_({_ID})_({_WHO})-({_WHY})", re.ASCII),
    "X": re.compile(f"X1_({_ID})_({_WHO})", re.ASCII),
}
_LIVING = ("A1_", "T1_")
_id_in = itemgetter(slice(3, 28))
_OF_AN_ATTEMPT = re.compile(f"({_CLAIM}-{_WHO})[.]([a-z0-9_.-]+)", re.ASCII)
_CHECKPOINT = re.compile("checkpoint-([0-9]{1,13})-([0-9a-f]{32})[.]safetensors", re.ASCII)
_FILE = re.compile("[a-z][a-z0-9_-]{0,40}[.][a-z0-9]{1,16}", re.ASCII)
_CONFIG = re.compile("([0-9]{6})[.]json", re.ASCII)
_LOG = re.compile("([a-z]+)(?:[.]([1-9][0-9]{0,8}))?[.]log", re.ASCII)


def _matches(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern, re.ASCII).fullmatch
    return lambda text: match(text) is not None


is_id, is_who, _is_why = _matches(_ID), _matches(_WHO), _matches(_WHY)
is_hash = _matches("[0-9a-f]{64}")  # whether this is a SHA-256 in lower-case hexadecimal
is_inherited = _matches("inherit[2-9]?[.]safetensors")  # whether this file holds a parent's weights
is_newer = _matches("[tTADFQX][02-9]_[0-9a-z_.-]*")
"""Whether a foreign name differs from this grammar only in the version digit."""

# IDs and shards.


def _letters(number: int, length: int) -> str:
    return "".join([ALPHABET[number >> 5 * place & 31] for place in range(length - 1, -1, -1)])


def make_id(milliseconds: int, random: bytes) -> str:
    """Return an individual's ID: nine letters of time, for people and for a stable order, then 80 random bits."""
    return _letters(milliseconds, 9) + _letters(int.from_bytes(random), 16)


def make_who(random: Callable[[int], bytes]) -> str:
    """Return a worker's ID, made of 40 random bits; never the reserved one."""
    while True:
        who = _letters(int.from_bytes(random(5)), 8)
        if who != FREE:
            return who


def shard_of(identity: str, shards: int) -> int:
    """Return the shard of an individual in all its states; it depends on random letters, so shards fill evenly."""
    value = _VALUES
    return (value[identity[-3]] << 10 | value[identity[-2]] << 5 | value[identity[-1]]) % shards


def beside(one: str, other: str) -> str:
    """Return the other ID, moved into the shard of the first; the time and 65 random bits stay."""
    return other[:-TAIL_LENGTH] + one[-TAIL_LENGTH:]


def shard_name(number: int) -> str:
    return f"{number:04x}"


# Individuals.


def fitness_text(fitness: float) -> str:
    """Return the shortest text that reads back bit for bit; without '+', which some tools escape."""
    return repr(fitness).replace("+", "")


def same_fitness(one: float, other: float) -> bool:
    """Compare bit for bit: -0.0 is not 0.0."""
    return one == other and (one != 0.0 or repr(one) == repr(other))


def encode(individual: Individual) -> str:
    """Return the name of an individual's directory; cached, since one step needs it about twenty times."""
    known: str | None = individual.__dict__.get("name")
    if known is None:
        known = individual.__dict__["name"] = _encode(individual)
    return known


def _encode(i: Individual) -> str:
    if i.claim > MAX_CLAIM:
        raise ValueError(f"Individual {i.id} would reach claim {i.claim}; a name has room for {MAX_CLAIM}.")
    match i.state:
        case State.TRAINING:
            return f"T1_{i.id}_{i.claim}_{i.strikes}_{i.owner}"
        case State.ALIVE:
            return f"A1_{i.id}_{i.claim}_{i.attempt}_{fitness_text(_known(i.fitness))}"
        case State.DEAD:
            return f"D1_{i.id}_{i.claim}_{i.attempt}_{fitness_text(_known(i.fitness))}_{i.owner}-{i.why}"
        case State.FAILED:
            return f"F1_{i.id}_{i.claim}_{i.owner}-{i.why}"
        case State.QUARANTINED:
            return f"Q1_{i.id}_{i.owner}-{i.why}"
        case State.STAGING | State.COLLECTED:
            return f"{i.state.value}1_{i.id}_{i.owner}"


def _known(fitness: float | None) -> float:
    if fitness is None or not math.isfinite(fitness):
        raise ValueError(f"The fitness {fitness} cannot be part of a name; it must be a finite number.")
    return fitness


def parse(name: str) -> Individual | None:
    """Return the individual with this name; None for a foreign entry."""
    pattern = _NAMES.get(name[:1])
    found = pattern.fullmatch(name) if pattern else None
    individual = _parse(name[0], found.groups()) if found else None
    if individual is not None:
        individual.__dict__["name"] = name  # the only one that it can have
    return individual


def _parse(letter: str, g: tuple[str, ...]) -> Individual | None:
    match letter:
        case "T":
            claim, attempt = int(g[1]), attempt_id(int(g[1]), g[3])
            return Individual(
                id=g[0], state=State.TRAINING, claim=claim, strikes=int(g[2]), owner=g[3], attempt=attempt
            )
        case "A" | "D":
            return _parse_with_fitness(g)
        case "F":
            return Individual(id=g[0], state=State.FAILED, claim=int(g[1]), owner=g[2], why=g[3])
        case "Q":
            return Individual(id=g[0], state=State.QUARANTINED, owner=g[1], why=g[2])
        case _:
            return Individual(id=g[0], state=State(letter), owner=g[1])


def _parse_with_fitness(groups: tuple[str, ...]) -> Individual | None:
    identity, claim, attempt, text, *end = groups
    try:
        fitness = float(text)
    except ValueError:
        return None
    # 1e999 reads as infinity and 0.50 would be written as 0.5: this program wrote neither.
    if fitness_text(fitness) != text or claim_of(attempt) > int(claim):
        return None
    alive = Individual(id=identity, state=State.ALIVE, claim=int(claim), attempt=attempt, fitness=fitness)
    return alive.ended(State.DEAD, *end) if end else alive


def living(entries: Iterable[str]) -> list[str]:
    return [name for name in entries if name[:3] in _LIVING]


def by_birth(entries: Iterable[str]) -> list[str]:
    """Sort names of individuals by ID: unlike the order of a listing, it repeats, and so do draws from it."""
    return sorted(entries, key=_id_in)


def valid_why(why: str) -> str:
    if not _is_why(why):
        raise ValueError(f"The reason '{why}' cannot be part of a name; use 1 to 12 lower-case letters.")
    return why


# Files of an individual.


def is_file(text: str) -> bool:
    """Return whether a result may have a file of this name: one plain component that this program does not write."""
    return _FILE.fullmatch(text) is not None and text not in (RESULT, FAILURE)


def of_attempt(attempt: str, part: str) -> str:
    """Return the file name of one part of an attempt; only the owner of the attempt creates such a file."""
    return f"{attempt}.{part}"


def parse_of_attempt(name: str) -> tuple[str, str] | None:
    found = _OF_AN_ATTEMPT.fullmatch(name)
    return (found[1], found[2]) if found and _is_part(found[2]) else None


def _is_part(text: str) -> bool:
    return text in (RESULT, UNSYNCED, NEW, FAILURE) or is_file(text) or parse_checkpoint(text) is not None


def checkpoint_name(step: int, sha256: str) -> str:
    """Return the name of a checkpoint; its step shows progress in a listing, and its hash reveals damage."""
    if not 0 <= step <= MAX_STEP:
        raise ValueError(f"A checkpoint's step is between 0 and {MAX_STEP}, not {step}.")
    return f"checkpoint-{step}-{sha256[:32]}.safetensors"


def parse_checkpoint(name: str) -> tuple[int, str] | None:
    """Return the step and the first half of the hash of a checkpoint; None for any other file."""
    found = _CHECKPOINT.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


def inherited_name(number: int) -> str:
    """Return the file in which a child keeps the weights of parent 0, 1, ... until it is trained."""
    return f"inherit{number + 1 if number else ''}.safetensors"


# Settings, logs and foreign entries.


def staged_name(random: bytes) -> str:
    """Return a private name for a file that is linked into place once it is complete."""
    return f"new-{random.hex()}"


def is_staged(name: str) -> bool:
    return name.startswith("new-")


def config_name(version: int) -> str:
    return f"{version:06d}.json"


def parse_config(name: str) -> int | None:
    found = _CONFIG.fullmatch(name)
    return int(found[1]) if found else None


def log_name(kind: str, number: int) -> str:
    """Return the file of a log: `archive.log`, then `archive.1.log` and so on."""
    return f"{kind}.log" if number == 0 else f"{kind}.{number}.log"


def log_numbers(entries: Iterable[str], kind: str) -> Iterator[int]:
    for found in map(_LOG.fullmatch, entries):
        if found and found[1] == kind:
            yield int(found[2] or 0)


def log_kind(name: str) -> str:
    return name.partition(".")[0]


def is_log(name: str, kinds: Sequence[str]) -> bool:
    return _LOG.fullmatch(name) is not None and log_kind(name) in kinds


def printable(name: str) -> str:
    """Return a foreign name in a form that is safe for terminals and JSON."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8").encode("unicode_escape").decode("ascii")[:300]
