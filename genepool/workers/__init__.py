"""Starting workers: on this machine, on a Ray cluster, or through a cluster's own scheduler.

pool     `WorkerPool`, the values that describe a pool and a worker, and the rules for their number and memory
local    workers as child processes
ray/     workers as tasks of a Ray cluster
launch   jobs for Slurm, Kubernetes and ssh

What a worker does is in experiment/worker_process.py. No pool holds state that must survive it.
"""

from genepool.workers.launch import LaunchRequest
from genepool.workers.local import LocalPool
from genepool.workers.pool import (
    RESERVE,
    PoolOptions,
    PoolShare,
    RayOptions,
    WorkerFunctions,
    WorkerOptions,
    WorkerPool,
    memory_per_pool,
    memory_per_worker,
    require_memory,
)

__all__ = [
    "WorkerPool", "LocalPool", "PoolOptions", "PoolShare", "RayOptions", "WorkerOptions", "WorkerFunctions",
    "RESERVE", "memory_per_pool", "memory_per_worker", "require_memory", "LaunchRequest",
]  # fmt: skip
