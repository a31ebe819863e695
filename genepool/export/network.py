"""The network of an exported model (uint8 images in, probabilities out), and the comparison with the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genepool.data import Dataset
from genepool.dna import requirements
from genepool.errors import DataError, ExportError
from genepool.export.facts import Facts, Member, digest_of
from genepool.export.layer_names import tensor_names
from genepool.layers import blaming
from genepool.nn import Model, Normaliser, from_bytes, inherit_weights, to_bytes

TOLERANCE = 1e-4
"""The tolerance for probabilities. Labels must agree."""
BATCH = 100

Answers = NDArray[np.float32]
Predictor = Callable[[NDArray[np.uint8]], Answers]  # a model as loaded by its format's own library


def predictor(module: Callable[[Tensor], Tensor]) -> Predictor:
    def answer(pixels: NDArray[np.uint8]) -> Answers:
        with torch.inference_mode():
            return module(torch.from_numpy(pixels)).numpy()

    return answer


class Agreement(NamedTuple):
    images: int
    largest_difference: float
    """The largest difference between two probabilities."""


def original_answers(models: Sequence[Model], data: Dataset) -> Answers:
    """Return the probabilities of all validation images, computed as for the fitness."""
    normalise = Normaliser(data, torch.device("cpu"))
    networks = [model.for_validation() for model in models]
    parts = []
    for pixels in _batches(data.validation_pixels):
        x = normalise(pixels)
        parts.append(torch.stack([torch.softmax(network(x), 1) for network in networks]).mean(0).numpy())
    return np.concatenate(parts)


def accuracy(chosen: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    return float((chosen == np.asarray(labels)).mean())


def compare(original: Answers, predictor: Predictor, data: Dataset) -> Agreement:
    """Raise an ExportError unless all labels agree and all probabilities are close. The first image is a batch of its
    own, so that a model with a fixed batch size does not pass.
    """
    parts: list[Answers] = []
    for pixels in _batches(data.validation_pixels):
        pieces = [pixels] if parts else [pixels[:1], pixels[1:]]
        parts.extend(predictor(piece) for piece in pieces if len(piece))
    answers = np.concatenate(parts)
    if answers.shape != original.shape:
        raise ExportError(f"The exported model returns the shape {answers.shape} instead of {original.shape}.")
    difference = np.abs(answers - original).max(axis=1)
    differs = np.flatnonzero((answers.argmax(1) != original.argmax(1)) | ~(difference <= TOLERANCE))
    if len(differs):
        raise ExportError(
            f"The exported model does not answer like the original on {len(differs)} of {len(original)} validation "
            f"images (image {differs[0]}: a probability differs by {difference[differs[0]]:.2g}); nothing was written."
        )
    return Agreement(len(original), float(difference.max()))


def _batches(pixels: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    return (np.array(pixels[start : start + BATCH]) for start in range(0, len(pixels), BATCH))


class Network(nn.Module):
    """uint8 images (batch, height, width, channels) in; probabilities (batch, classes) out. The probabilities of
    several members are averaged. `state_dict` holds only the members' weights.
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
        x = (images.float() * self.scale + self.shift).permute(0, 3, 1, 2)  # (batch, channels, height, width)
        answers = [torch.softmax(member(x), 1) for member in self.members]  # (batch, classes) each
        return answers[0] if len(answers) == 1 else torch.stack(answers).mean(0)

    def models(self) -> list[Model]:
        return [member for member in self.members if isinstance(member, Model)]

    def predict(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the probabilities (n, classes) of any number of images."""
        with blaming(layer for model in self.models() for layer in model.dna.layers):
            return np.concatenate([*map(predictor(self), _batches(pixels))])


def restore(member: Member, facts: Facts, tensors: Mapping[str, Tensor]) -> Model:
    dna, classes = member.decoded(), len(facts.classes)
    # Checked before anything is allocated: a short file may describe a giant network.
    if requirements(dna, facts.image, classes, 1).parameters > sum(tensor.numel() for tensor in tensors.values()):
        raise DataError(f"it lacks weights of the individual {member.id}.")
    model = Model(dna, facts.image, classes, torch.Generator().manual_seed(0))
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if expected != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise DataError(f"the weights of the individual {member.id} do not fit its DNA.")
    model.load_state_dict(dict(tensors))
    return model


def build(facts: Facts, members: Sequence[Mapping[str, Tensor]]) -> Network:
    models = [restore(member, facts, tensors) for member, tensors in zip(facts.members, members, strict=True)]
    return Network([_plain(model) for model in models], facts.mean, facts.std)


def build_named(facts: Facts, prefixes: Sequence[str], tensors: Mapping[str, Tensor]) -> Network:
    """Build a network from tensors with readable names, each behind the prefix of its member."""
    members = []
    for prefix, member in zip(prefixes, facts.members, strict=True):
        names = tensor_names(member.decoded(), facts.image)
        members.append({ours: tensors[prefix + name] for ours, name in names.items() if prefix + name in tensors})
    return build_checked(facts, members)


def build_checked(facts: Facts, members: Sequence[Mapping[str, Tensor]]) -> Network:
    """Build a network read from a file, whose weights must have the recorded digest."""
    network = build(facts, members)
    if digest_of(network.state_dict()) != facts.digest:
        raise DataError("its weights are not those that were written: their SHA-256 differs.")
    return network


def _plain(model: Model) -> Model:
    """Make all tensors contiguous instead of channels-last, as in the files."""
    for parameter in model.parameters():
        parameter.data = parameter.data.contiguous()
        parameter.requires_grad_(False)
    return model


def inheritable(facts: Facts, network: Network, member: int) -> bytes:
    """Return the weights of a member after checking that a network that inherits them answers like the model. The
    images are noise, which reaches all parts of a network, so the data set is not needed.
    """
    original = cast(Model, network.members[member])
    weights = to_bytes(original.state_dict())
    again = Model(facts.members[member].decoded(), facts.image, len(facts.classes), torch.Generator().manual_seed(1))
    fresh = inherit_weights(again, from_bytes(weights)).fresh
    pixels = np.random.default_rng(0).integers(0, 256, (64, *facts.image), dtype=np.uint8)
    theirs, ours = (Network([model], facts.mean, facts.std).predict(pixels) for model in (original, again))
    if fresh or not np.abs(theirs - ours).max() <= TOLERANCE:
        raise DataError("the network built from its DNA and weights does not answer like the model.")
    return weights
