"""Networks in torch: images in, a trained and measured model out.

evaluator       from a DNA to its fitness; accuracy and inference time
model           the network of a DNA
inheritance     weights from one parent or two
pruning         narrower networks that keep their function
channel_choice  which channels a narrower network keeps
batches         training batches
trainer         the training of one network
parallel        batches in slices, computed by several processes
step_count      how many steps a training takes; the race against the parent
optimiser       stochastic gradient descent; averaged weights
final_test      the test images
device          threads, memory, device and precision
weights         weights as bytes
"""

from typing import TYPE_CHECKING

from genepool.registry import lazy_names

if TYPE_CHECKING:
    from genepool.nn.batches import Normaliser, batches_for
    from genepool.nn.device import choose_device, gpus, is_mixed, prepare_process, share_of_gpu, versions
    from genepool.nn.evaluator import TorchEvaluator
    from genepool.nn.final_test import test_accuracy, test_answers
    from genepool.nn.inheritance import fused, inherit_function, inherit_weights, mixed
    from genepool.nn.model import Model
    from genepool.nn.trainer import TrainingRun
    from genepool.nn.weights import MAX_BYTES, from_bytes, read_weights, to_bytes, with_zero_classifier

__all__ = [
    "TorchEvaluator", "Model", "Normaliser", "TrainingRun", "batches_for", "test_accuracy", "test_answers",
    # inheritance
    "inherit_weights", "inherit_function", "mixed", "fused",
    # devices
    "choose_device", "prepare_process", "gpus", "share_of_gpu", "is_mixed", "versions",
    # weights
    "MAX_BYTES", "from_bytes", "to_bytes", "read_weights", "with_zero_classifier",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "batches": ["Normaliser", "batches_for"],
        "device": ["choose_device", "gpus", "is_mixed", "prepare_process", "share_of_gpu", "versions"],
        "evaluator": ["TorchEvaluator"],
        "final_test": ["test_accuracy", "test_answers"],
        "inheritance": ["fused", "inherit_function", "inherit_weights", "mixed"],
        "model": ["Model"],
        "trainer": ["TrainingRun"],
        "weights": ["MAX_BYTES", "from_bytes", "read_weights", "to_bytes", "with_zero_classifier"],
    },
)
