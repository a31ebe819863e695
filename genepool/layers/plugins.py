"""Kinds of layers from plugins: what they must be to be registered, and whose fault an error in a network is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import msgspec
from msgspec import inspect

from genepool.errors import GenepoolError, LayerError, SettingsError, shown
from genepool.layers.base import Edge, Layer, Vertex

RESERVED = "missing"
_is_name = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII).fullmatch  # it becomes part of names in exported models
_SIMPLE = (inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.StrType, inspect.LiteralType)


def require_kind(name: str, kind: object) -> None:
    """Raise SettingsError if the class cannot be the kind of layer of that name."""
    if fault := _fault(name, kind):
        raise SettingsError(f"The layer '{shown(name)}' cannot be registered: {fault}.")


def _fault(name: str, kind: object) -> str:
    if not (isinstance(kind, type) and issubclass(kind, Edge | Vertex)):
        return f"{shown(getattr(kind, '__name__', repr(kind)))} is not a class derived from Edge or Vertex"
    config = kind.__struct_config__
    if not _is_name(name) or name == RESERVED:
        return "its name must be up to 40 small letters, digits and '_', and not 'missing'"
    if config.tag != name:
        return f"the class {kind.__name__} has the tag '{shown(str(config.tag))}'; add tag=\"{name}\" to its first line"
    if not config.frozen:
        return f"the class {kind.__name__} can be changed; add frozen=True to its first line"
    try:
        fields = {field.encode_name: field for field in _fields(kind)}
    except Exception as error:  # noqa: BLE001 - a field can have any annotation
        return f"its fields cannot be read ({type(error).__name__}: {shown(str(error))})"
    if odd := [field for field, one in fields.items() if not isinstance(one.type, _SIMPLE)]:
        return f"the field '{odd[0]}' is not a number, a truth value or a string"
    if unknown := [field for field in kind.BOUNDS if field not in fields]:
        return f"BOUNDS names '{shown(str(unknown[0]))}', which is not one of its fields"
    return ""


def _fields(kind: type[Layer]) -> tuple[inspect.Field, ...]:
    msgspec.json.Decoder(kind)
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return described.fields


def plugin_kinds(layers: Iterable[Layer]) -> list[type[Layer]]:
    """The kinds among the layers that do not belong to this package."""
    return [kind for kind in dict.fromkeys(map(type, layers)) if not kind.__module__.startswith("genepool.")]


def fault_of(error: Exception, layers: Iterable[Layer]) -> str | None:
    """A sentence on an error while a network was computed, if a plugin's layer may be the cause; otherwise None."""
    if isinstance(error, GenepoolError) or not (kinds := plugin_kinds(layers)):
        return None
    what = f"{type(error).__name__}: {shown(str(error))}"
    place = _place(error.__traceback__, kinds)
    if place is None:
        names = ", ".join(f"'{kind.__struct_config__.tag}'" for kind in kinds)
        return f"the network failed ({what}); a plugin may be at fault, since it has layers of the kind {names}."
    return f"the layer kind '{place.kind}' failed ({what}, in line {place.line} of {place.file}); fix its plugin."


class _Place(NamedTuple):
    kind: str
    file: str
    line: int


def _place(trace: TracebackType | None, kinds: list[type[Layer]]) -> _Place | None:
    """The innermost place in the code of one of these kinds."""
    found = None
    while trace is not None:
        code, module = trace.tb_frame.f_code, trace.tb_frame.f_globals.get("__name__")
        here = [kind for kind in kinds if kind.__module__ == module]
        # Of several kinds in one file, the method's qualified name tells them apart.
        here = [kind for kind in here if code.co_qualname.startswith(f"{kind.__qualname__}.")] or here
        if here:
            found = _Place(str(here[0].__struct_config__.tag), shown(Path(code.co_filename).name), trace.tb_lineno)
        trace = trace.tb_next
    return found


@contextmanager
def blaming(layers: Iterable[Layer]) -> Iterator[None]:
    """Turn an error that a plugin's layer may have caused into a LayerError."""
    try:
        yield
    except GenepoolError:
        raise
    except Exception as error:
        if (fault := fault_of(error, layers)) is None:
            raise
        raise LayerError(fault) from error


def label_of(layer: Layer) -> str:
    """The layer's label, or its kind with a question mark if a plugin fails to name it."""
    return _named(layer, lambda: layer.label)


def title_of(layer: Layer) -> str:
    """The same for its title."""
    return _named(layer, lambda: layer.title)


def _named(layer: Layer, name: Callable[[], str]) -> str:
    try:
        return str(name())
    except Exception as error:
        if fault_of(error, [layer]) is None:
            raise
        return f"?{layer.type}"
