"""Mutations of the skip connections between vertices of the backbone."""

from __future__ import annotations

from random import Random

from genepool.dna import DNA, SKIP_PRECEDENCE, Identity
from genepool.dna.topology import reachable
from genepool.errors import MutationError
from genepool.mutations.base import MUTATIONS, new_id


@MUTATIONS.register("add-skip")
class AddSkip:
    """A one-to-one connection between two vertices of the backbone that are not joined yet, never backwards."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        source, target = self._draw(dna, rng)
        skip = Identity(
            id=new_id(dna, rng),
            from_vertex=source,
            to_vertex=target,
            depth_precedence=SKIP_PRECEDENCE,
            scale_precedence=SKIP_PRECEDENCE,
        )
        return dna.edited(put=[skip])

    @staticmethod
    def _draw(dna: DNA, rng: Random) -> tuple[str, str]:
        """As in the paper's listing: a random end first, then a random beginning that it does not lead to."""
        sources = [vertex for vertex in dna.backbone_vertices if dna.vertex[vertex].outputs_mutable]
        targets = [vertex for vertex in dna.backbone_vertices if dna.vertex[vertex].inputs_mutable]
        rng.shuffle(sources)
        rng.shuffle(targets)
        joined = set(dna.arcs)
        for target in targets:
            behind = reachable(target, dna.arcs)
            for source in sources:
                if source not in behind and (source, target) not in joined:
                    return source, target
        raise MutationError("every two vertices of the backbone are joined already.")


@MUTATIONS.register("remove-skip")
class RemoveSkip:
    """Removes a random skip."""

    def mutate(self, dna: DNA, rng: Random) -> DNA:
        candidates = [skip for skip in dna.skips if dna.is_mutable(skip)]
        if not candidates:
            raise MutationError("there is no skip to remove.")
        return dna.edited(drop=[rng.choice(candidates).id])
