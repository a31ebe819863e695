"""Model files with random damage: every one is read rightly or refused in a sentence, and nothing else happens."""

import json
import os
import zipfile
from random import Random

import pytest

from genepool.dna import Shape
from genepool.errors import DataError
from genepool.export import FORMATS, read_model
from tests.export.test_export import NAMES, dataset, taken
from tests.support.networks import chain, conv

EXAMPLES = int(os.environ.get("GENEPOOL_FUZZ_EXAMPLES", "200"))
ODD = [None, 0, -1, 2**31, 10**30, 1e308, float("nan"), "", "x" * 1000, [], {}, [1], True, "{}", 3, [[]]]
TABLES = ("archive/extra/genepool.json", "archive/data/weights/model_weights_config.json")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    dna = chain(conv("a", depth_factor=4.0, stride_scale=1.0), conv("b"))
    facts, _, network = taken([dna], dataset(Shape(8, 8, 1), ("no", "yes")))
    for name, form in FORMATS.items():
        form.write(network, facts, folder / NAMES[name])
    return folder


@pytest.mark.parametrize("name", ["model.pt2", "model.onnx", "model/weights.safetensors"])
def test_fuzz_damaged_model_files(name, models, tmp_path):
    rng, whole = Random(name if EXAMPLES == 200 else None), (models / name).read_bytes()
    spoilt = (tmp_path / "spoilt").with_suffix((models / name).suffix)
    refused = 0
    for _ in range(EXAMPLES):
        spoilt.write_bytes(damaged(whole, rng))
        refused += is_refused(spoilt)
    assert refused > EXAMPLES / 2


def test_fuzz_archives_that_are_whole_but_say_odd_things(models, tmp_path):
    rng = Random(1 if EXAMPLES == 200 else None)
    with zipfile.ZipFile(models / "model.pt2") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    refused = 0
    for _ in range(EXAMPLES):
        table = rng.choice(TABLES)
        with zipfile.ZipFile(tmp_path / "odd.pt2", "w") as archive:
            for name, data in members.items():
                archive.writestr(name, json.dumps(odd(json.loads(data), rng)) if name == table else data)
        refused += is_refused(tmp_path / "odd.pt2")
    assert refused > EXAMPLES / 2


def is_refused(path):
    """Any other exception ends the test."""
    try:
        read_model(path)
    except DataError as error:
        assert path.name in str(error) and "\n" not in str(error)
        return True
    return False


def damaged(data, rng):
    if rng.random() < 0.3:
        return data[: rng.randrange(len(data))]
    data = bytearray(data)
    for _ in range(rng.choice((1, 2, 8, 64))):
        place, length = rng.randrange(len(data)), rng.randrange(1, 9)
        data[place : place + rng.choice((0, length))] = rng.randbytes(rng.choice((0, length)))
    return bytes(data)


def odd(value, rng):
    """The same with something odd at one place."""
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        changed = {} if rng.random() < 0.2 else {key: odd(value[key], rng)}
        return {name: item for name, item in value.items() if name != key} | changed
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], odd(value[place], rng), *value[place + 1 :]]
    return rng.choice(ODD)
