"""Random sources that leave nothing to chance: one fulfils wishes and notes what it drew, the other plays that back.

What is noted are the raw numbers of a generator, which the standard library turns into choices; so whatever a mutation
does with a tape, it could have done with a seed, if one that luckily gives these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
GRAINS = 2**53
"""`Random.random` gives multiples of one over this."""


class Tape(Random):
    """Raw numbers that were noted before, in place of a generator's."""

    def __init__(self, numbers: Iterable[float]) -> None:
        super().__init__(0)
        self._numbers = list(reversed(list(numbers)))

    def random(self) -> float:
        """The next number, which must be one that a generator could give."""
        number = float(self._numbers.pop())
        if not 0 <= number < 1 or number * GRAINS != int(number * GRAINS):
            raise ValueError(f"no generator gives {number}")
        return number

    def getrandbits(self, k: int, /) -> int:
        """The next number, which must have so many bits."""
        number = self._numbers.pop()
        if not isinstance(number, int) or not 0 <= number < 2**k:
            raise ValueError(f"{number} has not {k} bits")
        return number

    @property
    def left(self) -> int:
        """Numbers that nobody asked for."""
        return len(self._numbers)


class Wishes(Random):
    """Answers each question of a mutation by the next wish, as far as that is among the possible answers.

    A wish is the ID or value to choose, the number to come near to, the item to shuffle to the front, or raw bits.
    """

    def __init__(self, wishes: Iterable[Any]) -> None:
        super().__init__(0)
        self._wishes = list(reversed(list(wishes)))
        self.numbers: list[float] = []
        """What a generator would have had to give."""

    def random(self) -> float:
        number: float = self._wishes.pop()
        self.numbers.append(number)
        return number

    def getrandbits(self, k: int, /) -> int:
        number: int = self._wishes.pop()
        self.numbers.append(number)
        return number

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        wish = self._wishes.pop()
        index = [getattr(item, "id", item) for item in seq].index(wish)
        self.numbers.append(index)
        return seq[index]

    def uniform(self, a: float, b: float) -> float:
        """The number nearest to the wish that can be drawn between the two."""
        share = (self._wishes.pop() - a) / (b - a)
        grain = min(GRAINS - 1, max(0, round(share * GRAINS)))
        self.numbers.append(grain / GRAINS)
        return a + (b - a) * self.numbers[-1]

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Fisher and Yates as the standard library does it: each item stays, but for the wished one."""
        wish = self._wishes.pop()
        for i in reversed(range(1, len(x))):
            j = 0 if x[i] == wish else i
            self.numbers.append(j)
            x[i], x[j] = x[j], x[i]
