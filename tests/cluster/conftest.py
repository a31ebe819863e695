"""Ray and Slurm for real, on this machine: `make test-cluster` asks for them, since they are slow to start."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

TOKEN = "5ec4e70fn0b0dy" * 3
"""Of the test cluster: it must turn up nowhere but in the environment."""
if os.environ.get("GENEPOOL_CLUSTER"):
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN)  # Ray reads them when it is imported
    collect_ignore_glob = []
else:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with a mutation that has a bug, installed on all nodes; only odds that name it bring it in."""
    package = tmp_path_factory.mktemp("package")
    info = package / "stranger-1.0.dist-info"
    info.mkdir()
    (package / "stranger.py").write_text(
        "class Sabotage:\n    def mutate(self, dna, rng):\n        raise ZeroDivisionError('a loose screw')\n"
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[genepool.mutations]\nsabotage = stranger:Sabotage\n")
    return package


@pytest.fixture(scope="session")
def cluster(plugin: Path) -> Iterator[object]:
    """Three nodes of a Ray cluster, each with one core; one Ray for the whole suite, tried twice."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = None
    for attempt in (1, 2):
        made = Cluster()
        try:
            for _ in range(3):
                made.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(plugin)})
            break
        except Exception as error:  # noqa: BLE001 - Ray raises bare ones when a busy machine is too slow for it
            with contextlib.suppress(Exception):
                made.shutdown()
            if attempt == 2:
                pytest.fail(f"Ray did not start on this machine, twice: {error}")
    yield made
    with contextlib.suppress(Exception):
        ray.shutdown()
    made.shutdown()
