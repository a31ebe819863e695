"""Serving a population's files to workers on other nodes, over one plain connection per worker.

A call takes about 0.1 ms of both processes together; a call to a Ray actor takes about 3 ms. Nothing is pickled: only
numbers, text and bytes are sent. A worker proves that it has the secret key without sending it: the server sends a
random challenge, and the worker returns the HMAC of the challenge under the key.
"""

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

PROOF = 32  # bytes of the challenge, and of the answer to it
LARGEST_MESSAGE = LARGEST_TRANSFER + (64 << 20)  # bytes of the largest file, and of the rest of its message
BACKLOG = 512  # connections that may wait to be accepted: hundreds of workers begin at the same moment


class Address(NamedTuple):
    """Where a server listens, and the key to it."""

    host: str
    port: int
    key: bytes


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A call of a worker."""

    name: str
    arguments: tuple[Any, ...]
    safe: bool
    lines: tuple[tuple[str, bytes], ...]


def listen(do: Callable[[str, tuple[Any, ...], bool, LogLines], Answer], host: str) -> Address:
    """Answer calls in threads, for as long as this process lives."""
    listener, key = Listener((host, 0), backlog=BACKLOG), os.urandom(PROOF)

    def accept() -> None:
        while True:
            with suppress(OSError):  # a client that was gone before it was accepted
                client = listener.accept()
                threading.Thread(target=_attend, args=(client, key, do), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    _, port = listener.address
    return Address(host, port, key)


def _attend(client: Connection, key: bytes, do: Callable[..., Answer]) -> None:
    """Serve one worker until it disconnects; a client without the key gets no answer."""
    decoder = msgspec.msgpack.Decoder(Call)
    with client, suppress(OSError, EOFError, msgspec.MsgspecError):
        _tune(client)
        challenge = os.urandom(PROOF)
        client.send_bytes(challenge)
        if not hmac.compare_digest(client.recv_bytes(PROOF), _proof(key, challenge)):
            return
        while True:
            call = decoder.decode(client.recv_bytes(LARGEST_MESSAGE))
            answer = do(call.name, call.arguments, call.safe, call.lines)
            client.send_bytes(msgspec.msgpack.encode(answer))


class Wire:
    """A worker's end of a connection; useless after a lost answer."""

    def __init__(self, address: Address) -> None:
        """Raise OSError if no server listens at `address`."""
        self._connection = Client(address[:2])
        _tune(self._connection)
        self._connection.send_bytes(_proof(address.key, self._connection.recv_bytes(PROOF)))

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool = True, lines: LogLines = ()) -> Answer:
        """Make one call and return its answer; raise AnswerLost if the connection fails."""
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(Call(name, arguments, safe, tuple(lines))))
            return _ANSWERS.decode(self._connection.recv_bytes(LARGEST_MESSAGE))
        except (OSError, EOFError) as error:
            raise AnswerLost from error

    def close(self) -> None:
        self._connection.close()


_ANSWERS = msgspec.msgpack.Decoder(Answer)


def _proof(key: bytes, challenge: bytes) -> bytes:
    return hmac.digest(key, challenge, "sha256")


def _tune(connection: Connection) -> None:
    """Send small messages at once, and notice eventually that the other end has vanished."""
    with socket.socket(fileno=os.dup(connection.fileno())) as copy:
        copy.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


RETURN = 300.0  # seconds that workers wait for a lost service


class Starts:
    """An actor that counts the starts of tasks: Ray does not report which tasks still wait for a place."""

    def __init__(self) -> None:
        self._starts: dict[int, tuple[int, str]] = {}

    def add(self, serial: int, node: str) -> None:
        times, _ = self._starts.get(serial, (0, ""))
        self._starts[serial] = times + 1, node

    def read(self) -> dict[int, tuple[int, str]]:
        """How often each task has started, and its latest node."""
        return self._starts


class Service:
    """An actor that serves the files of an experiment's directory, and its accounts, to other nodes."""

    def __init__(self, root: str, accounts: Callable[[str], Callable[[Any], Any]]) -> None:
        from ray.util import get_node_ip_address

        self._address = listen(FileServer(root).do, get_node_ip_address())
        self._accounts = accounts(root)

    def address(self) -> Address:
        """Where workers reach the files; it changes with every restart."""
        return self._address

    def spent(self, also: Any) -> Any:
        """What the experiment has spent, including the worker's current run."""
        return self._accounts(also)


def serve(ray: Ray, root: str, accounts: Callable[[str], Callable[[Any], Any]]) -> Any:
    """Start the service on this node, which has the directory; Ray restarts it when it is lost."""
    options = {"num_cpus": 0, "max_restarts": -1, **pinned(here(ray))}
    return ray.remote(Service).options(**options).remote(root, accounts)


class ServiceConnection:
    """A worker's connection to the service, renewed when the service moves."""

    def __init__(self, ray: Ray, service: Any) -> None:
        self._ray, self._service = ray, service
        self._wire: Wire | None = None

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool, lines: LogLines) -> Answer:
        wire, self._wire = self._wire or self._connect(), None
        try:
            answer = wire(name, arguments, safe, lines)
        except BaseException:  # a late answer would be taken for the next call's
            wire.close()
            raise
        self._wire = wire
        return answer

    def spent(self, also: Any) -> Any:
        try:
            return self._get(self._service.spent.remote(also))
        except self._ray.exceptions.RayActorError as error:
            raise StorageError("The server of the population is lost for the moment.") from error

    def _get(self, reference: Any, patience: float | None = None) -> Any:
        # Not ray.get: Ray counts a task that waits in it as idle and starts another in its place.
        return reference.future().result(timeout=patience)

    def _connect(self) -> Wire:
        deadline = time.monotonic() + RETURN
        while True:
            try:
                address = self._get(self._service.address.remote(), patience=10)
                return Wire(address)
            except (self._ray.exceptions.RayActorError, TimeoutError, OSError, EOFError) as error:
                if time.monotonic() > deadline:
                    raise EngineError(
                        f"The server of the population could not be reached for {RETURN:.0f} s ({error}); if its node "
                        "is up, let nodes connect to each other on all ports, and run the same command again."
                    ) from error
            time.sleep(0.2)
