"""The processes of a Ray test cluster, as the system shows them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def raylet_of(node: Any) -> int:
    """The process that is the node: all others of it are its children."""
    return int(node.all_processes["raylet"][0].process.pid)


def children(parent: int) -> Iterator[tuple[int, str]]:
    """Process numbers and titles; Ray titles its workers by what they do."""
    for entry in Path("/proc").iterdir():
        try:
            number = int(entry.name)
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            title = (entry / "cmdline").read_bytes().decode(errors="replace")
        except (OSError, ValueError):
            continue
        if int(status[1]) == parent and status[0] != "Z":
            yield number, title


def doing(cluster: Any, what: str) -> list[int]:
    """The processes of all nodes that run a task or an actor of that name."""
    raylets = [raylet_of(node) for node in cluster.list_all_nodes()]
    return [pid for raylet in raylets for pid, title in children(raylet) if title.startswith(f"ray::{what}")]


def kill_hard(cluster: Any, node: Any) -> None:
    """As a power cut does: the node and everything that it has started, at once."""
    raylet = raylet_of(node)
    mine = [pid for pid, _ in children(raylet)]
    os.kill(raylet, signal.SIGKILL)
    for pid in mine:
        with contextlib.suppress(ProcessLookupError):  # it has noticed already
            os.kill(pid, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


def kill_in_its_namespace(process: int) -> None:
    """A process and all others that have the same view of the file systems, which is not ours."""
    view = Path(f"/proc/{process}/ns/mnt").readlink()
    assert view != Path("/proc/self/ns/mnt").readlink()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if (entry / "ns/mnt").readlink() == view:
                os.kill(int(entry.name), signal.SIGKILL)
