"""Starting workers: on this machine, on a Ray cluster, or through a cluster's own scheduler.

options  the frozen values that describe a pool, one worker, and what Ray must provide
pool     `WorkerPool`; the rules for the number of workers and for their memory
local    workers as child processes
ray/     workers as tasks of a Ray cluster
launch   jobs for Slurm, Kubernetes and ssh

What a worker does is in experiment/worker_process.py. No pool holds state that must survive it.
"""

from genepool.workers.launch import LaunchRequest
from genepool.workers.local import LocalPool
from genepool.workers.options import STOPPED, PoolOptions, PoolShare, RayOptions, WorkerFunctions, WorkerOptions
from genepool.workers.pool import (
    RESERVE,
    WorkerPool,
    memory_per_pool,
    memory_per_worker,
    number_of_workers,
    require_memory,
)

__all__ = [
    "RESERVE",
    "STOPPED",
    "LaunchRequest",
    "LocalPool",
    "PoolOptions",
    "PoolShare",
    "RayOptions",
    "WorkerFunctions",
    "WorkerOptions",
    "WorkerPool",
    "memory_per_pool",
    "memory_per_worker",
    "number_of_workers",
    "require_memory",
]
