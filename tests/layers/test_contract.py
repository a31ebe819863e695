"""Every kind of layer that ships with the package passes the layer contract."""

import pytest

from genepool.layers import LAYERS, Layer
from genepool.testing.layer_contract import LayerContract

SHIPPED = [name for name, kind in LAYERS.loaded.items() if kind.__module__.startswith("genepool.layers.")]


class TestShippedKinds(LayerContract):
    @pytest.fixture(params=SHIPPED)
    def kind(self, request: pytest.FixtureRequest) -> type[Layer]:
        return LAYERS.get(request.param)
