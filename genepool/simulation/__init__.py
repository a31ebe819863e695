"""A cluster in virtual time: the real worker and the real contract, with training replaced by a model of it."""

from genepool.simulation.cluster import Cluster, Outcome
from genepool.simulation.landscape import Landscape

__all__ = ["Cluster", "Outcome", "Landscape"]
