"""The connection between a worker and the server of its population, over real sockets."""

from __future__ import annotations

import errno
import multiprocessing
import os
import socket
import statistics
import time
from pathlib import Path

import msgspec
import pytest

from genepool.population import AnswerLost, DirectoryPopulation, FileServer, ServedFiles
from genepool.testing import Clock
from genepool.testing.contract import Harness, PopulationContract
from genepool.workers.ray import service as wires
from genepool.workers.ray.service import Address, Wire, listen

LEASE = 100.0
HERE = "127.0.0.1"


def served(root: Path) -> Address:
    return listen(FileServer(str(root)).do, HERE)


class TestPopulationOverAWire(PopulationContract):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        clock, address = Clock(), served(tmp_path)
        DirectoryPopulation.establish(tmp_path, population_size=100, lease=LEASE)

        def join() -> DirectoryPopulation:
            files = ServedFiles(Wire(address), durability="fast", monotonic=clock)
            return DirectoryPopulation.open(tmp_path, files=files)

        return Harness(join=join, clock=clock, lease=LEASE)


def test_bytes_of_any_length_come_through(tmp_path):
    files = ServedFiles(Wire(served(tmp_path)))
    for length in (0, 1, 16_384, 16_385, 5_000_000):
        data = os.urandom(length)
        files.save(f"{tmp_path}/{length}", data)
        assert (tmp_path / str(length)).read_bytes() == data
        assert files.load(f"{tmp_path}/{length}", length) == data


def test_an_error_of_the_server_arrives_with_its_number(tmp_path):
    files = ServedFiles(Wire(served(tmp_path)))
    with pytest.raises(FileNotFoundError):
        files.load(f"{tmp_path}/nothing", 10)
    with pytest.raises(OSError) as error:
        files.list("/")
    assert error.value.errno == errno.EACCES


def test_many_calls_a_second(tmp_path):
    """Nagle's algorithm or delayed acknowledgements would make each large call take 40 ms."""
    files, data = ServedFiles(Wire(served(tmp_path)), durability="fast"), bytes(100_000)
    times = []
    for _ in range(50):
        start = time.perf_counter()
        files.overwrite(f"{tmp_path}/weights", data)
        times.append(time.perf_counter() - start)
    assert statistics.quantiles(times)[0] < 0.02  # other work on the machine may make most calls slower, not all


@pytest.mark.parametrize("key", [b"", bytes(32)])
def test_a_client_without_the_key_gets_no_answer(tmp_path, key):
    address = served(tmp_path)
    client = Wire(address._replace(key=key))
    with pytest.raises(AnswerLost):
        client("list", (str(tmp_path),))
    assert Wire(address)("list", (str(tmp_path),)).value == []


def test_clients_that_send_nothing_or_nonsense_do_not_delay_others(tmp_path):
    address = served(tmp_path)
    silent = [socket.create_connection(address[:2]) for _ in range(5)]
    noises = (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, (2**31 - 1).to_bytes(4, "big") + b"x")
    for client, noise in zip(silent, noises, strict=False):  # one each: the server hangs up after the first
        client.send(noise)
    assert Wire(address)("list", (str(tmp_path),)).value == []
    for one in silent:
        one.close()


def test_nonsense_from_a_client_with_the_key_ends_only_its_connection(tmp_path):
    address = served(tmp_path)
    client = Wire(address)
    client._connection.send_bytes(msgspec.msgpack.encode({"not": "a call"}))
    with pytest.raises(AnswerLost):
        client("list", (str(tmp_path),))
    assert Wire(address)("list", (str(tmp_path),)).value == []


def test_a_message_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(wires, "LARGEST_MESSAGE", 1000)
    with pytest.raises(AnswerLost):
        Wire(served(tmp_path))("save", (f"{tmp_path}/large", bytes(2000)))
    assert not (tmp_path / "large").exists()


def test_answers_of_a_server_that_was_killed_are_lost(tmp_path):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(tmp_path, theirs), daemon=True)
    server.start()
    wire = Wire(ours.recv())
    assert wire("list", (str(tmp_path),)).value == []
    server.kill()
    server.join()
    with pytest.raises(AnswerLost):
        wire("list", (str(tmp_path),))


def _serve(root: Path, pipe) -> None:
    pipe.send(served(root))
    time.sleep(600)
