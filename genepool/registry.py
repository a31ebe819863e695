"""Names for the things that users choose by name, and the plugins that add to them.

Users' own ideas: modules whose import registers mutations, selections, schedules or data sets under names.

Only three things name such a module: the command line (`--plugin`), the environment (GENEPOOL_PLUGINS) and installed
packages (entry point group `genepool.registry`). An experiment's directory asks for names and never brings code: what
its settings say is looked up among what this process has, and is never a module, a file or a path to import. A package
that is installed while a worker runs is found when the settings change (`look_again`).

Names for things that users choose by name, from this package or from another one.

A registry maps a name to an object. Its own package and plugins fill it by decorator; other packages
may also add single objects through an entry point, which is loaded only when its name is asked for: a broken plug-in
cannot break those who do not use it.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from genepool.errors import SettingsError, shown

VARIABLE = "GENEPOOL_PLUGINS"
"""Modules and files, between colons (semicolons on Windows), as in PATH."""
GROUP = "genepool.registry"


def named_by_environment() -> list[str]:
    """What the environment asks for."""
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def load(names: Iterable[str]) -> None:
    """Imports each, a module's name or the path of a .py file, once; what fails is one sentence."""
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
        raise ImportError("it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
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
    """What installed packages offer in a group."""
    return tuple(entry_points(group=group))


def look_again() -> None:
    """Forgets what was installed when somebody last asked: packages may have come since."""
    importlib.invalidate_caches()
    offered.cache_clear()
    load_installed.cache_clear()


@cache
def load_installed() -> tuple[str, ...]:
    """Imports what installed packages offer; returns a sentence for each that fails.

    Asked for only when somebody uses a name that is not known otherwise: a broken package, or a slow one, is nobody's
    trouble but its users'.
    """
    faults = []
    for point in offered(GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - told to whoever misses what it should have brought
            faults.append(f"The installed plugin '{shown(point.name)}' cannot be loaded: {_cause(point.value, error)}")
    return tuple(faults)


T = TypeVar("T")


def nearest(name: str, known: list[str]) -> str:
    """The end of a sentence about an unknown name: the likeliest meant one, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known) or 'none'}."


class Registry(Generic[T]):
    """Name -> object; refuses a second owner of a name."""

    def __init__(self, noun: str, group: str) -> None:
        self.noun = noun
        self.group = group
        self._objects: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that puts an object under a name."""

        def put(thing: T) -> T:
            if name in self._objects:
                raise SettingsError(f"The {self.noun} '{name}' is registered twice; give one of them another name.")
            self._objects[name] = thing
            return thing

        return put

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

    def names(self) -> list[str]:
        """Every name, our own first, each in order of registration."""
        return [*self._objects, *sorted(self._entry_points)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        if name not in self._objects and name not in self._entry_points:
            load_installed()
        return name in self._objects or name in self._entry_points

    def get(self, name: str) -> T:
        """The object of that name; an unknown one is refused with the nearest known name."""
        known = name in self
        if name in self._objects:
            return self._objects[name]
        if not known:
            raise SettingsError(
                " ".join((f"There is no {self.noun} '{shown(name)}'; {nearest(name, self.names())}", *load_installed()))
            )
        point = self._entry_points[name]
        try:
            thing: T = point.load()
        except Exception as error:
            raise SettingsError(f"The {self.noun} '{name}' from '{point.value}' cannot be loaded: {error}.") from error
        return thing
