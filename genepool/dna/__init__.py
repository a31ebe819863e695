"""DNA: the graph that encodes a network, its rules, its JSON form, its shapes and its cost. No torch in here."""

from genepool.dna.codec import decode, encode, encode_in_a_line, read
from genepool.dna.elements import BACKBONE_PRECEDENCE, SKIP_PRECEDENCE, Conv, Edge, Identity, Vertex
from genepool.dna.flops import Capacity, Requirements, capacity, individual_flops, requirements
from genepool.dna.graph import DNA
from genepool.dna.shapes import Shape, Shapes, cropped, in_steps, shapes
from genepool.dna.step_time import StepTime, step_time
from genepool.dna.zoo import initial

__all__ = [
    "DNA",
    "Vertex",
    "Edge",
    "Conv",
    "Identity",
    "BACKBONE_PRECEDENCE",
    "SKIP_PRECEDENCE",
    "initial",
    "Shape",
    "Shapes",
    "shapes",
    "Requirements",
    "requirements",
    "StepTime",
    "step_time",
    "Capacity",
    "capacity",
    "cropped",
    "in_steps",
    "individual_flops",
    "encode",
    "encode_in_a_line",
    "decode",
    "read",
]
