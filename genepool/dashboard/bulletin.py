"""How an experiment stands, as one text for all pages that follow it."""

from __future__ import annotations

import threading
import time

import msgspec

from genepool.dashboard.reader import Reader
from genepool.dashboard.standing import standing

EVERY = 3.0
"""Seconds until it is told again although nothing has happened: times go on."""
SHARE = 200
"""After news it waits so many times as long as the last one took: it goes through everybody who ever lived."""

LONGEST = 30.0


class Bulletin:
    """The latest text; made anew when somebody asks and it is time."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._one_at_a_time = threading.Lock()
        self._news = ""
        self._made = self._cost = 0.0
        self.text = ""
        self.number = 0
        """Of the text, so that nobody is told twice."""

    def is_due(self) -> bool:
        """Whether there is news, and making a new one would not cost too much."""
        wait = (
            min(SHARE * self._cost, 10 * EVERY) if self._news != self._reader.news else max(EVERY, SHARE * self._cost)
        )
        return not self.number or time.monotonic() - self._made > wait

    def renew(self) -> None:
        """Makes a new text, unless somebody else just has."""
        with self._one_at_a_time:
            if not self.is_due():
                return
            began, self._news = time.thread_time(), self._reader.news
            self.text = msgspec.json.encode(standing(self._reader)).decode()
            self._made, self._cost = time.monotonic(), time.thread_time() - began
            self.number += 1
