"""The example of the page "Write a layer" keeps the contract of layers."""

import sys

import pytest

from genepool.layers import LAYERS
from genepool.mutations import MUTATIONS
from genepool.registry import load
from genepool.testing.layer_contract import LayerContract
from tests.support.page_example import spatial_gate as page_example

EXAMPLE = page_example()


def test_it_is_short():
    assert len(EXAMPLE.read_text().splitlines()) <= 50


@pytest.fixture(scope="module")
def spatial_gate():
    """The kind, which is gone afterwards: other tests need a process without it."""
    load([str(EXAMPLE)])
    kind = LAYERS.get("spatial_gate")
    yield kind
    for registry, name in ((LAYERS, "spatial_gate"), (MUTATIONS, "insert-spatial-gate")):
        del registry._objects[name], registry._loaded[name]
    del sys.modules[kind.__module__]


def test_the_contract_has_no_marks_of_ours():
    """In the folder of a plugin's author, pytest would warn of them."""
    tests = [test for name, test in vars(LayerContract).items() if name.startswith("test_")]
    marks = [mark for test in tests for mark in getattr(test, "pytestmark", [])]
    assert len(tests) > 15 and {mark.name for mark in marks} == {"parametrize"}
    assert not [value for mark in marks for value in mark.args[1] if getattr(value, "marks", ())]


class TestSpatialGate(LayerContract):
    @pytest.fixture
    def kind(self, spatial_gate):
        return spatial_gate
