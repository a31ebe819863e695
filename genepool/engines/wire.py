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
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NamedTuple

import msgspec

from genepool.population.served import LARGEST, Answer, AnswerLost, Diary

PROOF = 32
"""Bytes of the random number, and of the answer to it."""
LARGEST_MESSAGE = LARGEST + (64 << 20)
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
    diary: tuple[tuple[str, bytes], ...]


def listen(do: Callable[[str, tuple[Any, ...], bool, Diary], Answer], host: str) -> Address:
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
            answer = do(call.name, call.arguments, call.safe, call.diary)
            guest.send_bytes(msgspec.msgpack.encode(answer))


class Wire:
    """A worker's end; after an answer was lost it is of no more use."""

    def __init__(self, address: Address) -> None:
        """Raises OSError if nobody is there."""
        self._connection = Client(address[:2])
        _tune(self._connection)
        self._connection.send_bytes(_proof(address.word, self._connection.recv_bytes(PROOF)))

    def __call__(self, name: str, arguments: tuple[Any, ...], safe: bool = True, diary: Diary = ()) -> Answer:
        """One call and its answer, or AnswerLost."""
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(Call(name, arguments, safe, tuple(diary))))
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
