"""Joining a Ray cluster, and what must hold on each of its nodes before workers are sent there."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from genepool import __version__
from genepool.errors import EngineError, MissingDependencyError, shown

Ray = Any
"""The module `ray`, which is here only where somebody has installed it."""

PATIENCE = 120.0
"""Seconds for a node to answer its first question: it must start a process for it."""
LONG_PATIENCE = 1800.0
"""Seconds for a node to get images ready, which it may have to fetch."""


def join(address: str | None) -> Ray:
    """Ray, connected to the cluster at an address, to the one that RAY_ADDRESS names, or to one of its own here."""
    try:
        import ray
    except ImportError:
        raise MissingDependencyError("Ray is not installed; type: pip install 'genepool[ray]'.") from None
    if address in (None, "auto"):  # as Ray does
        address = os.environ.get("RAY_ADDRESS") or address
    if address not in (None, "auto", "local"):
        _knock(str(address))
    # Ray gives its workers the lowest priority but four, so anything else on the machine would slow trainings down.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        with _hushed():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # bare ones too, when it cannot start
        raise _refusal(error, address) from error
    return ray


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Without the remarks that Ray's own threads write straight to standard error; what matters is raised as well."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _knock(address: str) -> None:
    """Ray itself would try for minutes to reach what is not there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address.startswith("ray://") or not host or not port.isdigit():
        raise EngineError(
            f"'{shown(address)}' is not the address of a Ray cluster; write it like 10.0.0.5:6379, or auto."
        )
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"No Ray cluster answers at {shown(address)} ({error}); check the address, and `ray status` there."
        ) from None


def _refusal(error: Exception, address: str | None) -> EngineError:
    text = str(error).strip()
    if isinstance(error, ConnectionError) and _at(address):  # something answers there, but not to us
        return EngineError(
            f"No Ray cluster lets us in{_at(address)}: it is something else, or wants another token; put the cluster's "
            "token into ~/.ray/auth_token or RAY_AUTH_TOKEN, as `ray get-auth-token` tells."
        )
    if isinstance(error, ConnectionError):
        return EngineError("No Ray cluster was found; start one with `ray start --head`, or leave --address out.")
    if "timed out" in text or "raylet" in text:
        return EngineError(
            "Ray did not start in time: the machine is too busy, or something (a sitecustomize, say) makes every "
            "Python slow to start; wait until there is a free core and try again, or run without --engine ray."
        )
    return EngineError(f"Ray cannot be used{_at(address)}: {shown(text.splitlines()[0] if text else repr(error))}.")


def _at(address: str | None) -> str:
    return "" if address in (None, "auto", "local") else f" at {shown(str(address))}"


def here(ray: Ray) -> str:
    """The node that this process is on."""
    return str(ray.get_runtime_context().get_node_id())


def pinned(node: str) -> dict[str, Any]:
    """Options for what must run on one node and nowhere else."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def places(ray: Ray, asked: dict[str, float], node: str | None = None) -> int:
    """How many workers fit on a node, or on all of them together; one that asks for nothing fits once a core."""
    found = [n["Resources"] for n in ray.nodes() if n["Alive"] and node in (None, n["NodeID"])]
    asked = asked or {"CPU": 1.0}
    return sum(min(int(has.get(name, 0.0) / amount + 1e-9) for name, amount in asked.items()) for has in found)


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def check_nodes(ray: Ray, directory: Path | None, asked: dict[str, float]) -> None:
    """Refuses a cluster with a node that has another release of Genepool, or does not see the directory (if given).

    The same name may lead to another directory there: a file with a secret word in it tells.
    """
    with _marker(directory) as (path, word):
        answers = _on_each_node(ray, _question(), (path,), asked, PATIENCE)
        for node, (version, seen) in answers:
            if version != __version__:
                raise EngineError(
                    f"Node {_name(node)} has Genepool {version}, here it is {__version__}; install the same everywhere."
                )
            if path is not None and seen != word:
                raise EngineError(
                    f"Node {_name(node)} does not see '{shown(str(directory))}'; put the experiment on a file system "
                    "that all nodes share, or add --serve-population."
                )


@contextlib.contextmanager
def _marker(directory: Path | None) -> Iterator[tuple[str | None, str]]:
    if directory is None:
        yield None, ""
        return
    word = secrets.token_hex(8)
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    marker = logs / f"marker-{word}"
    marker.write_text(word)
    try:
        yield str(marker), word
    finally:
        marker.unlink(missing_ok=True)


def _question() -> Callable[[str | None], tuple[str, str | None]]:
    """A function within a function travels as it is, so that even a release that does not know it can answer."""

    def question(marker: str | None) -> tuple[str, str | None]:
        import pathlib

        import genepool

        try:
            return genepool.__version__, None if marker is None else pathlib.Path(marker).read_text()
        except OSError:
            return genepool.__version__, None

    return question


def check_images(ray: Ray, images_of: Callable[[Any], str], options: Any, asked: dict[str, float]) -> str:
    """Prepares the images on every node, once, and refuses a node on which they are others than here; tells which."""
    mine = images_of(options)
    for node, theirs in _on_each_node(ray, images_of, (options,), asked, LONG_PATIENCE):
        if theirs != mine:
            raise EngineError(f"The images on node {_name(node)} are not those here; put the same files on all nodes.")
    return mine


def _on_each_node(
    ray: Ray, function: Callable[..., Any], arguments: tuple[Any, ...], asked: dict[str, float], patience: float
) -> Iterator[tuple[dict[str, Any], Any]]:
    """What a function says on each node that could have a worker."""
    nodes = [node for node in ray.nodes() if node["Alive"] and places(ray, asked, node["NodeID"])]
    remote = ray.remote(function)
    sent = [
        (node, remote.options(num_cpus=0, max_retries=2, **pinned(node["NodeID"])).remote(*arguments)) for node in nodes
    ]
    exceptions = ray.exceptions
    for node, reference in sent:
        try:
            yield node, ray.get(reference, timeout=patience)
        except exceptions.GetTimeoutError:
            raise EngineError(
                f"Node {_name(node)} has not answered for {patience:.0f} s; is it too busy, or out of reach?"
            ) from None
        except exceptions.RayTaskError as error:
            cause = error.cause
            raise EngineError(f"Node {_name(node)} cannot work: {_words(cause)}") from None
        except exceptions.RayError as error:
            if not isinstance(error, exceptions.TaskUnschedulableError):  # it has gone, which is no harm
                raise EngineError(f"Node {_name(node)} cannot work: {_words(error)}") from None


def _words(cause: BaseException) -> str:
    if isinstance(cause, ImportError):
        return f"Genepool is not installed there, or another release ({cause}); install the same on all nodes."
    return (str(cause).strip().splitlines() or [repr(cause)])[0]
