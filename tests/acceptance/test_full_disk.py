"""A disk that fills up while workers run, and is freed later: they wait, and go on unaided."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE, assert_sound, experiment, finished, started, wait_until, workers_of

MEGABYTE = bytes(2**20)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with a few megabytes."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "genepool-test", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs more rights than this user has")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill(path: Path) -> None:
    """Takes every byte that is left."""
    with path.open("ab", buffering=0) as file:
        for piece in (MEGABYTE, bytes(4096), bytes(1)):
            try:
                while True:
                    file.write(piece)
            except OSError as error:
                assert error.errno == errno.ENOSPC


def full_for_a_while(filler: Path, directory: Path) -> set[str]:
    """Whoever was finished when there was room again."""
    fill(filler)
    time.sleep(2.5)
    fill(filler)  # what was given back meanwhile
    time.sleep(1)
    known = set(finished(directory))
    filler.unlink()
    return known


def goes_on(directory: Path, known: set[str]) -> None:
    wait_until(lambda: len(finished(directory)) >= len(known) + 6)
    assert known <= set(finished(directory))


@pytest.mark.thorough
@pytest.mark.parametrize("times", [1, 3])
def test_workers_wait_for_room_and_go_on_unaided(times: int, small_disk: Path) -> None:
    directory, filler = small_disk / "e", small_disk / "filler"
    experiment(directory, "training.steps=50", "population.lease=2", "workers.count=2")
    with started("run", directory) as launcher:
        wait_until(lambda: len(finished(directory)) >= 6)
        for _ in range(times):
            known = full_for_a_while(filler, directory)
            assert launcher.poll() is None
            goes_on(directory, known)
        launcher.terminate()
        _, err = launcher.communicate(timeout=PATIENCE)
        assert launcher.returncode == 0, err
    assert workers_of(directory) == []
    assert known <= set(finished(directory))
    assert_sound(directory)
