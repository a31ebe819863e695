"""Ray and Slurm for real, on this machine: `make test-cluster` asks for them, since they are slow to start.

GENEPOOL_CLUSTER=1 wants all of it, and what is missing is a failure; GENEPOOL_CLUSTER=ray leaves out what only root can
install: Slurm, and a server of ssh.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

TOKEN = "5ec4e70fn0b0dy" * 3
"""Of the test cluster: it must turn up nowhere but in the environment."""
ASKED = os.environ.get("GENEPOOL_CLUSTER", "")
collect_ignore_glob = {"": ["test_*.py"], "ray": ["test_slurm.py", "test_ssh.py"]}.get(ASKED, [])
if ASKED:
    # Ray reads them when it is imported; it would wait for a node for half a minute only.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN, RAY_raylet_start_wait_time_s="240")


@pytest.fixture(scope="session")
def cluster() -> Iterator[object]:
    """Three nodes of a Ray cluster, each with one core, the first with what Ray is told is a GPU.

    One Ray for the whole suite, tried twice: on a busy machine it may not start at once.
    """
    import ray
    from ray.cluster_utils import Cluster

    made = None
    for attempt in (1, 2):
        made = Cluster()
        try:
            for gpus in (1, 0, 0):
                made.add_node(num_cpus=1, num_gpus=gpus)
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
