"""Actors beside the workers of a Ray cluster: the roll of those that began, and the population's files for nodes that
do not see them. Neither holds anything that is not in the directory, or that matters when it is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from genepool.engines.ray_nodes import Ray, here, pinned
from genepool.engines.wire import Address, Wire, listen
from genepool.errors import EngineError, StorageError
from genepool.population.served import Answer, Diary, FileServer

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
        from ray.util import get_node_ip_address

        self._address = listen(FileServer(root).do, get_node_ip_address())
        self._accounts = accounts(root)

    def address(self) -> Address:
        """Where workers reach the files; another one after each restart."""
        return self._address

    def spent(self, also: Any) -> Any:
        """What the experiment has spent, with the time of a worker's run."""
        return self._accounts(also)


def serve(ray: Ray, root: str, accounts: Callable[[str], Callable[[Any], Any]]) -> Any:
    """A service on this very node, where the directory is; Ray starts it again whenever it is lost."""
    options = {"num_cpus": 0, "max_restarts": -1, **pinned(here(ray))}
    return ray.remote(Service).options(**options).remote(root, accounts)


class Line:
    """A worker's connection to the service, wherever that is by now."""

    def __init__(self, ray: Ray, service: Any) -> None:
        self._ray, self._service = ray, service
        self._wire: Wire | None = None

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool, diary: Diary) -> Answer:
        wire, self._wire = self._wire or self._connect(), None
        try:
            answer = wire(name, arguments, safe, diary)
        except BaseException:  # an answer that nobody waited for would be taken for the next one's
            wire.close()
            raise
        self._wire = wire
        return answer

    def spent(self, also: Any) -> Any:
        """What the experiment has spent."""
        try:
            return self._ask(self._service.spent.remote(also))
        except self._ray.exceptions.RayActorError as error:
            raise StorageError("The server of the population was lost for a moment.") from error

    def _ask(self, reference: Any, patience: float | None = None) -> Any:
        # Not ray.get: Ray would take a task that waits in it for idle, and give its place to another.
        return reference.future().result(timeout=patience)

    def _connect(self) -> Wire:
        deadline = time.monotonic() + RETURN
        while True:
            try:
                address = self._ask(self._service.address.remote(), patience=10)
                return Wire(address)
            except (self._ray.exceptions.RayActorError, TimeoutError, OSError, EOFError) as error:
                if time.monotonic() > deadline:
                    raise EngineError(
                        f"The server of the population could not be reached for {RETURN:.0f} s ({error}); if its node "
                        "is there, let nodes connect to each other on all ports, and run the same command again."
                    ) from error
            time.sleep(0.2)
