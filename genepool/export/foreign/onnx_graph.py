"""Reads the graph of an ONNX file of any origin. The file is parsed, not run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from genepool.dna import Shape
from genepool.errors import DataError, shown
from genepool.export.foreign.graph import TORCH_ERRORS, Builder, Graph
from genepool.export.foreign.images import batch_shape
from genepool.export.foreign.onnx_operators import HANDLERS, Call
from genepool.export.foreign.onnx_tensors import FLOATS, Beside, read_tensor
from genepool.export.onnx_file import parsed

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

UINT8 = 2


def read_onnx(path: Path, image: Shape | None) -> Graph:
    """Read the graph; `image` is the size of images if the file leaves it open."""
    model, builder, beside = parsed(path), Builder(), Beside(path.parent)
    for tensor in model.graph.initializer:
        builder.constant(tensor.name, read_tensor(tensor, beside))
    _declare_input(builder, model, image)
    for number, proto in enumerate(model.graph.node):
        _read(builder, proto, number)
    if len(model.graph.output) != 1:
        raise DataError(f"it has {len(model.graph.output)} outputs; Genepool's networks have one.")
    return builder.graph(model.graph.output[0].name)


def _declare_input(builder: Builder, model: ModelProto, image: Shape | None) -> None:
    inputs = [value for value in model.graph.input if not builder.is_constant(value.name)]
    if len(inputs) != 1:
        raise DataError(f"it has {len(inputs)} inputs; Genepool's networks take images only.")
    kind = inputs[0].type.tensor_type
    sizes = [size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim]
    if kind.elem_type not in (UINT8, *FLOATS):
        raise DataError("its input is neither floats nor bytes (uint8).")
    builder.image(inputs[0].name, batch_shape(sizes, image), is_bytes=kind.elem_type == UINT8)


def _read(builder: Builder, proto: NodeProto, number: int) -> None:
    from onnx import helper

    kind = f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type
    place = f"the node '{shown(proto.name or str(number))}' ({shown(kind)})"
    if kind not in HANDLERS or not proto.output:
        raise DataError(f"{place} has an operator that Genepool has no layer for.")
    try:
        attributes = {each.name: helper.get_attribute_value(each) for each in proto.attribute}
        HANDLERS[kind](Call(builder, kind, attributes, list(proto.input), proto.output[0], place))
    except TORCH_ERRORS as error:
        raise DataError(f"{place} cannot be read ({shown(str(error)[:200])}).") from None
