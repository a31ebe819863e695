"""The short form of `make storm`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_nothing_is_lost_when_workers_are_killed_and_frozen_at_random(tmp_path: Path) -> None:
    # A separate process: it forks its workers, which the test runner's threads would not survive.
    command = [sys.executable, "-m", "tests.races.storm", "--short", str(tmp_path), "--seed", "1"]
    root = Path(__file__).parents[2]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, timeout=1000)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "no violations" in result.stdout
