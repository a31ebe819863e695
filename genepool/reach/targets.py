"""What one can ask a way to by name: the hand-designed networks that the paper's first table calls reachable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from genepool.dna import DNA, codec
from genepool.dna.zoo import ZOO, wide_resnet
from genepool.errors import SettingsError, shown
from genepool.registry import nearest


class Target(NamedTuple):
    """A DNA to reach."""

    dna: DNA
    note: str | None = None
    """How it differs from what was asked for."""


PADDED = (
    "Its three shortcuts that change the number of channels are one-to-one, padded with zeros, as in ResNet-110: those "
    "of the original are 1x1 convolutions, and the paper's add-skip makes identities only."
)


def target(name: str, image_channels: int = 3) -> Target:
    """The network of that name, or the one in the file of that name."""
    if name == "wrn-28-10":
        return Target(wide_resnet(28, 10, image_channels, projections=False), PADDED)
    if name in ZOO:
        return Target(ZOO[name](image_channels))
    if name.endswith(".json") or os.path.exists(name):  # noqa: PTH110 - which never raises
        return Target(codec.read(Path(name)))
    raise SettingsError(f"'{shown(name)}' is neither a file nor a network of the zoo; {nearest(name, list(ZOO))}")
