"""Image classifiers from elsewhere as DNA and weights. Nothing in a file is run or unpickled.

model            what a file became; reading, translating and comparing
origin           files from elsewhere and Genepool's own exports

Reading a file as a neutral graph:

graph            the graph of operators and constants, and its builder
operators        the operators in plain torch
sizes            padding as other libraries choose it
onnx_graph       ONNX files
onnx_operators   the operators of ONNX
onnx_tensors     the tensors of ONNX files
pt2_graph        programs of `torch.export`
torch_operators  the operators of torch
archive          the members of a `.pt2` archive
state_dict       known architectures, for weights in safetensors

From the graph to DNA:

editor           rewrites a graph rule by rule
images           shape, layout and normalisation of the images
simplify         folds constants, pads and biases into layers
patterns         layers that are spelled as several operators
classifier       the end: global pooling and the last layer
windows          convolutions and pools of any padding
translate        vertices, edges and their tensors
"""

from genepool.export.foreign.model import ForeignModel, read_foreign
from genepool.export.foreign.origin import is_foreign
from genepool.export.foreign.state_dict import ARCHITECTURES

__all__ = ["ARCHITECTURES", "ForeignModel", "is_foreign", "read_foreign"]
