"""Workers over real ssh connections: two names of this machine, with an ssh server of the test's own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from genepool.experiment import Experiment
from genepool.settings import override, preset
from tests.support.debian_packages import PATH, require
from tests.support.processes import (
    COMMAND,
    assert_sound,
    genepool,
    steps_done,
    training,
    wait_until,
    workers_of,
)

PATIENCE = 300.0


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment in which ssh knows the hosts alpha and beta."""
    require(["sshd", "ssh", "ssh-keygen"], ["openssh-server", "openssh-client"])
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        key = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
        subprocess.run(key, check=True)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    server, client = folder / "server", folder / "client"
    server.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
        f"UsePAM no\nStrictModes no\nPasswordAuthentication no\nSetEnv GENEPOOL_CACHE={os.environ['GENEPOOL_CACHE']}\n"
    )
    client.write_text(
        f"Host alpha beta\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"
    )
    # The user's own settings of ssh stay as they are; these come in by a program in front of the real one.
    program = folder / "bin/ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPATH={PATH}\nexec ssh -F {client} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    Path("/run/sshd").mkdir(exist_ok=True)  # which the daemon's own package would have made at boot
    with (folder / "said").open("wb") as said:
        daemon = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", server], stdout=said, stderr=said)
    try:
        wait_until(lambda: b"listening" in (folder / "said").read_bytes(), PATIENCE)
        yield {**os.environ, "PATH": f"{program.parent}:{PATH}"}
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE)


def test_workers_over_ssh_begin_are_stopped_and_go_on(hosts, tmp_path):
    directory, script = tmp_path / "My shirts", tmp_path / "workers.sh"
    settings = [
        "training.steps=1000000",
        "training_budget.share=none",
        "final_phase.share=0",
        "budget.time=none",
        "population.lease=3",
        "training.checkpoint_every=0.5",
    ]
    Experiment.create(directory, override(preset("laptop"), settings))
    words = ("launch", "ssh", directory, "--workers", 2, "--hosts", "alpha,beta", "--out", script)
    assert genepool(*words).returncode == 0
    try:
        assert run(["bash", script], hosts) == ""
        wait_until(lambda: len(advanced(directory)) == 2, PATIENCE)
        begun = {one.id for one in training(directory)}
        assert run(["bash", script, "stop"], hosts) == ""
        wait_until(lambda: not workers_of(directory), PATIENCE)
        assert {one.owner for one in training(directory)} == {"free0000"}
        # Submitted as `genepool launch` does it, and told to come to an end: nobody is left.
        assert run([*COMMAND, "launch", "ssh", directory, "--workers", "2", "--hosts", "beta", "--submit"], hosts) == ""
        wait_until(lambda: len(advanced(directory)) == 2, PATIENCE)
        assert {one.id for one in training(directory)} == begun
        assert genepool("set", directory, "budget.time=1").returncode == 0
        wait_until(lambda: not workers_of(directory), PATIENCE)
    finally:
        loops = [int(note.read_text()) for note in (directory / "logs").glob("ssh-*.pid")]
        for process in (*loops, *workers_of(directory)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    assert_sound(directory)


def run(words: list, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [*map(str, words)], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).strip()


def advanced(directory: Path) -> list[str]:
    owned = [one for one in training(directory) if one.owner != "free0000"]
    return [one.id for one in owned if steps_done(directory, one.owner) > 0]
