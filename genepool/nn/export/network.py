"""A model as strangers use it: images as bytes in, probabilities out. Batch normalisation stays as it was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genepool.dna import cost
from genepool.errors import DataError
from genepool.nn.export.facts import Facts, Member, digest_of
from genepool.nn.model import Model

BATCH = 100


class Network(nn.Module):
    """uint8 images (batch, height, width, channels) in; probabilities (batch, classes) out.

    Of several members the probabilities are averaged. `state_dict` holds the members' weights and nothing else.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, members: Sequence[Model], mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        scale = [1 / (255 * deviation) for deviation in std]
        shift = [-middle / deviation for middle, deviation in zip(mean, std, strict=True)]
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float32), persistent=False)
        self.register_buffer("shift", torch.tensor(shift, dtype=torch.float32), persistent=False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        x = (images.float() * self.scale + self.shift).permute(0, 3, 1, 2)
        answers = [torch.softmax(member(x), 1) for member in self.members]
        return answers[0] if len(answers) == 1 else torch.stack(answers).mean(0)

    def models(self) -> list[Model]:
        """The members."""
        return [member for member in self.members if isinstance(member, Model)]

    def predict(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The probabilities of any number of images."""
        with torch.inference_mode():
            parts = [
                self(torch.from_numpy(np.array(pixels[start : start + BATCH]))).numpy()
                for start in range(0, len(pixels), BATCH)
            ]
        return np.concatenate(parts)


def restore(member: Member, facts: Facts, tensors: Mapping[str, Tensor]) -> Model:
    """One network with its weights."""
    dna, classes = member.decoded(), len(facts.classes)
    # Asked before anything is allocated: a short file may describe a giant.
    if cost(dna, facts.image, classes, 1).parameters > sum(tensor.numel() for tensor in tensors.values()):
        raise DataError(f"it lacks weights of the individual {member.id}.")
    model = Model(dna, facts.image, classes, torch.Generator().manual_seed(0))
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if expected != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise DataError(f"the weights of the individual {member.id} do not fit its DNA.")
    model.load_state_dict(dict(tensors))
    return model


def build(facts: Facts, members: Sequence[Mapping[str, Tensor]]) -> Network:
    """The network that the facts describe, with these weights of its members."""
    models = [restore(member, facts, tensors) for member, tensors in zip(facts.members, members, strict=True)]
    return Network([_plain(model) for model in models], facts.mean, facts.std)


def build_checked(facts: Facts, members: Sequence[Mapping[str, Tensor]]) -> Network:
    """The same from a file: the weights must be those that were written."""
    network = build(facts, members)
    if digest_of(network.state_dict()) != facts.digest:
        raise DataError("its weights are not those that were written: their SHA-256 is another.")
    return network


def _plain(model: Model) -> Model:
    """With all tensors in plain order, not channels-last: files hold them so."""
    for parameter in model.parameters():
        parameter.data = parameter.data.contiguous()
        parameter.requires_grad_(False)
    return model
