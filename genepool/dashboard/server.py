"""The routes of the dashboard, its live feed, and the process that serves them."""

import asyncio
import io
import logging
import os
import re
import secrets
import socket
import threading
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from genepool.dashboard import documents
from genepool.dashboard.experiments import Folder, ObservedExperiment
from genepool.dashboard.export import KINDS, page
from genepool.dashboard.guard import Guard, Order, obey
from genepool.dashboard.individual import Details
from genepool.errors import GenepoolError, PopulationFormatError, SettingsError, StorageError, shown

MOST_ROWS = 5000  # the largest number of rows in one message of the feed
CHECK_EVERY = 0.5  # seconds between two checks whether there is something to send
LARGEST_ORDER = 1 << 16
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)


class Dashboard:
    """Serves one folder; clients that send the token may change experiments."""

    def __init__(self, place: Path, *, host: str = "127.0.0.1", token: str | None = None) -> None:
        self._folder, self._token, self._page = Folder(place), token, page()
        self.is_ending: Callable[[], bool] = lambda: False  # whether the feeds should end; they never end by themselves
        each = "/api/experiments/{key}"
        self.app = Starlette(
            routes=[
                *(Route(f"/{'' if name == 'index.html' else name}", self._file(name)) for name in KINDS),
                Route("/api", self._about),
                Route("/api/experiments", self._experiments),
                Route(each, self._of_one(lambda one, request: documents.status(one.observer))),
                Route(f"{each}/individuals", self._of_one(_individuals)),
                Route(f"{each}/individuals/{{id}}", self._of_one(lambda one, r: one.details.individual(_id(r)))),
                Route(f"{each}/individuals/{{id}}/dna", self._download("dna.json", Details.dna_text)),
                Route(f"{each}/individuals/{{id}}/model", self._download("model.zip", _model_archive)),
                Route(f"{each}/lineage/{{id}}", self._of_one(lambda one, r: one.details.lineage(_id(r)))),
                Route(f"{each}/workers", self._of_one(lambda one, r: documents.workers(one.observer, one.workers))),
                Route(f"{each}/records", self._of_one(lambda one, request: documents.records(one.observer))),
                Route(f"{each}/events", self._events),
                Route(f"{each}/control", self._control, methods=["POST"]),
            ],
            middleware=[Middleware(Guard, host=host)],
            exception_handlers={HTTPException: _refused, GenepoolError: _sentence},
        )

    def _file(self, name: str) -> Callable[..., Any]:
        async def answer(request: Request) -> Response:
            return Response(self._page[name], media_type=KINDS[name], headers={"cache-control": "no-cache"})

        return answer

    async def _about(self, request: Request) -> Response:
        name = shown(self._folder.place.resolve().name)
        return _json(documents.about(control=self._token is not None, single=self._folder.single, name=name))

    async def _experiments(self, request: Request) -> Response:
        return _json({"experiments": await run_in_threadpool(self._folder.experiments)})

    def _of_one(self, document: Callable[[ObservedExperiment, Request], Any]) -> Callable[..., Any]:
        async def answer(request: Request) -> Response:
            one = await self._observed(request)
            return await run_in_threadpool(lambda: _json(document(one, request)))

        return answer

    async def _observed(self, request: Request) -> ObservedExperiment:
        return await self._folder.observed(request.path_params["key"])

    def _download(self, name: str, contents: Callable[[Details, str], bytes]) -> Callable[..., Any]:
        async def answer(request: Request) -> Response:
            one, identity = await self._observed(request), _id(request)
            data, suffix = await run_in_threadpool(contents, one.details, identity), name.partition(".")[2]
            return Response(data, media_type=f"application/{suffix}", headers=_as_file(one, identity, name))

        return answer

    async def _events(self, request: Request) -> Response:
        one = await self._observed(request)
        cursor = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return StreamingResponse(
            _feed(one, cursor, self.is_ending), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    async def _control(self, request: Request) -> Response:
        self._demand_token(request)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "An order must be JSON.")
        try:
            order = msgspec.json.decode(await _body(request), type=Order)
        except msgspec.MsgspecError as error:
            raise SettingsError(f"The order cannot be read: {shown(str(error))}.") from None
        one = await self._observed(request)
        return _json(await run_in_threadpool(obey, one.observer, order))

    def _demand_token(self, request: Request) -> None:
        if self._token is None:
            raise HTTPException(403, "This dashboard is read-only; start it with --control to change anything.")
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secrets.compare_digest(given.encode(), self._token.encode()):
            raise HTTPException(401, "The token is missing or wrong; it was printed when the dashboard was started.")


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _individuals(one: ObservedExperiment, request: Request) -> Any:
    since = documents.sequence_of(one.observer, request.query_params.get("since", ""))
    return documents.individuals(one.observer, since or 0)


