"""Which requests are answered, and the orders of clients that have the token.

The dashboard answers any client that reaches its port, so other web pages must not reach it through the user's browser:
neither by a name of their own that resolves to this machine (see the Host header), nor by cross-site requests (see
Sec-Fetch-Site and Origin).
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import JSONResponse

from genepool.analysis import Observer, spending
from genepool.evolution import Intervention, Spending
from genepool.experiment import Experiment
from genepool.settings import by_name, differences, duration, override

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """Middleware that refuses requests and adds security headers."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._names = {"localhost", host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], scope["path"], headers)
        if refusal:
            await JSONResponse({"error": refusal}, status_code=403)(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _refusal(self, method: str, path: str, headers: dict[str, str]) -> str:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return "This name is not one of the dashboard's; open it by the address that it printed."
        site = headers.get("sec-fetch-site", "none")
        navigates = headers.get("sec-fetch-mode") == "navigate" and method == "GET" and not path.startswith("/api")
        if site not in ("none", "same-origin") and not navigates:
            return "Requests from other sites are not answered."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return "Requests from other origins are not answered."
        return ""

    def _is_ours(self, host: str) -> bool:
        """IP addresses are; of names only those of this machine, because anyone can register a name."""
        name = re.sub(r":[^:\]]*\Z", "", host.lower())  # without the port
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of `POST /api/experiments/KEY/control`, with one of these fields."""

    set: dict[str, str] = {}  # settings by name (`section.name`), with values as on the command line
    mutations: int = 0  # mutations per reproduction, while `lasts` lasts
    lasts: str = ""  # for a number of individuals (500) or a time (10m)
    reset_weights: bool = False
    stop: bool = False  # workers hand over their trainings and exit


def obey(observer: Observer, order: Order) -> dict[str, Any]:
    """Publish new settings, which workers use from their next step on."""
    experiment = Experiment.open(observer.path)
    if order.set:
        before = experiment.settings()
        after = override(before, [f"{name}={value}" for name, value in order.set.items()])
        return _done(experiment, experiment.set(differences(before, after)))
    if order.stop:
        return _done(experiment, experiment.set({"budget.individuals": max(1, _so_far(observer).individuals)}))
    individuals, seconds = duration(order.lasts) if order.lasts else (0, 0.0)
    intervention = Intervention(
        mutations=order.mutations, individuals=individuals, seconds=seconds, reset_weights=order.reset_weights
    )
    return _done(experiment, experiment.intervene(intervention, _so_far(observer)))


def _so_far(observer: Observer) -> Spending:
    observer.refresh()
    with observer.lock:
        return spending(observer.table)


def _done(experiment: Experiment, version: int | None) -> dict[str, Any]:
    return {"settings_version": version, "settings": by_name(experiment.settings())}
