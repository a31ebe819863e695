"""`read_foreign` reads an image classifier from elsewhere, checks that its translation answers like it, and returns
DNA and weights."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from genepool.dna import DNA, Shape, requirements
from genepool.errors import DataError, GenepoolError, MissingDependencyError, shown
from genepool.export.facts import MAX_MEMORY
from genepool.export.foreign.editor import Editor
from genepool.export.foreign.graph import Graph
from genepool.export.foreign.images import CHANNELS, Normalisation, split_images
from genepool.export.foreign.onnx_graph import read_onnx
from genepool.export.foreign.origin import PICKLED
from genepool.export.foreign.pt2_graph import read_pt2
from genepool.export.foreign.simplify import simplify
from genepool.export.foreign.state_dict import ARCHITECTURES, read_state_dict
from genepool.export.foreign.translate import Translation, translate
from genepool.nn import Model

TOLERANCE = 1e-4
"""How much outputs may differ; class scores relative to the largest."""
NOISE_IMAGES = 8
MAX_BYTES = 2**33
MAX_FLOPS = 10**12
WEIGHTS = 3  # copies of the weights that exist at the same time
CONVERT = (
    "its form can contain code, so Genepool does not read it; load it where you trust it and convert it with "
    'safetensors.torch.save_file({k: v.contiguous() for k, v in state_dict.items()}, "model.safetensors").'
)


class ForeignModel(NamedTuple):
    """A network from elsewhere."""

    dna: DNA
    tensors: dict[str, Tensor]
    """Named as in the state dict of `genepool.nn.Model`."""
    image: Shape
    classes: int
    mean: tuple[float, ...] | None
    """The mean of each channel on the scale 0..1, which is subtracted; None if the file does not say."""
    std: tuple[float, ...] | None
    """What each channel is divided by after that."""
    largest_difference: float = 0.0
    """The largest difference from the original's probabilities on noise images."""
    architecture: str | None = None
    """The known architecture whose mean and std these are; None if they are in the file or unknown."""


def read_foreign(path: Path, *, architecture: str | None = None, image: Shape | None = None) -> ForeignModel:
    """Read an ONNX file, a program of `torch.export` or the weights of a known architecture.

    `architecture` names the network of a state dict in safetensors, if its tensors' names do not tell. A size of images
    that the file leaves open is `image` or 224x224.
    """
    try:
        return _read(path, architecture, image)
    except OSError as error:
        raise DataError(f"The model '{shown(path)}' cannot be read: {error.strerror or error}.") from None
    except MemoryError:
        raise DataError(f"The model '{shown(path)}' does not fit into memory.") from None
    except MissingDependencyError:
        raise
    except GenepoolError as error:
        raise DataError(f"The model '{shown(path)}' cannot be used: {error}") from None


def _read(path: Path, architecture: str | None, image: Shape | None) -> ForeignModel:
    size = path.stat().st_size
    if not path.is_file() or size == 0:
        raise DataError("it is an empty file." if path.is_file() else "it is not a file.")
    if path.suffix in PICKLED:
        raise DataError(CONVERT)
    if size > MAX_BYTES:
        raise DataError(f"its {size / 1e9:.1f} GB exceed the limit of {MAX_BYTES / 1e9:.1f} GB.")
    if path.suffix == ".onnx":
        return from_graph(read_onnx(path, image))
    if path.suffix == ".pt2":
        return from_graph(read_pt2(path, image))
    if path.suffix == ".safetensors":
        graph, name = read_state_dict(path, architecture, image)
        known = ARCHITECTURES[name]
        return from_graph(graph)._replace(mean=known.mean, std=known.std, architecture=name)
    raise DataError("its name ends neither in .onnx, nor in .pt2, nor in .safetensors.")


def from_graph(graph: Graph) -> ForeignModel:
    """Translate a graph and check that the translation answers like it."""
    editor = Editor(graph)
    normalisation = split_images(editor, graph.is_bytes)
    _, channels, height, width = editor.shapes[editor.input]
    image = Shape(height, width, channels)
    if channels not in CHANNELS:
        raise DataError(f"its images have {channels} channels; Genepool's have 1 (grey) or 3 (red, green, blue).")
    simplify(editor)
    translation = translate(editor)
    needed, batch = requirements(translation.dna, image, translation.classes, 1), graph.shapes[graph.input][0]
    memory, flops = 2 * graph.memory + WEIGHTS * 4 * needed.parameters, batch * needed.forward.total
    if memory > MAX_MEMORY or flops > MAX_FLOPS:
        raise DataError(
            f"it would need {memory / 2**30:.0f} GiB and {flops / 1e9:.0f} GFLOP to be computed; Genepool allows "
            f"{MAX_MEMORY / 2**30:.0f} GiB and {MAX_FLOPS / 1e9:.0f} GFLOP."
        )
    difference = _difference(graph, normalisation, translation, image)
    mean, std = normalisation.mean, normalisation.std
    return ForeignModel(translation.dna, translation.tensors, image, translation.classes, mean, std, difference)


def _difference(graph: Graph, normalisation: Normalisation, translation: Translation, image: Shape) -> float:
    """The largest difference between two probabilities on noise images; a DataError if outputs differ."""
    model = Model(translation.dna, image, translation.classes, torch.Generator().manual_seed(0))
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if expected != {name: tuple(tensor.shape) for name, tensor in translation.tensors.items()}:
        raise DataError("its weights do not fit the DNA that it was translated to.")
    model.load_state_dict(translation.tensors)
    model.eval()
    end = next(node.operator for node in reversed(graph.nodes) if node.output == graph.output)
    largest, rng, batch = 0.0, torch.Generator().manual_seed(0), graph.shapes[graph.input][0]
    with torch.inference_mode():
        for _ in range(max(1, NOISE_IMAGES // batch)):
            images = _noise(graph, normalisation, rng)
            theirs = graph.run(images).float().reshape(batch, -1)  # (batch, classes)
            ours = model(normalisation.of(images))
            largest = max(largest, _compared(theirs, ours, end))
    return largest


def _noise(graph: Graph, normalisation: Normalisation, rng: torch.Generator) -> Tensor:
    shape = graph.shapes[graph.input]
    if graph.is_bytes:
        return torch.randint(0, 256, shape, generator=rng, dtype=torch.uint8)
    if normalisation.is_known:
        return torch.rand(shape, generator=rng) * normalisation.unit
    return torch.randn(shape, generator=rng)


def _compared(theirs: Tensor, ours: Tensor, end: str) -> float:
    """The largest difference between two probabilities; a DataError if scores or probabilities are not alike."""
    if theirs.shape != ours.shape or not bool(torch.isfinite(theirs).all()):
        raise DataError("its outputs for images of noise are not finite numbers, one per class.")
    mine = torch.softmax(ours, 1)
    if end == "softmax":
        difference = allowed = (theirs - mine).abs().max()
        score, limit = float(difference), TOLERANCE
    else:
        difference = (theirs.softmax(1) - mine).abs().max()
        scores = torch.log_softmax(ours, 1) if end == "log_softmax" else ours
        allowed = (theirs - scores).abs().max()
        score, limit = float(allowed), TOLERANCE * max(1.0, float(theirs.abs().max()))
    if not score <= limit:
        raise DataError(
            f"the network that it was translated to does not answer like it (outputs differ by {score:.2g})."
        )
    return float(difference)
