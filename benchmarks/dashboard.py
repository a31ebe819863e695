"""The dashboard with 100,000 individuals: reading, first paint, redraws while zooming, memory of the server.

    python -m benchmarks.dashboard [--individuals 100000] [--screenshot file.png]

The individuals are written as real archives of collected ones, with records as large as real ones are, and a population
of 1,000 that is alive; the page runs in headless Chromium, which renders in software.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from genepool.dna import DNA, encode_in_a_line
from genepool.dna import initial as first_dna
from genepool.errors import MutationError
from genepool.experiment import Experiment
from genepool.mutations import MUTATIONS
from genepool.population import Birth, Fossil, Individual, Result, State, StoredFile, naming
from genepool.population.files import Files
from genepool.population.fossils import Archive
from genepool.settings import override, preset

WORKERS = 50
ALIVE = 1000
SIZES = 60
"""Different networks; records of the same one differ in everything else."""


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--individuals", type=int, default=100_000)
    parser.add_argument("--screenshot", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genepool-dashboard-") as folder:
        place = Path(folder) / "large"
        began = time.perf_counter()
        size = write(place, arguments.individuals)
        print(
            f"{arguments.individuals} individuals written: {size / 1e6:.0f} MB in {time.perf_counter() - began:.1f} s"
        )
        measure(place, arguments.individuals, arguments.screenshot)


# -- an experiment of that size ----------------------------------------------------------------------------------------


def networks(rng: random.Random) -> list[DNA]:
    """A line of networks as evolution makes them."""
    found = [first_dna()]
    names = ["insert-convolution", "insert-one-to-one", "add-skip", "alter-number-of-channels", "filter-size"]
    while len(found) < SIZES:
        with contextlib.suppress(MutationError):
            found.append(MUTATIONS.get(rng.choice(names))().mutate(found[-1], rng))
    return found


def write(place: Path, count: int) -> int:
    """Archives with so many dead, and the living of a population; returns their bytes."""
    rng = random.Random(1)
    settings = override(preset("paper"), ["data=cifar-10", "durability=fast", f"population_size={ALIVE}"])
    experiment = Experiment.create(place, settings)
    files = Files(durability="fast")
    texts = [msgspec.Raw(encode_in_a_line(dna)) for dna in networks(rng)]
    whos = [naming.make_who(rng.randbytes) for _ in range(WORKERS)]
    archives = []
    for who in whos:
        (place / "workers" / who).mkdir()
        archives.append(Archive(files, str(place / "workers" / who)))
    start, ids = time.time() - 86400.0, []
    for number in range(count):
        moment = start + 86400.0 * number / count
        identity = naming.make_id(int(1000 * moment), rng.randbytes(10))
        progress = number / count
        fitness = round(min(0.95, max(0.1, 0.95 * (1 - math.exp(-5 * progress)) - abs(rng.gauss(0, 0.06)))), 6)
        parent = ids[rng.randrange(max(0, len(ids) - 3000), len(ids))] if ids and rng.random() > 0.001 else None
        ids.append(identity)
        who = number % WORKERS
        birth = Birth(
            dna=texts[min(SIZES - 1, int(SIZES * progress * rng.uniform(0.6, 1.0)))],
            parents=(parent,) if parent else (),
            mutations=(rng.choice(MUTATIONS.names()),) if parent else (),
            mutation_seed=number,
            training_seed=number,
            id=identity,
            experiment=experiment.manifest.uuid,
            created=moment - 100,
        )
        result = Result(
            id=identity,
            attempt=f"1-{whos[who]}",
            fitness=fitness,
            metrics=metrics(progress, rng),
            files={naming.WEIGHTS: StoredFile(sha256="0" * 64, size=400_000)},
            finished=moment,
        )
        if number >= count - ALIVE:
            live(experiment, birth, result)
            continue
        dead = Individual(
            id=identity, state=State.DEAD, epoch=1, attempt=result.attempt, fitness=fitness, owner=whos[who], why="lost"
        )
        archives[who].add(Fossil(name=naming.encode(dead), birth=birth, result=result))
    for archive in archives:
        archive.close()
    return sum(path.stat().st_size for path in (place / "workers").rglob("*.log"))


def metrics(progress: float, rng: random.Random) -> dict[str, Any]:
    """As a training on CIFAR-10 tells them."""
    parameters = int(40 * 10 ** (5 * progress * rng.uniform(0.8, 1.0)))
    return {
        "parameters": parameters,
        "flops_forward": 100 * parameters,
        "flops_training": 300 * parameters,
        "flops": 300 * parameters * 25_600,
        "steps": 25_600,
        "losses": [(step, round(2.3 * math.exp(-step / 9000), 4)) for step in range(0, 25_600, 512)],
        "inherited": [f"edge_{rng.getrandbits(64):016x}.weight" for _ in range(20)],
        "fresh": [f"vertex_{rng.getrandbits(64):016x}.bias"],
        "seconds": 100.0,
        "stepping": 95.0,
    }


def live(experiment: Experiment, birth: Birth, result: Result) -> None:
    alive = Individual(id=birth.id, state=State.ALIVE, epoch=1, attempt=result.attempt, fitness=result.fitness)
    shard = naming.shard_name(naming.shard_of(birth.id, experiment.manifest.shards))
    folder = experiment.path / "pop" / shard / naming.encode(alive)
    folder.mkdir()
    (folder / naming.BIRTH).write_bytes(msgspec.json.encode(birth))
    (folder / naming.of_attempt(result.attempt, naming.RESULT)).write_bytes(msgspec.json.encode(result))


# -- measuring ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(place: Path) -> Iterator[tuple[str, int]]:
    """Address and process of a dashboard."""
    command = [sys.executable, "-m", "genepool", "dashboard", str(place), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1], process.pid
    finally:
        process.terminate()
        process.wait()


def memory(process: int) -> tuple[float, float]:
    """Resident megabytes now, and at their highest."""
    facts = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(facts["VmRSS"].split()[0]) / 1024, int(facts["VmHWM"].split()[0]) / 1024


def measure(place: Path, count: int, screenshot: Path | None) -> None:
    """Everything that is promised of the page."""
    with served(place) as (address, process):
        began = time.perf_counter()
        key = _json(f"{address}api/experiments")["experiments"][0]["key"]
        while _json(f"{address}api/experiments/{key}")["reading"]:
            time.sleep(0.2)
        print(f"read in {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        with urllib.request.urlopen(f"{address}api/experiments/{key}/individuals") as answer:
            size = len(answer.read())
        print(f"all individuals as JSON: {size / 1e6:.1f} MB in {time.perf_counter() - began:.2f} s")
        _look(address, count, screenshot)
        now, most = memory(process)
        print(f"memory of the server: {now:.0f} MB, {most:.0f} MB at most")


def _look(address: str, count: int, screenshot: Path | None) -> None:
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
        print(f"first paint of {count} dots: {time.perf_counter() - began:.2f} s")
        print("redraw while zooming: {:.0f} frames a second, {:.1f} ms for the dots".format(*page.evaluate(ZOOMING)))
        print("redraw while moving:  {:.0f} frames a second, {:.1f} ms for the dots".format(*page.evaluate(MOVING)))
        print("nearest dot: {:.2f} ms, the first time {:.1f} ms".format(*page.evaluate(NEAREST)))
        if screenshot:
            page.evaluate("() => genepoolCloud.look(null)")
            page.wait_for_timeout(300)
            page.screenshot(path=screenshot)
        browser.close()


PAINTED = "(count) => window.genepoolCloud?.frames.count > 0 && genepoolCloud.population.size >= count"
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


def _json(address: str) -> Any:
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
