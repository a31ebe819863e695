"""A model as others use it, and whether an exported one answers like the original.

Whether an exported model answers like the original, on every validation image.

A model as strangers use it: images as bytes in, probabilities out. Batch normalisation stays as it was trained.

One network taken out of an exported model, to be evolved on: its weights as individuals inherit them, verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genepool.data.dataset import Dataset
from genepool.dna import requirements
from genepool.errors import DataError, ExportError
from genepool.export.facts import Facts, Member, digest_of
from genepool.nn.batches import Normaliser
from genepool.nn.inheritance import inherit_weights
from genepool.nn.model import Model
from genepool.nn.weights import from_bytes, to_bytes

TOLERANCE = 1e-4
"""Probabilities may differ by this; labels may not differ."""
COMPARED_AT_ONCE = 100

Answers = NDArray[np.float32]
Stranger = Callable[[NDArray[np.uint8]], Answers]
"""A model as its format's own loader gives it."""


class Agreement(NamedTuple):
    """What the comparison found."""

    images: int
    largest_difference: float
    """Between two probabilities."""


def original_answers(models: Sequence[Model], data: Dataset) -> Answers:
    """The probabilities of all validation images as evolution computes them: normalised and folded as for fitness."""
    normalise = Normaliser(data, torch.device("cpu"))
    networks = [model.for_validation() for model in models]
    parts = []
    for pixels in _batches(data):
        x = normalise(pixels)
        parts.append(torch.stack([torch.softmax(network(x), 1) for network in networks]).mean(0).numpy())
    return np.concatenate(parts)


def share_right(answers: Answers, data: Dataset) -> float:
    """The accuracy on the validation images."""
    return float((answers.argmax(1) == np.asarray(data.validation_labels)).mean())


def compare(original: Answers, stranger: Stranger, data: Dataset) -> Agreement:
    """Raises an ExportError unless all labels agree and all probabilities are close.

    The first image also goes alone: a model that only takes the batch it was made with must not pass.
    """
    parts: list[Answers] = []
    for pixels in _batches(data):
        pieces = [pixels] if parts else [pixels[:1], pixels[1:]]
        parts.extend(stranger(piece) for piece in pieces if len(piece))
    answers = np.concatenate(parts)
    if answers.shape != original.shape:
        raise ExportError(f"The exported model gives answers of the shape {answers.shape}, not {original.shape}.")
    difference = np.abs(answers - original).max(axis=1)
    differs = np.flatnonzero((answers.argmax(1) != original.argmax(1)) | ~(difference <= TOLERANCE))
    if len(differs):
        raise ExportError(
            f"The exported model does not answer like the original on {len(differs)} of {len(original)} validation "
            f"images (image {differs[0]}: a probability differs by {difference[differs[0]]:.2g}); nothing was kept."
        )
    return Agreement(len(original), float(difference.max()))


def _batches(data: Dataset) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, len(data.validation_labels), COMPARED_AT_ONCE):
        yield np.array(data.validation_pixels[start : start + COMPARED_AT_ONCE])


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
    if requirements(dna, facts.image, classes, 1).parameters > sum(tensor.numel() for tensor in tensors.values()):
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
