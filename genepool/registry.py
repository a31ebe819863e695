"""Names for things that users choose by name, from this package or from another one.

A registry maps a name to an object. Its own package and plugins (genepool.plugins) fill it by decorator; other packages
may also add single objects through an entry point, which is loaded only when its name is asked for: a broken plug-in
cannot break those who do not use it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Generic, TypeVar

from genepool.errors import SettingsError, shown
from genepool.plugins import load_installed, offered

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
