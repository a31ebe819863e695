"""Clients of a dashboard, and the CPU time of processes."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.dashboard import fetched

TICK = os.sysconf("SC_CLK_TCK")


class Heard:
    """What a client of the feed has received."""

    bytes = 0


@contextlib.contextmanager
def streaming(address: str) -> Iterator[Heard]:
    """A program that reads all documents and follows the feed."""
    heard = Heard()
    (one,) = fetched(f"{address}api/experiments")["experiments"]
    path = f"api/experiments/{one['key']}"
    while fetched(f"{address}{path}")["reading"]:
        time.sleep(0.2)
    cursor = fetched(f"{address}{path}/individuals")["cursor"]
    connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"))
    connection.request("GET", f"/{path}/events?since={cursor}")
    answer = connection.getresponse()

    def listen() -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):  # closed meanwhile
            while line := answer.readline():
                heard.bytes += len(line)

    threading.Thread(target=listen, daemon=True).start()
    yield heard


@contextlib.contextmanager
def browsing(address: str) -> Iterator[Any]:
    """A browser that shows the population."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(address)
        while not page.evaluate("() => window.genepoolCloud?.frames.count > 0 && genepoolCloud.population.size > 100"):
            time.sleep(0.2)
        yield page
        browser.close()


def descendants(process: int) -> list[int]:
    """Return all processes below a process."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children[int(_stat(int(entry.name))[1])].append(int(entry.name))
    found, waiting = [], [process]
    while waiting:
        below = children[waiting.pop()]
        found += below
        waiting += below
    return found


def processor_time(processes: list[int]) -> float:
    """Return the seconds of CPU time that they have used so far."""
    return sum((int(fields[11]) + int(fields[12])) / TICK for fields in map(_stat, processes))


def _stat(process: int) -> list[str]:
    """Return the fields of the kernel's line about a process, from its state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def woken(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
