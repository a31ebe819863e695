"""A worker on a machine with another release, or with other images."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest

from genepool import __version__
from genepool.errors import EngineError
from genepool.experiment import Experiment, run_worker
from genepool.experiment.worker_process import Ended, final_phase_threads, images_digest
from genepool.settings import override, preset
from genepool.workers import WorkerOptions


@pytest.fixture
def options(tmp_path: Path) -> WorkerOptions:
    settings = override(
        preset("laptop"),
        [
            "training.steps=5",
            "training_budget.share=none",
            "final_phase.share=0",
            "budget.individuals=1",
            "budget.time=none",
        ],
    )
    Experiment.create(tmp_path / "e", settings)
    return WorkerOptions(directory=str(tmp_path / "e"), number=0, device="cpu")


def sent(options: WorkerOptions) -> Ended:
    """Run it in a process of its own: a worker sets signal handlers and process-wide options."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run_worker, options).result(timeout=120)


def test_worker_options_carry_the_release_that_started_the_run(options: WorkerOptions) -> None:
    assert options.release == __version__
    other = msgspec.structs.replace(options, release="0.0.1")
    with pytest.raises(EngineError, match=f"has Genepool {__version__}, but the run was started by 0.0.1; install"):
        sent(other)


@pytest.mark.thorough
def test_a_worker_refuses_images_that_are_not_those_of_the_run(options: WorkerOptions) -> None:
    with pytest.raises(EngineError, match="differ from those of the run; put the same files on all nodes"):
        sent(msgspec.structs.replace(options, images="0" * 64))
    assert not Experiment.open(Path(options.directory)).history().finished()
    ended = sent(msgspec.structs.replace(options, images=images_digest(options)))
    assert not ended.stop_requested
    assert len(Experiment.open(Path(options.directory)).history().finished()) == 1


def test_one_worker_of_every_few_has_all_threads_in_the_final_phase(options: WorkerOptions, monkeypatch) -> None:
    def of_pool(size: int) -> list[int]:
        return [
            final_phase_threads(msgspec.structs.replace(options, pool_size=size, number=number))
            for number in range(size)
        ]

    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert [of_pool(size) for size in (1, 2, 3)] == [[1], [2, 0], [3, 0, 0]]
    assert of_pool(9) == [4, 0, 0, 0, 4, 0, 0, 0, 1]
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert of_pool(4) == [2, 0, 0, 0]
