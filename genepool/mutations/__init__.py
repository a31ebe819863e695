"""The paper's eleven mutations, others that use more kinds of layers, and recombination. Randomness is an argument; no
torch.

base           the mutation type, the registry, and the draw of a mutation
paper          the paper's eleven mutations
growth         wide and deep networks within tens of generations
insertion      layers of kinds beyond the paper's, residual blocks, projections
operations     other kinds, activation functions, numbers of layers, and the body's learning rate
pruning        fewer channels and layers; a network under a limit
recombination  children of two parents
route          the mutations that lead to a given architecture (`genepool reach`)
"""

from genepool.mutations import growth, insertion, operations, paper, pruning
from genepool.mutations.base import ELEVEN, MUTATIONS, Mutated, Mutation, apply, mutate, new_id
from genepool.mutations.pruning import pruned_to
from genepool.mutations.recombination import ADOPTION, FUSION, MIXTURE, drifted, fuse, fused_id, joints, own_odds
from genepool.mutations.route import Route, Step, follow, reach, same_architecture, target

__all__ = [
    "ELEVEN", "MUTATIONS", "Mutation", "Mutated", "apply", "mutate", "new_id", "pruned_to",
    # recombination
    "MIXTURE", "FUSION", "ADOPTION", "own_odds", "drifted", "fuse", "fused_id", "joints",
    # routes to architectures
    "Route", "Step", "reach", "follow", "same_architecture", "target",
    # modules that register mutations
    "growth", "insertion", "operations", "paper", "pruning",
]  # fmt: skip
