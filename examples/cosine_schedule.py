"""A training recipe of one's own: a learning rate that falls along half a cosine.

    genepool run DIR --plugin examples/cosine_schedule.py --set training.schedule=cosine

A schedule gets the steps done and the steps in all (0 as long as that is not known) and returns a factor of the DNA's
learning rate. It must be a pure function: a training that another worker takes over asks it again.
"""

import math

from genepool.evaluation import SCHEDULES


@SCHEDULES.register("cosine")
def cosine(done: int, steps: int) -> float:
    return 0.5 * (1 + math.cos(math.pi * done / steps)) if steps else 1.0
