"""The format `onnx`: a graph written layer by layer, for onnxruntime and others. The only module that imports onnx.

It is written with `onnx.helper` rather than traced by `torch.onnx`: the nodes have the names of the layers, it takes
milliseconds and no further packages, and resizing picks the same pixels as torch, unlike ONNX's own `Resize`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genepool.dna import Shape
from genepool.errors import DataError, ExportError, MissingDependencyError, shown
from genepool.export.facts import Facts, from_properties, to_properties
from genepool.export.layer_names import CLASSIFY, Step, Term, steps, tensor_names
from genepool.export.network import Network, Predictor, build_named

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

OPSET, IR_VERSION = 17, 8
"""Old enough for every runtime of recent years."""
MAX_BYTES = 2**31 - 1
"""The limit of a protocol buffer. Larger graphs need external files, which we neither write nor read."""
FLOAT = 1
"""onnx.TensorProto.FLOAT."""
PARTS = ("weight", "bias")  # of the classifier


def write(network: Network, facts: Facts, path: Path) -> None:
    """Write the graph after onnx's own checker has accepted it."""
    onnx = _imported("onnx")
    if 4 * facts.parameters > MAX_BYTES - 2**24:
        count = f"{facts.parameters:,} parameters"
        raise ExportError(f"{count} exceed the 2 GB that an ONNX file can hold; use --format torch.")
    model = _model(network, facts)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def load(path: Path) -> Predictor:
    runtime = _imported("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda pixels: session.run(["probabilities"], {"images": pixels})[0]


def read(path: Path) -> tuple[Facts, Network]:
    """Read the facts and the network; the graph is not run."""
    model = parsed(path)
    facts = from_properties({entry.key: entry.value for entry in model.metadata_props})
    tensors = {tensor.name: _tensor(tensor) for tensor in model.graph.initializer if tensor.data_type == FLOAT}
    return facts, build_named(facts, _prefixes(facts), tensors)


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingDependencyError(
            f"ONNX needs the package '{name}', which is not installed; run: pip install 'genepool[onnx]'."
        ) from None


def parsed(path: Path) -> ModelProto:
    """Parse a file without running anything in it."""
    onnx = _imported("onnx")
    from google.protobuf.message import DecodeError

    size = path.stat().st_size
    if size > MAX_BYTES:
        raise DataError(f"its {size / 1e9:.1f} GB exceed the 2 GB that an ONNX file can hold.")
    try:
        model: ModelProto = onnx.load_model_from_string(path.read_bytes())
    except (DecodeError, ValueError) as error:
        raise DataError(f"it is not a complete ONNX file ({shown(str(error))}).") from None
    return model


def _tensor(tensor: TensorProto) -> Tensor:
    """Read the numbers in the file itself; references to other files are refused."""
    length = 4 * math.prod(tensor.dims)
    if tensor.data_location or len(tensor.raw_data) != length or length <= 0:
        raise DataError(f"its weights '{shown(tensor.name)}' are outside the file or have the wrong length.")
    return torch.frombuffer(bytearray(tensor.raw_data), dtype=torch.float32).view(*tensor.dims)


def _prefixes(facts: Facts) -> list[str]:
    """Return the prefixes of each member's layer names; a single member has none."""
    count = len(facts.members)
    return [f"member{number + 1}." for number in range(count)] if count > 1 else [""]


class _Graph:
    """The nodes and weights added so far; every node has one output of the same name."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.nodes: list[NodeProto] = []
        self.weights: dict[str, TensorProto] = {}
        self._helper, self._numpy = helper, numpy_helper

    def node(self, kind: str, inputs: Iterable[str], name: str, **attributes: Any) -> str:
        self.nodes.append(self._helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, name: str, values: Tensor | NDArray[Any]) -> str:
        array = values.detach().numpy() if isinstance(values, Tensor) else values
        self.weights[name] = self._numpy.from_array(np.ascontiguousarray(array), name)
        return name


def _model(network: Network, facts: Facts) -> ModelProto:
    from onnx import TensorProto, helper

    graph = _Graph()
    x = graph.node("Cast", ["images"], "float", to=TensorProto.FLOAT)
    x = graph.node("Mul", [x, graph.weight("scale", network.scale)], "scaled")
    x = graph.node("Add", [x, graph.weight("shift", network.shift)], "normalised")
    x = graph.node("Transpose", [x], "channels_first", perm=[0, 3, 1, 2])
    answers = []
    for prefix, member, model in zip(_prefixes(facts), facts.members, network.members, strict=True):
        dna = member.decoded()
        state = {name: model.state_dict()[ours] for ours, name in tensor_names(dna, facts.image).items()}
        answers.append(_member(graph, x, prefix, steps(dna, facts.image), state))
    if len(answers) > 1:
        graph.node("Mean", answers, "probabilities")
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", *facts.image])
    result = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(facts.classes)])
    named = helper.make_graph(graph.nodes, "genepool", [images], [result], list(graph.weights.values()))
    model = helper.make_model(
        named, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="genepool"
    )
    helper.set_model_props(model, to_properties(facts))
    return model


def _member(graph: _Graph, images: str, prefix: str, network: tuple[Step, ...], state: Mapping[str, Tensor]) -> str:
    values: list[str] = []
    for step in network:
        name = f"{prefix}layer{step.number}"
        terms = []
        for i, term in enumerate(step.terms):
            own = _own_tensors(term.name, state)
            value = term.edge.onnx(graph, values[term.source], prefix + term.name, own, term.source_shape)
            terms.append(_fitted(graph, value, term, step.shape, f"{name}.{i}"))
        x = terms[0] if terms else images
        for i, term_value in enumerate(terms[1:]):
            x = graph.node("Add", [x, term_value], f"{name}.sum{i}")
        own = _own_tensors(step.name, state)
        values.append(step.vertex.onnx(graph, x, prefix + step.name, own, step.shape))
    pooled = graph.node("Flatten", [graph.node("GlobalAveragePool", [values[-1]], f"{prefix}pool")], f"{prefix}pooled")
    parameters = [graph.weight(f"{prefix}{CLASSIFY}.{part}", state[f"{CLASSIFY}.{part}"]) for part in PARTS]
    scores = graph.node("Gemm", [pooled, *parameters], prefix + CLASSIFY, transB=1)
    return graph.node("Softmax", [scores], f"{prefix}probabilities", axis=1)


def _own_tensors(name: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one layer by their own names."""
    return {key.rpartition(".")[2]: value for key, value in state.items() if key.rpartition(".")[0] == name}


def _fitted(graph: _Graph, x: str, term: Term, wanted: Shape, name: str) -> str:
    """Do what `genepool.nn.model.fit` does."""
    found = term.shape
    if found.channels > wanted.channels:
        ends = {"from": 0, "to": wanted.channels, "axis": 1}
        inputs = [graph.weight(f"{name}.{end}", np.array([value])) for end, value in ends.items()]
        x = graph.node("Slice", [x, *inputs], f"{name}.cut")
    for axis, old, new in ((2, found.height, wanted.height), (3, found.width, wanted.width)):
        if old != new:
            picked = graph.weight(f"{name}.pixels{axis}", _nearest(old, new))
            x = graph.node("Gather", [x, picked], f"{name}.resized{axis}", axis=axis)
    if found.channels < wanted.channels:
        pads = np.array([0, 0, 0, 0, 0, wanted.channels - found.channels, 0, 0])
        x = graph.node("Pad", [x, graph.weight(f"{name}.pads", pads)], f"{name}.padded")
    return x


def _nearest(old: int, new: int) -> NDArray[np.int64]:
    """Return the pixels that torch picks when resizing, from torch itself, because its rounding has quirks."""
    line = torch.arange(old, dtype=torch.float32).view(1, 1, old, 1)
    return torch.nn.functional.interpolate(line, size=(new, 1), mode="nearest").flatten().long().numpy()
