"""The parameters of a storm."""

from __future__ import annotations

import dataclasses

from genepool.evaluation import Training
from genepool.evolution import Rules


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How violent a storm is, and how long it lasts."""

    seed: int
    kills: int
    stops: int
    workers: int = 12
    size: int = 60
    lease: float = 1.5
    training: float = 0.2
    """The duration of most trainings in seconds; they sleep, to leave the processor to other workers."""
    steps: int = 6
    pause: float = 0.16
    """The mean time between two signals in seconds."""
    fatal_renames: float = 0.0005
    """The share of renames right before or after which a process kills itself."""
    warm_up: float = 2.0

    @property
    def rules(self) -> Rules:
        """The workers' rules; most trainings save one or two checkpoints."""
        return Rules(population_size=self.size, training=Training(checkpoint_every=self.training / 3))

    @property
    def bounds(self) -> tuple[int, int]:
        """The permitted size once everything has settled."""
        return self.size - self.workers, self.size + self.workers


BLOWS = {"kill": 72, "stop": 24, "terminate": 4}
"""The odds of SIGKILL, of SIGSTOP with a later SIGCONT, and of SIGTERM."""

NAPS = (0.2, 1.7, 3.0)
"""How many leases a stopped worker sleeps: unnoticed, taken over, or taken over with its individual perhaps dead."""
