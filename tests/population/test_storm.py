"""A short storm of real processes and signals; the long ones are run by hand or at night."""

import json
import subprocess
import sys
from pathlib import Path


def test_nothing_is_lost_in_a_storm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.population.storm", str(tmp_path / "storm")]
    options = ["--seconds", "8", "--workers", "6", "--lease", "0.5", "--durability", "fast"]
    ran = subprocess.run(
        [*command, *options], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)
    assert figures["violations"] == []
    assert figures["died by themselves"] == []
    assert figures["quarantined"] == 0
    assert figures["kills"] >= 20
    assert figures["acknowledged"] >= 50
