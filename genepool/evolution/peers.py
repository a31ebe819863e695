"""The connections between the workers that share one training: TCP, with a deadline for everything.

The leader listens and invites; its invitation has a random token. Both ends prove that they have the token without
sending it: each returns the HMAC of the other's random challenge. Nothing is pickled: a message is a small MessagePack
document and raw bytes of a known length. A peer that dies, sends nonsense or is slow is dropped, and the leader
computes its slice; a peer that loses its leader returns to its own steps. So no process ever depends on another one.
"""

from __future__ import annotations

import hmac
import os
import platform
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from genepool.evaluation import Slice

PROOF = 32  # bytes of a token, of a challenge, and of the answer to it
PATIENCE = 3.0
"""Seconds that a peer may cost before it is dropped. A slice costs the time that the leader waits for it, less the time
that the leader would take for it. Also the longest wait for any other message."""
BUILDING = 60.0  # seconds for which a new peer may build the network
SILENCE = 60.0  # seconds without a message after which a peer leaves: its leader may be validating for some time
TICK = 0.5  # seconds between two looks of a waiting peer at its own duties
LARGEST_HEAD, LARGEST_STATE = 16 << 20, 1 << 32  # bytes
_LENGTHS = struct.Struct("<IQ")  # of a message's two parts
_HERE = "127.0.0.1"


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """Where the leader of a training listens."""

    individual: str
    address: str
    port: int
    token: bytes
    host: str = ""
    """The machine that the address belongs to, if others cannot use it."""

    @property
    def is_for_here(self) -> bool:
        return self.host in ("", platform.node())


class NoPlace(Exception):  # noqa: N818 - an event, not an error
    """The leader has as many peers as it can use."""


class Link:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.cost = 0.0
        """Seconds that this peer has cost lately."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, head: Any, body: bytes | memoryview = b"", within: float = PATIENCE) -> None:
        encoded = msgspec.msgpack.encode(head)
        self._socket.settimeout(within)
        self._socket.sendall(_LENGTHS.pack(len(encoded), len(body)) + encoded)
        self._socket.sendall(body)

    def receive(self, into: memoryview | None = None, within: float = PATIENCE) -> tuple[Any, memoryview]:
        """Return a message; its body must fill `into` exactly if that is given."""
        deadline = time.monotonic() + within
        head_length, length = _LENGTHS.unpack(self.exactly(_LENGTHS.size, deadline))
        expected = len(into) if into is not None else length
        if head_length > LARGEST_HEAD or length > LARGEST_STATE or length != expected:
            raise ConnectionError("the other end sent a message of an unexpected length")
        head = msgspec.msgpack.decode(self.exactly(head_length, deadline))
        return head, self._fill(into if into is not None else memoryview(bytearray(length)), deadline)

    def exactly(self, length: int, deadline: float) -> memoryview:
        return self._fill(memoryview(bytearray(length)), deadline)

    def _fill(self, buffer: memoryview, deadline: float) -> memoryview:
        done = 0
        while done < len(buffer):
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            received = self._socket.recv_into(buffer[done:])
            if not received:
                raise ConnectionResetError("the other end closed the connection")
            done += received
        return buffer

    def has_news(self, within: float) -> bool:
        return bool(select.select([self._socket], [], [], within)[0])

    def prove(self, token: bytes, *, is_leader: bool) -> None:
        """Exchange challenges and proofs, in the same order at both ends, and raise OSError if the other's is wrong."""
        challenge, deadline = os.urandom(PROOF), time.monotonic() + PATIENCE
        self._socket.settimeout(PATIENCE)
        self._socket.sendall(challenge)
        theirs = bytes(self.exactly(PROOF, deadline))
        # The roles are part of the proof: otherwise a stranger could return our own challenge and our answer to it.
        self._socket.sendall(_proof(token, theirs, is_leader))
        if not hmac.compare_digest(self.exactly(PROOF, deadline), _proof(token, challenge, not is_leader)):
            raise ConnectionRefusedError("the other end does not have the token")

    def close(self) -> None:
        self._socket.close()


def _proof(token: bytes, challenge: bytes, of_leader: bool) -> bytes:
    return hmac.digest(token, (b"leader" if of_leader else b"peer") + challenge, "sha256")


FAULTS = (OSError, msgspec.MsgspecError, ValueError, TypeError)
"""What a broken connection, or nonsense from its other end, may raise."""


