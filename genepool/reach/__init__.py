"""Ways through the search space: the paper's mutations that lead from the initial network to a given one."""

from genepool.reach.architecture import same_architecture
from genepool.reach.route import Route, Step, follow, reach
from genepool.reach.targets import Target, target

__all__ = ["reach", "follow", "Route", "Step", "same_architecture", "target", "Target"]
