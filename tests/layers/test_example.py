"""The example of the page "Write a layer" keeps the contract of layers."""

import sys
from pathlib import Path

import pytest

from genepool.layers import LAYERS
from genepool.mutations import MUTATIONS
from genepool.registry import load
from genepool.testing.layer_contract import LayerContract

EXAMPLE = Path(__file__).parents[2] / "examples" / "spatial_gate_layer.py"


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


@pytest.mark.thorough
class TestSpatialGate(LayerContract):
    @pytest.fixture
    def kind(self, spatial_gate):
        return spatial_gate