class Peers:
    """The peers of a training in this process, at most so many (see genepool.evaluation.Peers)."""

    def __init__(self, individual: str, most: int, address: str | None = None) -> None:
        """Listen at an address that other machines reach, or on this machine only. Raise OSError if that fails."""
        self._listener = socket.create_server((address or _HERE, 0))
        port = self._listener.getsockname()[1]
        self.invitation = Invitation(
            individual=individual,
            address=address or _HERE,
            port=port,
            token=os.urandom(PROOF),
            host="" if address else platform.node(),
        )
        self._lock, self._places, self._is_closed = threading.Lock(), most, False
        self._new: list[Link] = []
        self._links: list[Link] = []
        self._tasks: dict[int, Link] = {}
        self._began = self._own = 0.0  # when this process began its own slice, and the seconds that it took
        threading.Thread(target=self._accept, daemon=True).start()

    # -- in threads of their own, so that a stranger does not disturb the training -------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._welcome, args=(connection,), daemon=True).start()

    def _welcome(self, connection: socket.socket) -> None:
        """Admit a peer that has the token, once it has built the network."""
        link, admitted = Link(connection), False
        try:
            link.prove(self.invitation.token, is_leader=True)
            with self._lock:
                admitted, self._places = self._places > 0, self._places - (self._places > 0)
            link.send(admitted)
            if not admitted:
                raise ConnectionRefusedError("all places are taken")
            link.receive(within=BUILDING)
            with self._lock:
                if self._is_closed:
                    raise ConnectionResetError("the training has ended")
                self._new.append(link)
        except FAULTS:
            self._drop(link, admitted)

    def _drop(self, link: Link, admitted: bool = True) -> None:
        link.close()
        with self._lock:
            self._places += admitted

    # -- in the training's thread --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of peers that will take part from the next step on."""
        with self._lock:
            return len(self._new)

    def begin(self, step: int, weights: Callable[[], memoryview], state: Callable[[], bytes]) -> int:
        if not (self._links or self._new):
            return 1
        self._links += self._newcomers(state)
        slices, self._tasks = 1 + len(self._links), {}
        sent = weights()
        for place, link in enumerate([*self._links], start=1):
            try:
                link.send(Slice(step, place, slices), sent)
                self._tasks[place] = link
            except FAULTS:
                self._lose(link)
        self._began, self._own = time.monotonic(), 0.0
        return slices

    def _newcomers(self, state: Callable[[], bytes]) -> list[Link]:
        with self._lock:
            new, self._new = self._new, []
        ready = []
        for link in new:
            try:
                link.send("state", state())
                ready.append(link)
            except FAULTS:
                self._drop(link)
        return ready

    def collect(self, place: int, gradients: memoryview) -> float | None:
        if (link := self._tasks.get(place)) is None:
            return None
        now = time.monotonic()
        self._own = self._own or now - self._began
        try:
            loss, _ = link.receive(gradients, within=self._own + PATIENCE - link.cost)
            link.cost = max(0.0, link.cost + time.monotonic() - now - self._own)
            return float(loss)
        except FAULTS:
            self._lose(link)
            return None

    def _lose(self, link: Link) -> None:
        self._links.remove(link)
        self._drop(link)

    def close(self) -> None:
        """End the training for all peers."""
        # A blocked accept() does not notice that its socket was closed; shutting it down wakes it up.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            links, self._is_closed = [*self._links, *self._new], True
        for link in links:
            link.close()


class Membership:
    """A place among the peers of a leader elsewhere (see genepool.evaluation.Leader). `tick` is called about
    twice per second, also while there is nothing to do, and may end the help by an exception."""

    def __init__(self, invitation: Invitation, tick: Callable[[], None]) -> None:
        """Raise OSError if the leader does not answer, and NoPlace if it has enough peers."""
        self._tick, self._ticked = tick, time.monotonic()
        self._link = Link(socket.create_connection((invitation.address, invitation.port), PATIENCE))
        try:
            self._link.prove(invitation.token, is_leader=False)
            admitted, _ = self._link.receive()
            if admitted is not True:
                raise NoPlace
        except BaseException:
            self._link.close()
            raise

    def state(self) -> bytes:
        self._link.send("ready")
        self._wait()
        return bytes(self._link.receive(within=SILENCE)[1])

    def next_slice(self, weights: memoryview) -> Slice | None:
        try:
            self._wait()
            head, _ = self._link.receive(weights)
        except OSError:  # the training has ended, the leader is lost, or it has dropped this peer
            return None
        return msgspec.convert(head, Slice)

    def _wait(self) -> None:
        silent_since = time.monotonic()
        while not self._link.has_news(TICK):
            self._look()
            if time.monotonic() - silent_since > SILENCE:
                raise TimeoutError("the leader was silent for too long")
        self._look()

    def _look(self) -> None:
        if time.monotonic() - self._ticked >= TICK:
            self._tick()
            self._ticked = time.monotonic()

    def send(self, loss: float, gradients: memoryview) -> None:
        self._link.send(loss, gradients, within=SILENCE)

    def close(self) -> None:
        self._link.close()
