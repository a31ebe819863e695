"""Trained models: exported for use without Genepool, and read back without running anything in them.

trained_model  a trained network that classifies images and image files
publish        writing a model in one of the formats, checking it, reading it back
facts          the metadata in a model file
network        uint8 images in, probabilities out: the module that is exported
layer_names    a network layer by layer with readable names
torch_program  the format torch: a `torch.export` program, `.pt2`
onnx_file      the format onnx: a graph for onnxruntime and others
source         the format source: a folder with `model.py`, weights and a model card
source_text    the text of `model.py`
foreign        networks from elsewhere as DNA and weights

A format's own loader only checks a file that we just wrote; from others, only facts, DNA and plain numbers are read.
"""

from genepool.export.facts import Ancestor, Facts, Member, Search, digest_of
from genepool.export.foreign import ARCHITECTURES, ForeignModel, is_foreign, read_foreign
from genepool.export.network import Network, accuracy, build, compare, inheritable, original_answers, restore
from genepool.export.publish import FORMATS, Exported, ModelToExport, check_target, read_model, write_model
from genepool.export.source import document, metadata, read_document
from genepool.export.trained_model import Guess, Prediction, TrainedModel, image_files, read_image

__all__ = [
    "TrainedModel", "Prediction", "Guess", "image_files", "read_image",
    # writing and reading
    "FORMATS", "ModelToExport", "Exported", "check_target", "write_model", "read_model", "document",
    "read_document", "metadata",
    # facts
    "Facts", "Member", "Ancestor", "Search", "digest_of",
    # networks from elsewhere
    "ARCHITECTURES", "ForeignModel", "is_foreign", "read_foreign",
    # networks
    "Network", "build", "restore", "inheritable", "original_answers", "compare", "accuracy",
]  # fmt: skip
