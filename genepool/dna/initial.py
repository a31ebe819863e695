"""The trivial individual that every experiment begins with (the paper's "Initial Conditions")."""

from __future__ import annotations

from genepool.dna.elements import Identity, Vertex
from genepool.dna.graph import DNA

INPUT = Vertex(id="input", type="linear", inputs_mutable=False, properties_mutable=False)
OUTPUT = Vertex(id="output", type="linear", outputs_mutable=False, properties_mutable=False)


def initial(learning_rate: float = 0.1) -> DNA:
    """Input, global pool, output: one fully connected layer on the channel means, no convolution."""
    trunk = Identity(id="trunk", from_vertex=INPUT.id, to_vertex=OUTPUT.id)
    return DNA(learning_rate=learning_rate, vertices=(INPUT, OUTPUT), edges=(trunk,))
