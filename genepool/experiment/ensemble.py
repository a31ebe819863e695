"""The best networks of several populations as one model, without further training. The paper ensembles the top 2 models
of each population by validation accuracy and takes a majority vote. The exported model averages probabilities, like
every exported ensemble; both are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.errors import DataError, SettingsError, shown
from genepool.experiment.best import model_to_export
from genepool.experiment.experiment import Experiment
from genepool.population import State

if TYPE_CHECKING:
    from genepool.data import Dataset, Source
    from genepool.export import ModelToExport

Answers = NDArray[np.float32]  # probabilities (networks, images, classes)


def majority(answers: Answers) -> NDArray[np.int64]:
    """Return the class with the most votes per image; ties go to the highest mean probability."""
    votes = answers.argmax(2)  # (networks, images)
    counts = (votes[:, :, None] == np.arange(answers.shape[2])).sum(0)  # (images, classes)
    ahead = counts == counts.max(1, keepdims=True)
    chosen: NDArray[np.int64] = np.where(ahead, answers.mean(0), -1.0).argmax(1)
    return chosen


class EnsembleMember(msgspec.Struct, frozen=True, kw_only=True):
    experiment: str
    id: str
    validation_accuracy: float
    test_accuracy: float


class Ensemble(msgspec.Struct, frozen=True, kw_only=True):
    """The written model and its accuracies. The keys of its JSON form are documented."""

    members: tuple[EnsembleMember, ...]
    vote_test_accuracy: float
    average_test_accuracy: float
    average_validation_accuracy: float
    path: str


def check_same_data(experiments: Sequence[Experiment]) -> None:
    """Refuse experiments on different images; call this before any work is done."""
    paths = [experiment.path.resolve() for experiment in experiments]
    if len(set(paths)) < len(paths):
        raise SettingsError("An experiment was given twice; an ensemble takes each population once.")
    first = experiments[0].settings().data
    for experiment in experiments[1:]:
        other = experiment.settings().data
        if (other.source, other.size) != (first.source, first.size):
            raise SettingsError(
                f"'{shown(experiments[0].path)}' uses '{shown(first.source)}' and '{shown(experiment.path)}' uses "
                f"'{shown(other.source)}'; an ensemble needs experiments on the same images."
            )


def make_ensemble(
    experiments: Sequence[Experiment], *, top: int, source: Source, data: Dataset, name: str, target: Path
) -> Ensemble:
    """Choose the fittest networks, test each of them and the ensemble, and write one model."""
    from genepool.export import accuracy, write_model
    from genepool.nn import test_answers

    parts = [_best(experiment, top, data) for experiment in experiments]
    joint = _joined(parts)
    answers, labels = test_answers(joint.originals, source, data)
    averaged = accuracy(answers.mean(0).argmax(1), labels)
    facts = msgspec.structs.replace(joint.facts, test_accuracy=averaged)
    written = write_model(msgspec.structs.replace(joint, facts=facts), data, name=name, target=target)
    owners = [e.path for e, part in zip(experiments, parts, strict=True) for _ in part.facts.members]
    return Ensemble(
        members=tuple(
            EnsembleMember(
                experiment=shown(owner),
                id=member.id,
                validation_accuracy=member.fitness if member.accuracy is None else member.accuracy,
                test_accuracy=accuracy(answer.argmax(1), labels),
            )
            for owner, member, answer in zip(owners, facts.members, answers, strict=True)
        ),
        vote_test_accuracy=accuracy(majority(answers), labels),
        average_test_accuracy=averaged,
        average_validation_accuracy=written.validation_accuracy,
        path=written.path,
    )


def _best(experiment: Experiment, top: int, data: Dataset) -> ModelToExport:
    """Prepare the fittest living individuals; among equals, the first to finish training."""
    history = experiment.history()
    living = [row for row in history.finished() if row.state is State.ALIVE]
    if (count := len(living)) < top:
        raise DataError(f"'{shown(experiment.path)}' has only {count} living individuals, fewer than --top {top}.")
    chosen = sorted(living, key=lambda row: -(row.fitness or 0.0))[:top]
    return model_to_export(experiment, history, [row.id for row in chosen], data)


def _joined(parts: Sequence[ModelToExport]) -> ModelToExport:
    from genepool.export import ModelToExport, Network, Search, digest_of

    first = parts[0].facts
    network = Network([model for part in parts for model in part.network.models()], first.mean, first.std)
    searches = [part.facts.search for part in parts]
    facts = msgspec.structs.replace(
        first,
        name="ensemble of " + ", ".join(part.facts.name for part in parts),
        members=tuple(member for part in parts for member in part.facts.members),
        search=Search(
            individuals=sum(search.individuals for search in searches),
            flops=sum(search.flops for search in searches),
            seconds=sum(search.seconds for search in searches),
        ),
        digest=digest_of(network.state_dict()),
    )
    originals = tuple(model for part in parts for model in part.originals)
    return ModelToExport(facts=facts, originals=originals, network=network)
