"""Models to take away: written for strangers who have no Genepool, and read back without running anything in them.

facts          what a model file says about itself, in every format
layers         the network layer by layer, with names for people: what `code` and `onnx_file` write down
network        images (bytes) in, probabilities out: the module that `program` exports, rebuilt by every reader
program        torch: a `torch.export` program, `.pt2`
onnx_file      onnx: a graph for onnxruntime and others (the only module that imports onnx)
source         source: a folder with `model.py` (text by `code`), `weights.safetensors` and `README.md` (text by `card`)
formats        the table of formats: how each is written, loaded by a stranger, and read by us
agreement      whether a stranger's predictions are those of the original

A format's own loader is only ever used on a file that was written a moment ago, to check it. Files from elsewhere are
*read*: facts and plain numbers are taken out, and the network is built from its DNA by our own code. So nothing in a
model file is ever run, be it pickle, a graph or Python.
"""
