"""What a storm is made of."""

from __future__ import annotations

import dataclasses

from genepool.evolution import Rules


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How rough a storm is, and for how long it goes on."""

    seed: int
    kills: int
    stops: int
    workers: int = 12
    size: int = 60
    lease: float = 1.5
    training: float = 0.2
    """Seconds that most trainings take; they sleep, since the processor is for the others."""
    steps: int = 6
    pause: float = 0.16
    """Seconds between two blows, on average."""
    fatal_renames: float = 0.0005
    """The share of renames right before or after which a process kills itself."""
    warm_up: float = 2.0

    @property
    def rules(self) -> Rules:
        """What the workers go by; most trainings leave a checkpoint or two."""
        return Rules(population_size=self.size, checkpoint_every=self.training / 3)

    @property
    def bounds(self) -> tuple[int, int]:
        """How many may be living once everything has settled."""
        return self.size - self.workers, self.size + self.workers


BLOWS = {"kill": 72, "stop": 24, "terminate": 4}
"""The odds of SIGKILL, of SIGSTOP and a later SIGCONT, and of SIGTERM."""

NAPS = (0.2, 1.7, 3.0)
"""For how many leases a stopped worker sleeps: unnoticed, taken over, taken over and perhaps dead by now."""
