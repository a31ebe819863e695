"""One training shared by real processes over TCP: exact, elastic, and closed to strangers."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import msgspec
import pytest
import torch

from genepool.data import open_source, prepare
from genepool.evaluation import Limits, Training, TrainingBudget, TrainingRequest
from genepool.evolution import peers as network
from genepool.evolution.peers import PROOF, Invitation, Link, Membership, NoPlace, Peers
from genepool.nn import TorchEvaluator
from tests.support.networks import chain, conv
from tests.support.processes import wait_until

CPU = torch.device("cpu")
DNA = chain(conv("a", depth_factor=8.0, stride_scale=1.0), conv("b", depth_factor=2.0, stride_scale=1.0))
PEER = """
import sys, msgspec
from tests.evolution.test_peers import help_with
help_with(msgspec.json.decode(sys.argv[1], type=__import__("genepool.evolution.peers", fromlist=["x"]).Invitation))
"""


def evaluator(steps=60, batch=75):
    data = prepare(open_source("fashion-mini"))
    return TorchEvaluator(data, Training(steps=steps, batch=batch), Limits(), CPU)


def request(**more):
    return TrainingRequest(DNA, seed=3, **more)


def help_with(invitation: Invitation) -> None:
    """What a peer does, in a process of its own; it leaves when its parent is gone."""
    torch.set_num_threads(1)
    parent = os.getppid()

    def tick() -> None:
        if os.getppid() != parent:
            raise SystemExit

    membership = Membership(invitation, tick)
    evaluator().help(request(), membership)


@contextmanager
def peer(invitation):
    process = subprocess.Popen([sys.executable, "-c", PEER, msgspec.json.encode(invitation).decode()])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def leader(most=2):
    peers = Peers("x", most)
    try:
        yield peers
    finally:
        peers.close()


def joined(peers, count):
    """Whether so many peers are ready for the next step."""
    return lambda: peers.waiting + len(peers._links) >= count


def replayed(trained, steps=60):
    return evaluator(steps).evaluate(request(budget=TrainingBudget(slices=trained.evaluation.slices)))


def test_peers_compute_what_one_process_computes():
    """Three slices by three processes; the replay computes them one after another, bit for bit."""
    with leader() as peers, peer(peers.invitation) as one, peer(peers.invitation) as other:
        wait_until(joined(peers, 2))
        trained = evaluator().evaluate(request(peers=peers))
        assert trained.evaluation.slices == ((0, 3),)
        assert trained.evaluation.flops == (alone := evaluator().evaluate(request())).evaluation.flops
        peers.close()
        assert (one.wait(60), other.wait(60)) == (0, 0)
    assert replayed(trained).weights == trained.weights != alone.weights
    assert replayed(trained).evaluation.losses == trained.evaluation.losses


def during(peers, actions):
    """An observer that does something at the reports of some steps."""

    def observe(progress):
        if action := actions.pop(progress.step, None):
            action()

    return observe


def test_a_peer_joins_late_another_dies_and_another_freezes(monkeypatch):
    monkeypatch.setattr(network, "PATIENCE", 1.0)
    steps = 200
    with leader() as peers, peer(peers.invitation) as one:
        others = []

        def join():
            others.append(context := peer(peers.invitation))
            others.append(context.__enter__())
            wait_until(joined(peers, 2))

        actions = {50: join, 100: lambda: one.send_signal(signal.SIGKILL), 150: lambda: freeze(others[1])}
        wait_until(joined(peers, 1))
        trained = evaluator(steps).evaluate(request(peers=peers), during(peers, actions))
        others[0].__exit__(None, None, None)
    changes = trained.evaluation.slices
    assert [slices for _, slices in changes] == [2, 3, 2, 1]
    assert [step for step, _ in changes][:2] == [0, 50]
    assert trained.evaluation.steps == steps
    assert replayed(trained, steps).weights == trained.weights


def freeze(process):
    process.send_signal(signal.SIGSTOP)


def test_there_are_no_more_peers_than_places():
    with leader(most=1) as peers, peer(peers.invitation):
        wait_until(joined(peers, 1))
        with pytest.raises(NoPlace):
            Membership(peers.invitation, lambda: None)


def test_a_wrong_token_is_refused():
    with leader() as peers:
        wrong = msgspec.structs.replace(peers.invitation, token=bytes(PROOF))
        with pytest.raises(OSError, match=r"token|closed|reset"):
            Membership(wrong, lambda: None)
        assert peers.begin(0, None, None) == 1
        assert peers._places == 2


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000), b"\xff" * 64])
def test_garbage_sent_to_the_port_is_refused(words, monkeypatch):
    monkeypatch.setattr(network, "PATIENCE", 0.5)
    with leader() as peers, socket.create_connection(("127.0.0.1", peers.invitation.port)) as stranger:
        stranger.settimeout(10)
        with suppress(ConnectionError):
            stranger.sendall(words)
            while stranger.recv(1 << 16):  # until the leader hangs up
                pass
        assert peers.begin(0, None, None) == 1


def test_a_stranger_cannot_answer_with_our_own_proof():
    """It sends back the challenge that it got, and then the answer to it."""
    with leader() as peers, socket.create_connection(("127.0.0.1", peers.invitation.port)) as stranger:
        stranger.settimeout(10)
        challenge = stranger.recv(PROOF, socket.MSG_WAITALL)
        stranger.sendall(challenge)
        stranger.sendall(stranger.recv(PROOF, socket.MSG_WAITALL))
        assert stranger.recv(1) == b""


@pytest.mark.parametrize("lengths", [(2**32 - 1, 0), (1, 2**63), (4, 12)])
def test_a_peer_that_sends_nonsense_is_dropped(lengths):
    with leader() as peers, socket.create_connection(("127.0.0.1", peers.invitation.port)) as connection:
        link = Link(connection)
        link.prove(peers.invitation.token, is_leader=False)
        assert link.receive()[0] is True
        link.send("ready")
        wait_until(joined(peers, 1))
        assert peers.begin(0, lambda: memoryview(bytes(8)), lambda: b"state") == 2
        connection.sendall(network._LENGTHS.pack(*lengths) + b"\xa1x\xa1x" * 4)
        assert peers.collect(1, memoryview(bytearray(8))) is None
        assert peers.begin(1, None, None) == 1


def test_a_peer_that_costs_more_than_it_saves_is_dropped(monkeypatch):
    monkeypatch.setattr(network, "PATIENCE", 0.5)
    with leader() as peers, socket.create_connection(("127.0.0.1", peers.invitation.port)) as connection:
        link, body = Link(connection), memoryview(bytearray(8))
        link.prove(peers.invitation.token, is_leader=False)
        link.receive()
        link.send("ready")
        wait_until(joined(peers, 1))

        def slowly():
            with suppress(OSError):
                link.receive()
                while True:
                    link.receive(memoryview(bytearray(8)))
                    time.sleep(0.2)
                    link.send(1.0, body)

        threading.Thread(target=slowly, daemon=True).start()
        steps = 0
        while peers.begin(steps, lambda: body, lambda: b"") == 2:
            peers.collect(1, body)
            steps += 1
        assert 1 <= steps <= 4


def test_an_invitation_of_another_machine_is_for_nobody_here():
    with leader() as peers:
        assert peers.invitation.address == "127.0.0.1"
        assert peers.invitation.is_for_here
        assert not msgspec.structs.replace(peers.invitation, host="elsewhere").is_for_here
    with pytest.raises(OSError):
        Membership(peers.invitation, lambda: None)
