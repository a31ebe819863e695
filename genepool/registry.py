"""Things that users choose by name, the plugins that add to them, and names that are imported on first use.

A registry is filled by decorator, by this package and by plugins, or by another package's entry point, which is loaded
only when its name is used. The names in an experiment's settings are only looked up, never imported.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from genepool.errors import SettingsError, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

VARIABLE = "GENEPOOL_PLUGINS"  # modules and files, separated as in PATH
GROUP = "genepool.registry"


def lazy_names(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports its public names, given by module, on first use. So `import
    genepool` and commands that do not train never load torch."""
    module_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)

    return get


def named_by_environment() -> list[str]:
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def load(names: Iterable[str]) -> None:
    """Import plugins, given as module names or paths of .py files, once each."""
    for name in names:
        try:
            _load_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
        except SettingsError:
            raise
        except (Exception, SystemExit) as error:
            raise SettingsError(f"The plugin '{shown(name)}' cannot be loaded: {_cause(name, error)}") from error


def _load_file(path: Path) -> None:
    path = path.resolve()
    name = f"genepool_plugin_{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _cause(name: str, error: BaseException) -> str:
    if isinstance(error, FileNotFoundError) and name.endswith(".py"):
        return "there is no such file."
    if isinstance(error, ModuleNotFoundError) and error.name == name:
        return "there is no such module; install it, or give the path of a .py file."
    return f"{type(error).__name__}: {shown(str(error))}."


@cache
def offered(group: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def forget_installed() -> None:
    """Forget which packages were installed, so that new ones are found."""
    importlib.invalidate_caches()
    offered.cache_clear()
    load_installed.cache_clear()


@cache
def load_installed() -> tuple[str, ...]:
    """Import the plugins of installed packages and return a sentence for each that fails. Called only for a name that
    is not known otherwise, so that broken or slow packages affect only their users."""
    faults = []
    for point in offered(GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - reported with the unknown name
            faults.append(f"The installed plugin '{shown(point.name)}' cannot be loaded: {_cause(point.value, error)}")
    return tuple(faults)


T = TypeVar("T")


def nearest(name: str, known: list[str]) -> str:
    """Return the end of a sentence about an unknown name: the closest known name, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known) or 'none'}."


class Registry(Generic[T]):
    """A mapping from names to objects; each name can be registered only once."""

    def __init__(self, noun: str, group: str) -> None:
        self.noun, self.group = noun, group
        self._objects: dict[str, T] = {}
        self._loaded: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Register an object under a name, as a decorator."""

        def put(thing: T) -> T:
            if name in self._objects:
                raise SettingsError(f"The {self.noun} '{name}' is registered twice; give one of them another name.")
            self.check(name, thing)
            self._objects[name] = self._loaded[name] = thing
            return thing

        return put

    def check(self, name: str, thing: T) -> None:
        """Raise SettingsError if the object cannot be registered under this name."""

    @property
    def _entry_points(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for point in offered(self.group):
            owner = found.get(point.name)
            if point.name in self._objects or (owner is not None and owner.value != point.value):
                raise SettingsError(
                    f"The {self.noun} '{point.name}' comes from two packages ('{point.value}' is one); uninstall one."
                )
            found[point.name] = point
        return found

    @property
    def loaded(self) -> dict[str, T]:
        """The objects that are loaded now, without those of installed packages that were not used yet."""
        return self._loaded

    def names(self) -> list[str]:
        """Return all names, our own first, in order of registration."""
        return [*self._objects, *sorted(self._entry_points)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        if name not in self._objects and name not in self._entry_points:
            load_installed()
        return name in self._objects or name in self._entry_points

    def get(self, name: str) -> T:
        """Return the object of that name; an unknown name is refused with the closest known one."""
        if name not in self:
            unknown = f"There is no {self.noun} '{shown(name)}'; {nearest(name, self.names())}"
            raise SettingsError(" ".join((unknown, *load_installed())))
        if name in self._loaded:
            return self._loaded[name]
        point = self._entry_points[name]
        try:
            thing: T = point.load()
        except Exception as error:
            raise SettingsError(f"The {self.noun} '{name}' from '{point.value}' cannot be loaded: {error}.") from error
        self.check(name, thing)
        self._loaded[name] = thing
        return thing
