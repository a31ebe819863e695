"""The page with 100,000 individuals: reading, first paint, redraws while zooming, memory of the server.

    python -m benchmarks.dashboard [--individuals 100000] [--screenshot file.png]

The individuals are real archives of collected ones, with records of realistic size, and a living population of 1,000.
The page runs in headless Chromium, which renders in software. The exit code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.old_experiment import bytes_of, large

ALIVE = 1000
FIRST_PAINT, FRAMES_A_SECOND, MEGABYTES = 3.0, 30.0, 400.0
"""The bars."""


def main() -> int:
    """Print the figures and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--individuals", type=int, default=100_000)
    parser.add_argument("--screenshot", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-dashboard-") as folder:
        began, place = time.perf_counter(), Path(folder) / "large"
        size = bytes_of(large(place, asked.individuals, min(ALIVE, asked.individuals // 2)))
        print(f"{asked.individuals} individuals written: {size / 1e6:.0f} MB in {time.perf_counter() - began:.1f} s")
        missed = measure(place, asked.individuals, asked.screenshot)
    for bar in missed:
        print(f"missed: {bar}")
    return 1 if missed else 0


@contextlib.contextmanager
def served(place: Path) -> Iterator[tuple[str, int]]:
    """Start a dashboard; yield its address and process."""
    command = [sys.executable, "-m", "genepool", "dashboard", str(place), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1], process.pid
    finally:
        process.terminate()
        process.wait()


def memory(process: int) -> tuple[float, float]:
    """Return the resident megabytes, now and at their peak."""
    facts = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(facts["VmRSS"].split()[0]) / 1024, int(facts["VmHWM"].split()[0]) / 1024


def measure(place: Path, count: int, screenshot: Path | None) -> list[str]:
    """Measure everything and return the targets that were missed."""
    with served(place) as (address, process):
        began = time.perf_counter()
        key = fetched(f"{address}api/experiments")["experiments"][0]["key"]
        while fetched(f"{address}api/experiments/{key}")["reading"]:
            time.sleep(0.2)
        print(f"read in {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        with urllib.request.urlopen(f"{address}api/experiments/{key}/individuals") as answer:
            size = len(answer.read())
        print(f"all individuals as JSON: {size / 1e6:.1f} MB in {time.perf_counter() - began:.2f} s")
        missed = _look(address, count, screenshot)
        now, most = memory(process)
        print(f"memory of the server: {now:.0f} MB, {most:.0f} MB at most (bar: below {MEGABYTES:.0f} MB)")
        return [*missed, *(["memory"] if most >= MEGABYTES else [])]


def _look(address: str, count: int, screenshot: Path | None) -> list[str]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        began = time.perf_counter()
        page.goto(address)
        while not page.evaluate(
            f"() => (window.genepoolCloud?.frames.count > 0) && genepoolCloud.population.size >= {count}"
        ):
            time.sleep(0.02)
        paint = time.perf_counter() - began
        print(f"first paint of {count} dots: {paint:.2f} s (bar: below {FIRST_PAINT:g} s)")
        missed = ["first paint"] if paint >= FIRST_PAINT else []
        for name, script in (("zooming", ZOOMING), ("moving", MOVING)):
            rate, took = page.evaluate(script)
            print(f"redraw while {name}: {rate:.0f} frames a second (bar: {FRAMES_A_SECOND:g}), {took:.1f} ms for dots")
            missed += [name] if rate < FRAMES_A_SECOND else []
        print("nearest dot: {:.2f} ms, the first time {:.1f} ms".format(*page.evaluate(NEAREST)))
        if screenshot:
            page.evaluate("() => genepoolCloud.look(null)")
            page.wait_for_timeout(300)
            page.screenshot(path=screenshot)
        browser.close()
    return missed


FRAMES = """async (hand) => {
  const began = performance.now(), first = genepoolCloud.frames.count;
  let dots = 0, asked = 0;
  while (performance.now() - began < 3000) {
    hand(asked++);
    await new Promise(requestAnimationFrame);
    dots += genepoolCloud.frames.milliseconds;
  }
  const drawn = genepoolCloud.frames.count - first;
  return [1000 * drawn / (performance.now() - began), dots / asked];
}"""
ZOOMING = f"() => ({FRAMES})((i) => genepoolCloud.zoom(i % 40 < 20 ? 0.93 : 1 / 0.93, 0.7, 0.6))"
MOVING = f"() => ({FRAMES})((i) => genepoolCloud.pan(i % 40 < 20 ? 0.01 : -0.01, 0))"
NEAREST = """() => {
  genepoolCloud.grid = null;
  let began = performance.now();
  genepoolCloud.nearest(400, 200);
  const first = performance.now() - began;
  began = performance.now();
  for (let i = 0; i < 200; i++) genepoolCloud.nearest(3 * i, 200);
  return [(performance.now() - began) / 200, first];
}"""


def fetched(address: str) -> Any:
    """Fetch a document."""
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