async def _feed(one: ObservedExperiment, cursor: str, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
    """The rows that change, with the cursor that a reconnecting client sends back; and the status."""
    one.followers += 1
    sent = 0
    try:
        yield "retry: 1500\n\n"
        while not is_ending():
            since = documents.sequence_of(one.observer, cursor)
            if since is None:  # from before a restart, so its numbers are not valid here
                since, cursor = 0, f"{one.observer.boot}-0"
                yield "event: reset\ndata: {}\n\n"
            if since < one.observer.table.sequence:
                rows = await run_in_threadpool(documents.individuals, one.observer, since, MOST_ROWS)
                cursor = rows["cursor"]
                yield f"event: rows\nid: {cursor}\ndata: {msgspec.json.encode(rows).decode()}\n\n"
            if one.status.is_due():
                await run_in_threadpool(one.status.renew)
            if one.status.number != sent:
                sent = one.status.number
                yield f"event: status\ndata: {one.status.text}\n\n"
            if (documents.sequence_of(one.observer, cursor) or 0) >= one.observer.table.sequence:
                await asyncio.sleep(CHECK_EVERY)
    finally:
        one.followers -= 1
        one.requested = time.monotonic()


async def _body(request: Request) -> bytes:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_ORDER:
            raise HTTPException(413, "The order is too long.")
    return data


def _model_archive(details: Details, identity: str) -> bytes:
    """DNA, weights and facts of an individual as a zip file."""
    facts = {key: value for key, value in details.individual(identity).items() if key not in ("dna", "layers")}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("weights.safetensors", details.weights(identity))
        archive.writestr("dna.json", details.dna_text(identity))
        archive.writestr("individual.json", msgspec.json.format(msgspec.json.encode(facts), indent=2))
    return buffer.getvalue()


def _as_file(one: ObservedExperiment, identity: str, kind: str) -> dict[str, str]:
    name = _UNSAFE.sub("-", f"{one.found.name}-{identity}-{kind}").strip("-.")
    return {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers={"cache-control": "no-store"})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


async def _sentence(request: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, PopulationFormatError) else 503 if isinstance(error, StorageError) else 422
    return JSONResponse({"error": shown(str(error))}, status_code=status)


# -- the process -------------------------------------------------------------------------------------------------------


def listen(host: str, port: int | None, usual: int) -> socket.socket:
    """A socket at that port; without one, at the usual port, or at any if that is taken."""
    for attempt in (usual, 0) if port is None else (port,):
        try:
            return socket.create_server((host, attempt), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            fault = error
    where = f"{shown(host)}:{port if port is not None else usual} ({fault.strerror or fault})"
    raise SettingsError(f"The dashboard cannot listen at {where}; choose another --port or --host.")


def serve(dashboard: Dashboard, listening: socket.socket, parent: int | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM, or until the parent process is gone."""
    config = uvicorn.Config(
        dashboard.app, log_level="warning", access_log=False, timeout_graceful_shutdown=3, lifespan="off"
    )
    server = uvicorn.Server(config)
    dashboard.is_ending = lambda: server.should_exit
    # A sleeping page does not read the end of its feed and is cut off; that is no error.
    logging.getLogger("uvicorn.error").addFilter(lambda record: not server.should_exit)
    if parent is not None:
        threading.Thread(target=_end_with, args=(server, parent), daemon=True).start()
    server.run(sockets=[listening])


def _end_with(server: uvicorn.Server, parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    server.should_exit = True
