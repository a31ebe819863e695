"""DNA: the graph that encodes a network, its rules, its JSON form, its shapes and its cost. No torch in here."""

from genepool.dna.codec import decode, encode, encode_in_a_line, read, write
from genepool.dna.cost import Cost, cost, individual_flops
from genepool.dna.elements import BACKBONE_PRECEDENCE, SKIP_PRECEDENCE, Conv, Edge, Identity, Vertex
from genepool.dna.graph import DNA
from genepool.dna.initial import initial
from genepool.dna.price import Price, price
from genepool.dna.shapes import Shape, Shapes, cropped, shapes
from genepool.dna.size import Largest, Size, size
from genepool.dna.widths import in_steps

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
    "Cost",
    "cost",
    "Price",
    "price",
    "Size",
    "size",
    "Largest",
    "cropped",
    "in_steps",
    "individual_flops",
    "encode",
    "encode_in_a_line",
    "decode",
    "read",
    "write",
]
