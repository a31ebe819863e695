"""DNA: the graph that encodes a network, its rules, its JSON form, its shapes and its requirements. No torch.

from genepool.dna.codec import decode, encode, encode_in_a_line, read
from genepool.dna.elements import BACKBONE_PRECEDENCE, SKIP_PRECEDENCE, Conv, Edge, Identity, Vertex
from genepool.dna.flops import Capacity, Requirements, capacity, individual_flops, requirements
from genepool.dna.graph import DNA
from genepool.dna.shapes import Shape, Shapes, cropped, in_steps, shapes
from genepool.dna.step_time import StepTime, step_time
from genepool.dna.topology import reachable, topological_order
from genepool.dna.zoo import INPUT, OUTPUT, ZOO, initial, modest, resnet, wide_resnet, zoo

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
    # shapes
    "Shape",
    "Shapes",
    "shapes",
    "cropped",
    "in_steps",
    # requirements
    "Requirements",
    "requirements",
    "Capacity",
    "CapacityLimit",
    "capacity",
    "individual_flops",
    "StepTime",
    "step_time",
    "CLASSIFIER",
    "PROCESS_MEMORY",
    "VALIDATION_BATCH",
    # known networks
    "INPUT",
    "OUTPUT",
    "ZOO",
    "initial",
    "modest",
    "resnet",
    "wide_resnet",
    "zoo",
]
