"""Joining a Ray cluster, and checks of its nodes before workers are started there."""

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

Ray = Any  # the module `ray`, an optional dependency

PATIENCE = 120.0  # seconds for a node's first answer: it must start a process for it
LONG_PATIENCE = 1800.0  # seconds for a node to prepare images, which it may have to download


def join(address: str | None) -> Ray:
    """Return Ray connected to the cluster at `address`, to the one RAY_ADDRESS names, or to a new one here."""
    try:
        import ray
    except ImportError:
        raise MissingDependencyError("Ray is not installed; type: pip install 'genepool[ray]'.") from None
    if ray.is_initialized():  # several pools of one process share a cluster
        return ray
    if address in (None, "auto"):  # RAY_ADDRESS comes first, as in Ray itself
        address = os.environ.get("RAY_ADDRESS") or address
    if address not in (None, "auto", "local"):
        _require_reachable(str(address))
    # By default Ray runs its workers at niceness 15, so any other process would slow trainings down.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # Ray's core writes errors to its driver's terminal, such as the loss of a node, which the pool deals with.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        with _quiet_stderr():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises bare ones too
        raise _connection_error(error, address) from error
    return ray


def address_of_node(ray: Ray) -> str | None:
    """Return where other nodes reach this one; None if there are none, so that nothing listens to the network."""
    from ray.util import get_node_ip_address

    return str(get_node_ip_address()) if sum(node["Alive"] for node in ray.nodes()) > 1 else None


def is_joined() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Discard what Ray's threads write straight to standard error; errors are raised as well."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _require_reachable(address: str) -> None:
    """Raise EngineError if nothing listens at `address`: Ray itself would keep trying for minutes."""
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


def _connection_error(error: Exception, address: str | None) -> EngineError:
    text = str(error).strip()
    if isinstance(error, ConnectionError) and _at(address):  # something answers there, but refuses us
        return EngineError(
            f"What answers{_at(address)} is not a Ray cluster, or wants another token; put the cluster's token, "
            "which `ray get-auth-token` prints, into ~/.ray/auth_token or RAY_AUTH_TOKEN."
        )
    if isinstance(error, ConnectionError):
        return EngineError("No Ray cluster was found; start one with `ray start --head`, or leave --address out.")
    if "timed out" in text or "raylet" in text:
        return EngineError(
            "Ray did not start in time: the machine is too busy, or something (such as a sitecustomize) makes every "
            "Python process slow to start; try again when a core is free, or run without --engine ray."
        )
    return EngineError(f"Ray cannot be used{_at(address)}: {shown(text.splitlines()[0] if text else repr(error))}.")


def _at(address: str | None) -> str:
    return "" if address in (None, "auto", "local") else f" at {shown(str(address))}"


def here(ray: Ray) -> str:
    """The ID of the node that this process runs on."""
    return str(ray.get_runtime_context().get_node_id())


def pinned(node: str) -> dict[str, Any]:
    """Options of a task or actor that must run on one particular node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def places(ray: Ray, resources: dict[str, float], node: str | None = None) -> int:
    """How many workers fit on a node, or on all nodes together; one that reserves nothing counts as one core."""
    found = [n["Resources"] for n in ray.nodes() if n["Alive"] and node in (None, n["NodeID"])]
    resources = resources or {"CPU": 1.0}
    return sum(min(int(has.get(name, 0.0) / amount + 1e-9) for name, amount in resources.items()) for has in found)


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def check_nodes(ray: Ray, directory: Path | None, resources: dict[str, float]) -> None:
    """Raise EngineError if a node has another release of Genepool, or does not see the directory (if given). The path
    may lead to another directory there, so nodes read a file with a random text in it.
    """
    with _probe_file(directory) as (path, text):
        answers = _on_each_node(ray, _node_facts(), (path,), resources, PATIENCE)
        for node, (version, seen) in answers:
            if version != __version__:
                raise EngineError(
                    f"Node {_name(node)} has Genepool {version}, but this machine has {__version__}; "
                    "install the same everywhere."
                )
            if path is not None and seen != text:
                raise EngineError(
                    f"Node {_name(node)} does not see '{shown(str(directory))}'; put the experiment on a file system "
                    "that all nodes share, or add --serve-population."
                )


@contextlib.contextmanager
def _probe_file(directory: Path | None) -> Iterator[tuple[str | None, str]]:
    if directory is None:
        yield None, ""
        return
    text = secrets.token_hex(8)
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    probe = logs / f"probe-{text}"
    probe.write_text(text)
    try:
        yield str(probe), text
    finally:
        probe.unlink(missing_ok=True)


def _node_facts() -> Callable[[str | None], tuple[str, str | None]]:
    """A nested function, because Ray sends those by value: nodes with another release can run it too."""

    def node_facts(probe: str | None) -> tuple[str, str | None]:
        import pathlib

        import genepool

        try:
            return genepool.__version__, None if probe is None else pathlib.Path(probe).read_text()
        except OSError:
            return genepool.__version__, None

    return node_facts


def check_images(ray: Ray, digest: Callable[[Any], str], options: Any, resources: dict[str, float]) -> str:
    """Prepare the images on every node and return their digest; raise EngineError if a node has other images."""
    mine = digest(options)
    for node, theirs in _on_each_node(ray, digest, (options,), resources, LONG_PATIENCE):
        if theirs != mine:
            raise EngineError(
                f"The images on node {_name(node)} differ from those here; put the same files on all nodes."
            )
    return mine


def _on_each_node(
    ray: Ray, function: Callable[..., Any], arguments: tuple[Any, ...], resources: dict[str, float], patience: float
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield each node that has room for a worker, with what a function returns there."""
    nodes = [node for node in ray.nodes() if node["Alive"] and places(ray, resources, node["NodeID"])]
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
                f"Node {_name(node)} has not answered for {patience:.0f} s; check its network and its load."
            ) from None
        except exceptions.RayTaskError as error:
            cause = error.cause
            raise EngineError(f"Node {_name(node)} cannot work: {_words(cause)}") from None
        except exceptions.RayError as error:
            if not isinstance(error, exceptions.TaskUnschedulableError):  # the node has left, which is harmless
                raise EngineError(f"Node {_name(node)} cannot work: {_words(error)}") from None


def _words(cause: BaseException) -> str:
    if isinstance(cause, ImportError):
        return f"Genepool is missing there, or is another release ({cause}); install the same on all nodes."
    return (str(cause).strip().splitlines() or [repr(cause)])[0]
