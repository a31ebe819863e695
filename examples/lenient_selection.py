"""A custom selection: the fitter of two wins, except one time in ten.

    genepool run DIR --plugin examples/lenient_selection.py --set population.selection=lenient

A selection takes two living individuals. Of the pair that it returns, the first may reproduce and the second may die.
"""

from random import Random

from genepool.evolution import SELECTIONS, Pair
from genepool.population import Individual


@SELECTIONS.register("lenient")
def lenient(one: Individual, other: Individual, rng: Random) -> Pair:
    better, worse = (one, other) if (one.fitness or 0.0) >= (other.fitness or 0.0) else (other, one)
    return Pair(worse, better) if rng.random() < 0.1 else Pair(better, worse)
