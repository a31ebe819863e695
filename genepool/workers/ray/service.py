"""Calls to the files of a served population over a plain connection, one for each worker, one answer after another.

A call takes a tenth of a millisecond of both processes together; an actor of Ray's takes some three. Nothing is
pickled: what arrives are numbers, texts and bytes. Whoever connects must know a secret word, and it is never sent: the
server sends a random number, and the worker what both together hash to.
"""

from __future__ import annotations

import hmac
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NamedTuple

import msgspec

from genepool.errors import EngineError, StorageError
from genepool.population import LARGEST_TRANSFER, Answer, AnswerLost, FileServer, LogLines
from genepool.workers.ray.nodes import Ray, here, pinned

PROOF = 32
"""Bytes of the random number, and of the answer to it."""
LARGEST_MESSAGE = LARGEST_TRANSFER + (64 << 20)
"""The largest file, and what is said beside it."""
AT_THE_DOOR = 512
"""Workers that may wait to be let in: hundreds begin at the same moment."""


class Address(NamedTuple):
    """Where a server is, and the word that lets one in."""

    host: str
    port: int
    word: bytes


class Call(msgspec.Struct, frozen=True, array_like=True):
    """What a worker asks for."""

    name: str
    arguments: tuple[Any, ...]
    safe: bool
    lines: tuple[tuple[str, bytes], ...]


def listen(do: Callable[[str, tuple[Any, ...], bool, LogLines], Answer], host: str) -> Address:
    """Answers calls for as long as this process lives, in threads of its own."""
    listener, word = Listener((host, 0), backlog=AT_THE_DOOR), os.urandom(PROOF)

    def welcome() -> None:
        while True:
            with suppress(OSError):  # one who has gone again before being let in
                guest = listener.accept()
                threading.Thread(target=_attend, args=(guest, word, do), daemon=True).start()

    threading.Thread(target=welcome, daemon=True).start()
    _, port = listener.address
    return Address(host, port, word)


def _attend(guest: Connection, word: bytes, do: Callable[..., Answer]) -> None:
    """Serves one worker until it hangs up; a stranger is not answered at all."""
    decoder = msgspec.msgpack.Decoder(Call)
    with guest, suppress(OSError, EOFError, msgspec.MsgspecError):
        _tune(guest)
        number = os.urandom(PROOF)
        guest.send_bytes(number)
        if not hmac.compare_digest(guest.recv_bytes(PROOF), _proof(word, number)):
            return
        while True:
            call = decoder.decode(guest.recv_bytes(LARGEST_MESSAGE))
            answer = do(call.name, call.arguments, call.safe, call.lines)
            guest.send_bytes(msgspec.msgpack.encode(answer))


class Wire:
    """A worker's end; after an answer was lost it is of no more use."""

    def __init__(self, address: Address) -> None:
        """Raises OSError if nobody is there."""
        self._connection = Client(address[:2])
        _tune(self._connection)
        self._connection.send_bytes(_proof(address.word, self._connection.recv_bytes(PROOF)))

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool = True, lines: LogLines = ()) -> Answer:
        """One call and its answer, or AnswerLost."""
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(Call(name, arguments, safe, tuple(lines))))
            return _ANSWERS.decode(self._connection.recv_bytes(LARGEST_MESSAGE))
        except (OSError, EOFError) as error:
            raise AnswerLost from error

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()


_ANSWERS = msgspec.msgpack.Decoder(Answer)


def _proof(word: bytes, number: bytes) -> bytes:
    return hmac.digest(word, number, "sha256")


def _tune(connection: Connection) -> None:
    """Answers are not held back for more to come, and one who has vanished is noticed some day."""
    with socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


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

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool, lines: LogLines) -> Answer:
        wire, self._wire = self._wire or self._connect(), None
        try:
            answer = wire(name, arguments, safe, lines)
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
