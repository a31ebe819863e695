"""A selection of one's own: the fitter of two wins, but one time in ten the other does.

    genepool run DIR --plugin examples/lenient_selection.py --set population.selection=lenient

A selection gets two living, trained individuals; of the pair that it returns the first may reproduce, the second die.
"""

from random import Random

from genepool.evolution import SELECTIONS, Pair
from genepool.population import Individual


@SELECTIONS.register("lenient")
def lenient(one: Individual, other: Individual, rng: Random) -> Pair:
    better, worse = (one, other) if (one.fitness or 0.0) >= (other.fitness or 0.0) else (other, one)
    return Pair(worse, better) if rng.random() < 0.1 else Pair(better, worse)
