"""Experiments and dashboards for tests: real directories, real workers, real processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from genepool.analysis import Ledger
from genepool.dna import Shape, individual_flops, requirements
from genepool.evaluation import Evaluation, Trained, ignore
from genepool.evolution import Surroundings
from genepool.experiment import Experiment
from genepool.settings import override, preset
from genepool.testing import toy_evaluator

COMMAND = [sys.executable, "-m", "genepool"]
PATIENCE = 300.0
"""Seconds; everything is slow on a busy machine."""


class Judge:
    """An evaluator without training: fitness from the DNA, and the requirements of a training on fashion-mini."""

    def evaluate(self, request, observe=ignore):
        dna, seed = request.dna, request.seed
        needs = requirements(dna, Shape(28, 28, 1), 10, 50)
        told = Evaluation(
            fitness=min(0.95, toy_evaluator.toy_fitness(dna) * 0.9 + seed % 97 / 1e4),
            parameters=needs.parameters,
            flops_forward=needs.forward.total,
            flops_training=needs.training.total,
            flops=individual_flops(needs, 100, 1000),
            steps=100,
            losses=tuple((step, 2.3 / (1 + step / 20)) for step in range(0, 100, 5)),
            inherited=tuple(f"edge_{edge.id}.weight" for edge in dna.convs[1:]),
            fresh=tuple(f"edge_{edge.id}.weight" for edge in dna.convs[:1]),
            seconds=0.02,
            stepping=0.015,
        )
        return Trained(told, b"weights")


def experiment(directory: Path, *settings: str) -> Experiment:
    """A small experiment without limits, with the paper's mutations."""
    words = [
        "budget.time=none",
        "population.size=6",
        "population.durability=fast",
        "population.set_point=damped",
        "population.founders=two",
        "population.lease=5",
        *settings,
    ]
    return Experiment.create(directory, override(preset("faithful"), words))


def evolve(where: Experiment, births: int) -> None:
    """Evolve in the directory with one worker until `births` more individuals are alive."""
    judge, ledger = Judge(), Ledger(where.view())
    ledger.refresh()
    goal = len(ledger) + births

    def enough() -> str | None:
        ledger.refresh()
        return "enough" if len(ledger) >= goal else None

    worker = where.worker(0, lambda version: judge, Surroundings(reason_to_stop=enough))
    worker.run()
    worker.population.close()


class Client:
    """A client of the API."""

    def __init__(self, address: str, token: str = "", process: subprocess.Popen[str] | None = None) -> None:
        self.address, self.token, self._process = address, token, process
        self.place = address.removeprefix("http://").rstrip("/")

    def ask(self, path: str, *, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.place, timeout=PATIENCE)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, None if body is None else json.dumps(body), named)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def end(self) -> None:
        """Stop the dashboard and wait until it is gone."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE)

    def headers(self, path: str) -> dict[str, str]:
        """The headers of a response, by their names in lower case."""
        connection = http.client.HTTPConnection(self.place, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return {name.lower(): value for name, value in connection.getresponse().getheaders()}
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, data = self.ask(path)
        assert status == 200, (path, status, data)
        return json.loads(data)

    def order(self, key: str, body: Any, token: str | None = None) -> tuple[int, Any]:
        headers = {"content_type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        status, data = self.ask(f"/api/experiments/{key}/control", method="POST", body=body, **headers)
        return status, json.loads(data)

    def keys(self) -> dict[str, str]:
        return {one["name"]: one["key"] for one in self.get("/api/experiments")["experiments"]}

    def status(self, key: str) -> Any:
        return self.get(f"/api/experiments/{key}")

    def events(self, key: str, since: str = "", last: str = "") -> Iterator[tuple[str, str, Any]]:
        """Name, ID and document of each message of the live feed."""
        connection = http.client.HTTPConnection(self.place, timeout=PATIENCE)
        try:
            headers = {"last-event-id": last} if last else {}
            connection.request("GET", f"/api/experiments/{key}/events?since={since}", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200
            message: dict[str, str] = {}
            while line := answer.readline().decode():
                if line == "\n":
                    if "event" in message:
                        yield message["event"], message.get("id", ""), json.loads(message["data"])
                    message = {}
                else:
                    name, _, value = line.rstrip("\n").partition(": ")
                    message[name] = value
        finally:
            connection.close()


@contextlib.contextmanager
def dashboard(place: Path, *options: str) -> Iterator[Client]:
    """A dashboard in its own process."""
    command = [*COMMAND, "dashboard", str(place), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("dashboard  http://127.0.0.1:"), line + (process.stderr.read() if process.stderr else "")
        address, _, token = line.split()[1].partition("#token=")
        yield Client(address, token, process)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""


def look_again(client: Client, key: str) -> None:
    """Wait for a refresh that started after this call; one in progress may have missed something."""
    now = time.time()
    ended = wait_for(lambda: (at := client.status(key)["seen_at"]) > now and at)
    wait_for(lambda: client.status(key)["seen_at"] > ended)


def wait_for(true: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait until the function returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
    return found
