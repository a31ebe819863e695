"""`genepool run --engine ray` as a user starts it, in a file's or a terminal's company."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import COMMAND, wait_until

PATIENCE = 300.0
SMALL = (
    *("--population", 6, "--steps", 150, "--seed", 1, "--set", "budget.time=none", "--set", "population.lease=3"),
    *(
        "--set",
        "training.checkpoint_every=0.5",
        "--set",
        "breeding.odds.grow-convolution=0",
        "--set",
        "breeding.odds.widen=0",
    ),
)


def command(directory: Path, address: str, *options: object) -> list[str]:
    """The words of a small experiment that goes on until it is stopped."""
    words = ("run", directory, "--engine", "ray", "--address", address, *SMALL, *options)
    return [*COMMAND, *map(str, words)]


class Run:
    """A run that goes on beside the test, with what it has said so far."""

    def __init__(self, directory: Path, address: str, *options: object, **environment: str) -> None:
        self.directory, self.said = directory, directory.parent / f"{directory.name}.said"
        with self.said.open("wb") as said:
            self.process = self._start(command(directory, address, *options), said, {**os.environ, **environment})

    def _start(self, words: list[str], said: object, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, stdout=said, stderr=said, env=environment)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def wait_until(self, true: Callable[[], object]) -> None:
        """As long as it runs."""

        def or_gone() -> object:
            assert self.process.poll() is None, self.text()
            return true()

        wait_until(or_gone, PATIENCE)

    def end(self) -> int:
        """The exit code, when it has ended by itself."""
        return self.process.wait(PATIENCE)


class RunInATerminal(Run):
    """The same on a terminal of its own, whose keys can be pressed."""

    def _start(self, words: list[str], said: object, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self._keys, theirs = pty.openpty()
        terminal = {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment, **terminal},
        )
        os.close(theirs)
        threading.Thread(target=self._listen, daemon=True).start()
        return process

    def _listen(self) -> None:
        with self.said.open("ab", buffering=0) as said:
            while True:
                select.select([self._keys], [], [])
                try:
                    said.write(os.read(self._keys, 65536))
                except OSError:  # the terminal has gone with its last process
                    return

    def press(self, key: bytes) -> None:
        os.write(self._keys, key)
