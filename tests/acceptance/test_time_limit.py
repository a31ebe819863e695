"""`--time` holds when other programs take the cores, and there is a trained network at every moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from genepool.experiment import Experiment
from tests.support.processes import finished, genepool, started

SECONDS, LATE = 60.0, 5.0


@pytest.mark.thorough
def test_the_time_holds_while_other_programs_take_all_cores_for_half_of_it(tmp_path: Path) -> None:
    directory, had_best, busy = tmp_path / "e", False, []
    try:
        with started("run", directory, "--time", f"{SECONDS:.0f}s", "--seed", 1) as launcher:
            while launcher.poll() is None:
                time.sleep(0.5)
                if (directory / "workers").exists():
                    seconds = Experiment.open(directory).status().spent.seconds
                    if seconds > SECONDS / 2 and not busy:
                        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores())]
                has_best = bool(finished(directory)) and Experiment.open(directory).history().best() is not None
                assert has_best or not had_best
                had_best = has_best
        assert launcher.returncode == 0
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert had_best
    facts = json.loads(genepool("status", directory, "--json").stdout)
    assert SECONDS - LATE <= facts["seconds"] <= SECONDS + LATE


def cores() -> int:
    return len(os.sched_getaffinity(0))
