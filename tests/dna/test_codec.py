"""DNA in and out of JSON, and what is said of JSON that is not a DNA."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genepool.dna import DNA, ZOO, Shape, codec, decode, encode, initial, shapes, zoo
from genepool.errors import GenepoolError, InvalidDNAError, MissingLayerError
from tests.support.networks import chain, conv, random_dna

FUZZ_EXAMPLES = int(os.environ.get("GENEPOOL_FUZZ_EXAMPLES", "1000"))


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_decodes_to_itself(name):
    assert decode(encode(zoo(name))) == zoo(name)


@pytest.mark.parametrize("seed", range(20))
def test_floats_come_back_bit_for_bit(seed):
    dna = random_dna(seed)
    again = decode(encode(dna))
    assert again == dna
    assert encode(again) == encode(dna)


def test_a_body_rate_is_written_only_if_it_is_not_one():
    dna = initial()
    assert dna.body_rate == 1.0 and "body_rate" not in encode(dna)
    slower = initial(body_rate=0.125)
    assert json.loads(encode(slower))["body_rate"] == 0.125 and decode(encode(slower)) == slower != dna


def broken(**changes):
    document = json.loads(encode(chain(conv("a"))))
    document.update(changes)
    return json.dumps(document)


BROKEN = {
    "not JSON": ("{", "not a DNA in JSON"),
    "empty": ("", "not a DNA in JSON"),
    "not an object": ("[1, 2]", "not a DNA in JSON"),
    "no version": ("{}", "version"),
    "newer version": (broken(version=2), "version 2.*reads version 1"),
    "version as text": (broken(version="1"), "version"),
    "unknown field": (broken(colour="red"), "colour"),
    "learning rate as text": (broken(learning_rate="0.1"), r"\$.learning_rate"),
    "learning rate NaN": (broken(learning_rate=float("nan")), "not a DNA in JSON"),
    "huge number": (broken(learning_rate=0).replace(": 0,", ": 1e999,"), "not a DNA in JSON"),
    "body rate of zero": (broken(body_rate=0), "the body rate is 0 but must be between 1e-06 and 1000"),
    "missing edges": (json.dumps({"version": 1, "learning_rate": 0.1, "vertices": []}), "edges"),
    "edge without ends": (broken(edges=[{"type": "pool", "id": "x"}]), "from_vertex"),
    "type that is no text": (broken(edges=[{"type": 7, "id": "x"}]), r"\$.edges\[0\].type"),
    "unknown vertex field": (broken(vertices=[{"type": "linear", "id": "x", "size": 1}]), "size"),
    "numbers out of reach": (broken(vertices=[{"type": "linear", "id": "x", "leakiness": 10**400}]), "not a DNA"),
    "deep nesting": (broken(vertices=0).replace(": 0", ": " + "[" * 100_000), "not a DNA|nested"),
    "not UTF-8": (b'{"version": 1, "x": "\xff"}', "not a DNA in JSON"),
}


def test_layers_of_unknown_kinds_are_kept_but_cannot_be_computed():
    document = json.loads(encode(chain(conv("a"), conv("b"))))
    document["edges"][0] |= {"type": "swirl", "angle": 0.5}
    del document["edges"][0]["filter_half_width"]
    document["vertices"][1] = {"type": "tanh", "id": "v0", "slopes": [1, 2]}
    dna = decode(json.dumps(document))
    assert dna.missing_kinds == ("swirl", "tanh")
    assert dna.in_a_line() == "?swirl+?tanh C3x3+BN+R"
    assert json.loads(encode(dna)) == document
    with pytest.raises(MissingLayerError, match=r"kind 'swirl'.* --plugin"):
        shapes(dna, Shape(8, 8, 3))
    assert not decode(encode(chain(conv("a")))).missing_kinds


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(InvalidDNAError, match=message):
        decode(text)


def test_a_text_of_many_megabytes_is_refused_before_it_is_parsed():
    with pytest.raises(InvalidDNAError, match="too many"):
        decode(b" " * (codec.MAX_BYTES + 1))


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(InvalidDNAError, match=r"gone\.json' cannot be read: No such file"):
        codec.read(tmp_path / "gone.json")
    with pytest.raises(InvalidDNAError, match="cannot be read: Is a directory"):
        codec.read(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(InvalidDNAError, match=r"bad\.json' is not valid"):
        codec.read(tmp_path / "bad.json")


def test_a_file_is_read(tmp_path):
    (tmp_path / "dna.json").write_text(encode(initial()))
    assert codec.read(tmp_path / "dna.json") == initial()


NUMBERS = st.one_of(st.integers(-(10**400), 10**400), st.floats(), st.sampled_from([0, 1, 1e308, 2**63, 2**64]))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def nearly_dna(draw):
    """A valid document with a few values replaced, removed, repeated or added, or a few bytes of it changed."""
    document = json.loads(encode(random_dna(draw(st.integers(0, 30)), longest=12)))
    for _ in range(draw(st.integers(0, 3))):
        place = document
        while isinstance(place, (dict, list)) and place and draw(st.booleans()):
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            if draw(st.booleans()) or not isinstance(place[key], (dict, list)):
                place[key] = draw(st.one_of(JSON, st.sampled_from(["input", "output", "trunk", "conv", "linear"])))
                break
            place = place[key]
        else:
            if isinstance(place, dict):
                place[draw(st.text(max_size=6))] = draw(JSON)
            elif isinstance(place, list) and place:
                place.append(draw(st.sampled_from(place)))
    text = json.dumps(document).encode()
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(text)))
        text = text[:cut] + draw(st.binary(max_size=4)) + text[cut + draw(st.integers(0, 4)) :]
    return text


TEXTS = st.one_of(nearly_dna(), st.binary(max_size=200), JSON.map(lambda value: json.dumps(value).encode()))


@settings(max_examples=FUZZ_EXAMPLES, deadline=None)
@given(TEXTS)
def test_the_decoder_answers_with_a_valid_dna_or_with_our_error(text):
    answers(text)


@pytest.mark.thorough
@settings(max_examples=5000, deadline=None)
@given(TEXTS)
def test_the_decoder_answers_thousands_of_times(text):
    answers(text)


def answers(text):
    try:
        dna = decode(text)
    except GenepoolError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(dna, DNA)
        assert decode(encode(dna)) == dna
