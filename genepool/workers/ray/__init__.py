"""Workers on a Ray cluster. The only folder that imports Ray.

nodes    joining a cluster, and checks of its nodes
pool     the workers as Ray tasks
service  serving the population's files to nodes that do not see its directory
"""

from genepool.workers.ray.nodes import is_joined, join
from genepool.workers.ray.pool import RayPool

__all__ = ["RayPool", "is_joined", "join"]
