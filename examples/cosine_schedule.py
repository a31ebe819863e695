"""A custom training schedule: a learning rate that falls along half a cosine.

    genepool run DIR --plugin examples/cosine_schedule.py --set training.schedule=cosine

A schedule takes the steps done and the total steps (0 while unknown) and returns a factor for the DNA's learning rate.
It must be a pure function, because a worker that takes over a training calls it again.
"""

import math

from genepool.evaluation import SCHEDULES


@SCHEDULES.register("cosine")
def cosine(done: int, steps: int) -> float:
    return 0.5 * (1 + math.cos(math.pi * done / steps)) if steps else 1.0
