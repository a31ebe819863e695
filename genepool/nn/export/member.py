"""One network taken out of an exported model, to be evolved on: its weights as individuals inherit them, verified."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch

from genepool.errors import DataError
from genepool.nn.export.agreement import TOLERANCE
from genepool.nn.export.facts import Facts
from genepool.nn.export.network import Network
from genepool.nn.inheritance import inherit_weights
from genepool.nn.model import Model
from genepool.nn.weights import from_bytes, to_bytes

IMAGES = 64


def inheritable(facts: Facts, network: Network, member: int) -> bytes:
    """The weights of that member, once a network that evolution builds from them answers like the model.

    The images are noise, which reaches all parts of a network; the data set need not be at hand.
    """
    original = cast(Model, network.members[member])
    weights = to_bytes(original.state_dict())
    again = Model(facts.members[member].decoded(), facts.image, len(facts.classes), torch.Generator().manual_seed(1))
    fresh = inherit_weights(again, from_bytes(weights)).fresh
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, *facts.image), dtype=np.uint8)
    theirs, ours = (Network([model], facts.mean, facts.std).predict(pixels) for model in (original, again))
    if fresh or not np.abs(theirs - ours).max() <= TOLERANCE:
        raise DataError("the network that its DNA and weights make does not answer like it.")
    return weights
