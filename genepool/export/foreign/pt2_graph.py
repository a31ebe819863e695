"""Reads the graph of a `torch.export` program (.pt2) of any origin: the JSON of the program and its raw weights.

Neither torch's loader nor anything in the file is run. Operators may be those of `torch.export.export` or the core ones
that `run_decompositions` leaves.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import msgspec
import torch

from genepool.dna import Shape
from genepool.errors import DataError, shown
from genepool.export.foreign.archive import TYPES, Archive, Meta
from genepool.export.foreign.graph import TORCH_ERRORS, Builder, Graph
from genepool.export.foreign.images import batch_shape
from genepool.export.foreign.torch_operators import HANDLERS, Call

ASSERTIONS = {
    f"torch.ops.aten.{name}.default" for name in ("_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range")
}
Argument = dict[str, Any]  # one key, such as `as_tensor`


class _Named(msgspec.Struct):
    name: str
    arg: Argument


class _Operation(msgspec.Struct):
    target: str
    inputs: list[_Named]
    outputs: list[Argument]
    name: str | None = None


class _Graph(msgspec.Struct):
    nodes: list[_Operation]
    outputs: list[Argument]
    tensor_values: dict[str, Meta] = {}


class _Signature(msgspec.Struct):
    input_specs: list[Argument]
    output_specs: list[Argument]


class _Module(msgspec.Struct):
    graph: _Graph
    signature: _Signature


class _Program(msgspec.Struct):
    graph_module: _Module


def read_pt2(path: Path, image: Shape | None) -> Graph:
    """Read the graph; `image` is needed if the program leaves the size of images open."""
    try:
        with zipfile.ZipFile(path) as file:
            return _read(Archive(file, path.stat().st_size), image)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"it is not a complete .pt2 archive ({shown(str(error))}).") from None


def _read(archive: Archive, image: Shape | None) -> Graph:
    programs = archive.names("models/", ".json")
    if len(programs) != 1:
        if archive.has_old_form():
            raise DataError("an older torch wrote it, with pickled weights; save it again with torch 2.9 or newer.")
        raise DataError(f"it contains {len(programs)} programs of torch.export instead of one.")
    module = archive.json(programs[0], _Program).graph_module
    reader = _Reader(archive, module)
    reader.declare(image)
    for operation in module.graph.nodes:
        reader.read(operation)
    return reader.builder.graph(reader.output())


class _Reader:
    def __init__(self, archive: Archive, module: _Module) -> None:
        self.builder, self.archive, self.module = Builder(), archive, module

    def declare(self, image: Shape | None) -> None:
        """Declare the weights, the constants and the images."""
        tables = {kind: self.archive.table(kind) for kind in ("weights", "constants")}
        for spec in self.module.signature.input_specs:
            [(kind, given)] = spec.items()
            if kind == "user_input":
                self._declare_images(_tensor_name(given.get("arg", {})), image)
                continue
            if kind not in ("parameter", "buffer", "tensor_constant"):
                raise DataError(f"it has an input of the kind '{shown(kind)}', which is not supported.")
            stored = str(given.get(f"{kind}_name"))
            found = next((place for place, table in tables.items() if stored in table), None)
            if found is None:
                raise DataError(f"it lacks the weights '{shown(stored)}'.")
            tensor = self.archive.tensor(found, stored, tables[found][stored])
            self.builder.constant(_tensor_name(given["arg"], kind), tensor)

    def _declare_images(self, name: str, image: Shape | None) -> None:
        meta = self.module.graph.tensor_values.get(name)
        if meta is None or TYPES.get(meta.dtype, torch.bool) not in (torch.uint8, torch.float32, torch.float64):
            raise DataError("its input is neither floats nor bytes (uint8).")
        sizes = [size.as_int if size.as_int >= 0 else None for size in meta.sizes]
        self.builder.image(name, batch_shape(sizes, image), is_bytes=TYPES[meta.dtype] == torch.uint8)

    def output(self) -> str:
        specs = self.module.signature.output_specs
        if len(specs) != 1 or "user_output" not in specs[0] or len(self.module.graph.outputs) != 1:
            raise DataError(f"it has {len(specs)} outputs; Genepool's networks have one.")
        return _tensor_name(self.module.graph.outputs[0])

    def read(self, operation: _Operation) -> None:
        target = operation.target.removeprefix("torch.ops.").removeprefix("aten.")
        place = f"the node '{shown(operation.name or '?')}' ({shown(target)})"
        handler = HANDLERS.get(target.partition(".")[0]) if operation.target.startswith("torch.ops.aten.") else None
        if operation.target.startswith("_operator."):
            handler = HANDLERS.get(operation.target.removeprefix("_operator."))
        if operation.target in ASSERTIONS:
            return
        if handler is None or not operation.outputs:
            raise DataError(f"{place} has an operator that Genepool has no layer for.")
        try:
            given = {named.name: self._argument(named.arg) for named in operation.inputs}
            handler(Call(self.builder, given, _tensor_name(operation.outputs[0], place), place))
        except TORCH_ERRORS as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)[:200]
            raise DataError(f"{place} cannot be read ({shown(reason)}).") from None

    def _argument(self, argument: Argument) -> Any:
        """A tensor's name, or numbers; names of numbers are replaced by what they are."""
        [(kind, value)] = argument.items()
        if kind == "as_tensor":
            return value["name"]
        if kind == "as_none":
            return None
        if kind in ("as_tensors", "as_optional_tensors"):
            return [_tensor_name(item) for item in value]
        if kind == "as_sym_int":
            return self._integer(value)
        if kind == "as_sym_ints":
            return [self._integer(item) for item in value]
        return value

    def _integer(self, value: Argument) -> int:
        if "as_int" in value:
            return int(value["as_int"])
        return int(self.builder.number(value["as_name"], f"the number '{shown(str(value['as_name']))}'").item())


def _tensor_name(argument: Argument, place: str = "a value") -> str:
    """The name of a tensor, of the first of several, or of a number."""
    if isinstance(argument.get("as_tensors"), list) and argument["as_tensors"]:
        argument = argument["as_tensors"][0]
    for found in (argument.get("as_tensor"), argument.get("as_sym_int"), argument):
        if isinstance(found, dict) and isinstance(name := found.get("name", found.get("as_name")), str):
            return name
    raise DataError(f"{place} is not a tensor.")
