"""Actors beside the workers of a Ray cluster: the roll of those that began, and the population's files for nodes that
do not see them. Neither holds anything that is not in the directory, or that matters when it is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from genepool.engines.ray_nodes import Ray, here, pinned
from genepool.errors import EngineError, StorageError
from genepool.population.served import Answer, AnswerLost, Diary, FileServer

AT_ONCE = 16
"""Calls that the service works on at the same time: most of them wait for the disk."""
RETURN = 300.0
"""Seconds for a lost service to come back."""


class Roll:
    """Who has begun, how often, and where: Ray itself does not tell which tasks only wait for a place."""

    def __init__(self) -> None:
        self._arrivals: dict[int, tuple[int, str]] = {}

    def arrived(self, serial: int, node: str) -> None:
        """A worker begins, perhaps not for the first time."""
        times, _ = self._arrivals.get(serial, (0, ""))
        self._arrivals[serial] = times + 1, node

    def read(self) -> dict[int, tuple[int, str]]:
        """How often each has begun, and on which node the last time."""
        return self._arrivals


class Service:
    """The files of one experiment's directory, and its ledger, for workers elsewhere."""

    def __init__(self, root: str, accounts: Callable[[str], Callable[[Any], Any]]) -> None:
        self._server = FileServer(root)
        self._accounts = accounts(root)
        self._one_at_a_time = threading.Lock()

    def do(self, name: str, arguments: tuple[Any, ...], safe: bool, diary: Diary) -> Answer:
        """A call of a worker's files."""
        return self._server.do(name, arguments, safe, diary)

    def spent(self, also: Any) -> Any:
        """What the experiment has spent, with the time of a worker's run."""
        with self._one_at_a_time:
            return self._accounts(also)

    def here(self) -> bool:
        """That it answers."""
        return True


def serve(ray: Ray, root: str, accounts: Callable[[str], Callable[[Any], Any]]) -> Any:
    """A service on this very node, where the directory is; Ray starts it again whenever it is lost."""
    options = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": AT_ONCE, **pinned(here(ray))}
    return ray.remote(Service).options(**options).remote(root, accounts)


class Line:
    """A worker's connection to the service."""

    def __init__(self, ray: Ray, service: Any) -> None:
        self._ray, self._service = ray, service

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool, diary: Diary) -> Answer:
        answer: Answer = self._ask(self._service.do.remote(name, arguments, safe, diary))
        return answer

    def spent(self, also: Any) -> Any:
        """What the experiment has spent."""
        try:
            return self._ask(self._service.spent.remote(also))
        except AnswerLost as error:
            raise StorageError("The server of the population was lost for a moment.") from error

    def _ask(self, reference: Any) -> Any:
        try:
            # Not ray.get: Ray would take a task that waits in it for idle, and give its place to another.
            return reference.future().result()
        except self._ray.exceptions.RayActorError as error:
            self._wait_for_its_return()
            raise AnswerLost from error

    def _wait_for_its_return(self) -> None:
        deadline = time.monotonic() + RETURN
        while time.monotonic() < deadline:
            time.sleep(0.2)
            try:
                self._service.here.remote().future().result(timeout=10)
                return
            except (self._ray.exceptions.RayActorError, TimeoutError):
                continue
        raise EngineError(f"The server of the population has been gone for {RETURN:.0f} s; run the same command again.")
