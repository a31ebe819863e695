"""The chosen model of an experiment: the best by its fitness, tested once, and kept with its weights.

    <experiment>/best/
      dna.json, weights.safetensors     the model
      best.json                         what is known of it, its test accuracy included

Workers never read any of this.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from genepool.analysis import History, Row
from genepool.data.paths import write_atomic
from genepool.dna import codec
from genepool.errors import DataError, StorageError, shown
from genepool.experiment import Experiment

if TYPE_CHECKING:
    from genepool.data import Source

FOLDER = "best"


class BestNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The best individual; the keys of its JSON form are documented and stay."""

    id: str
    fitness: float
    """By this it was chosen."""
    accuracy: float | None = None
    """On the validation images; None in old files, where the fitness was it."""
    test_accuracy: float | None
    """Accuracy on the test images; None where it was not measured."""
    parameters: int
    network: str
    learning_rate: float
    individuals: int
    """That became alive in the whole experiment."""
    flops: int
    """Of the whole experiment."""
    seconds: float
    weights: str
    """Where the model is."""
    flops_image: int = 0
    """Of one image, forward."""
    milliseconds: float | None = None
    """Of the inference of one image; None where it was not measured."""

    @property
    def validation_accuracy(self) -> float:
        return self.fitness if self.accuracy is None else self.accuracy


def choose(experiment: Experiment, history: History) -> Row:
    """The living individual of highest fitness."""
    best = history.best()
    if best is None:
        raise DataError(f"Nobody is alive in '{shown(experiment.path)}' yet; let it run for a while.")
    return best


def best_network(experiment: Experiment, *, source: Source | None = None, device: str = "cpu") -> BestNetwork:
    """Chooses the best, keeps a copy of its model, and tells of it.

    With a source its test accuracy is measured, unless that was done before: once, and only for the chosen one.
    """
    history = experiment.history()
    row = choose(experiment, history)
    test_accuracy = measured_before(experiment, row.id)
    weights = experiment.view().weights(row.individual)
    if weights is None:
        raise DataError(f"The weights of the best individual, {row.id}, are gone; run `genepool check`.")
    if test_accuracy is None and source is not None:
        test_accuracy = measure(experiment, row, weights, source, device)
    spent = history.spending()
    found = BestNetwork(
        id=row.id,
        fitness=row.fitness or 0.0,
        accuracy=row.accuracy or 0.0,
        test_accuracy=test_accuracy,
        parameters=row.evaluation.parameters,
        network=row.dna.in_a_line(),
        learning_rate=row.dna.learning_rate,
        individuals=spent.individuals,
        flops=spent.flops,
        seconds=spent.seconds,
        weights=str(experiment.path / FOLDER / "weights.safetensors"),
        flops_image=row.evaluation.flops_image,
        milliseconds=row.evaluation.milliseconds,
    )
    _keep(experiment.path / FOLDER, row, weights, found)
    return found


def measured_before(experiment: Experiment, identity: str) -> float | None:
    """The test accuracy of that individual, if it was the chosen one when it was last measured."""
    known = _read(experiment.path / FOLDER)
    return known.test_accuracy if known is not None and known.id == identity else None


def measure(experiment: Experiment, row: Row, weights: bytes, source: Source, device: str) -> float:
    """The test accuracy of an individual with these weights; never asked for by a worker."""
    from genepool.data.dataset import prepare
    from genepool.nn.device import choose_device
    from genepool.nn.evaluator import TorchEvaluator
    from genepool.nn.final_test import test_accuracy
    from genepool.nn.inheritance import inherit_weights
    from genepool.nn.weights import from_bytes

    data = prepare(source)
    settings = experiment.settings(row.birth.settings_version)
    evaluator = TorchEvaluator(data, settings.training, settings.limits, choose_device(device))
    model = evaluator.unfold(row.dna, seed=0)
    if inherit_weights(model, from_bytes(weights)).fresh:
        raise DataError(f"The weights of individual {row.id} do not fit its DNA; run `genepool check`.")
    return test_accuracy(model, source, data, evaluator.normalise)


def _read(folder: Path) -> BestNetwork | None:
    try:
        return msgspec.json.decode((folder / "best.json").read_bytes(), type=BestNetwork)
    except (OSError, msgspec.MsgspecError):
        return None


def _keep(folder: Path, row: Row, weights: bytes, found: BestNetwork) -> None:
    """Each file whole, `best.json` last: it tells which individual the others belong to."""
    try:
        folder.mkdir(exist_ok=True)
        for name, data in (
            ("weights.safetensors", weights),
            ("dna.json", codec.encode(row.dna).encode()),
            ("best.json", msgspec.json.format(msgspec.json.encode(found), indent=2)),
        ):
            write_atomic(folder / name, data)
    except OSError as error:
        raise StorageError(f"The best model cannot be kept in '{shown(folder)}': {error.strerror or error}.") from None
