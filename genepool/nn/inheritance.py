"""What a child takes over from its parent's weights (the paper's "Weight Inheritance")."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import torch
from torch import Tensor, nn


class Inheritance(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the tensors that were taken over, and of those that were not."""

    inherited: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    """Those of the inherited that came from a second parent."""
    fresh: tuple[str, ...] = ()


def inherit_weights(model: nn.Module, parent: Mapping[str, Tensor]) -> Inheritance:
    """Copies the parent's tensors, batch-norm statistics included, wherever name and shape agree."""
    inherited, fresh = [], []
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name in parent and parent[name].shape == tensor.shape:
                tensor.copy_(parent[name])
                inherited.append(name)
            else:
                fresh.append(name)
    return Inheritance(inherited=tuple(inherited), fresh=tuple(fresh))
