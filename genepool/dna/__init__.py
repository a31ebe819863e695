"""DNA: the graph that encodes a network, its rules, its JSON form, its shapes and its requirements. No torch.

graph       the DNA itself
validation  the rules that every DNA obeys
topology    graph functions
shapes      the shapes of all activations; rounded and given widths; which activations share channel numbers
flops       parameters, FLOPs, memory and step time
codec       DNA as JSON
zoo         the initial network and known architectures
"""

from genepool.dna import codec
from genepool.dna.codec import decode, encode, encode_in_a_line
from genepool.dna.flops import (
    CLASSIFIER,
    PROCESS_MEMORY,
    VALIDATION_BATCH,
    Capacity,
    Requirements,
    StepTime,
    capacity,
    individual_flops,
    network_facts,
    requirements,
    step_time,
)
from genepool.dna.graph import DNA, rates_label
from genepool.dna.shapes import Shapes, cropped, fitting_image, in_steps, shapes, tied, with_widths
from genepool.dna.topology import reachable, topological_order
from genepool.dna.zoo import INPUT, OUTPUT, PUBLISHED, ZOO, initial, modest, resnet, wide_resnet, zoo
from genepool.layers import Shape

__all__ = [
    "DNA", "rates_label", "reachable", "topological_order",
    # JSON
    "codec", "encode", "encode_in_a_line", "decode",
    # shapes
    "Shape", "Shapes", "shapes", "cropped", "in_steps", "tied", "with_widths", "fitting_image",
    # requirements
    "Requirements", "requirements", "Capacity", "capacity", "individual_flops", "StepTime", "step_time",
    "network_facts", "CLASSIFIER", "PROCESS_MEMORY", "VALIDATION_BATCH",
    # known networks
    "INPUT", "OUTPUT", "ZOO", "PUBLISHED", "initial", "modest", "resnet", "wide_resnet", "zoo",
]  # fmt: skip
