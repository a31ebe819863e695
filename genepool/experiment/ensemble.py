"""The best networks of several populations as one model, with no further training.

How several networks answer together.

The paper ensembles the top 2 models of each population, by validation accuracy, and lets a majority vote decide. The
model that is written averages probabilities, as all ensembles do that are taken away; both are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.analysis import History
from genepool.errors import DataError, SettingsError, shown
from genepool.experiment import Experiment
from genepool.experiment.publish import Taken, take, write_taken
from genepool.population import State

if TYPE_CHECKING:
    from genepool.data import Source
    from genepool.data.dataset import Dataset

Answers = NDArray[np.float32]
"""Probabilities (networks, images, classes)."""


def majority(answers: Answers) -> NDArray[np.int64]:
    """The class that most networks name; of several with equally many votes, the one of highest mean probability."""
    votes = answers.argmax(2)
    classes = np.arange(answers.shape[2])
    counts = (votes[:, :, None] == classes).sum(0)
    ahead = counts == counts.max(1, keepdims=True)
    chosen: NDArray[np.int64] = np.where(ahead, answers.mean(0), -1.0).argmax(1)
    return chosen


def average(answers: Answers) -> NDArray[np.int64]:
    """The class of highest mean probability."""
    chosen: NDArray[np.int64] = answers.mean(0).argmax(1)
    return chosen


def share_right(chosen: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """The accuracy of these answers."""
    return float((chosen == labels).mean())


class Voter(msgspec.Struct, frozen=True, kw_only=True):
    """One network of the ensemble."""

    experiment: str
    id: str
    validation_accuracy: float
    test_accuracy: float


class Ensemble(msgspec.Struct, frozen=True, kw_only=True):
    """What was found and written; the keys of its JSON form are documented and stay."""

    members: tuple[Voter, ...]
    vote_test_accuracy: float
    average_test_accuracy: float
    average_validation_accuracy: float
    path: str


def check_alike(experiments: Sequence[Experiment]) -> None:
    """Refuses what cannot vote on the same images; to be asked before any work is done."""
    paths = [experiment.path.resolve() for experiment in experiments]
    if len(set(paths)) < len(paths):
        raise SettingsError("An experiment was named twice; an ensemble takes each population once.")
    first = experiments[0].settings().data
    for experiment in experiments[1:]:
        other = experiment.settings().data
        if (other.source, other.size) != (first.source, first.size):
            raise SettingsError(
                f"'{shown(experiments[0].path)}' is about '{shown(first.source)}' and '{shown(experiment.path)}' about "
                f"'{shown(other.source)}'; an ensemble needs experiments on the same images."
            )


def ensemble(
    experiments: Sequence[Experiment], *, top: int, source: Source, data: Dataset, name: str, target: Path
) -> Ensemble:
    """Chooses by fitness on validation images, tests each network and all together, and writes one model."""
    from genepool.nn.final_test import test_answers

    parts = [_best(experiment, top, data) for experiment in experiments]
    taken = _together(parts)
    answers, labels = test_answers(taken.originals, source, data)
    averaged = share_right(average(answers), labels)
    facts = msgspec.structs.replace(taken.facts, test_accuracy=averaged)
    written = write_taken(msgspec.structs.replace(taken, facts=facts), data, name=name, target=target)
    owners = [e.path for e, part in zip(experiments, parts, strict=True) for _ in part.facts.members]
    return Ensemble(
        members=tuple(
            Voter(
                experiment=shown(owner),
                id=member.id,
                validation_accuracy=member.fitness if member.accuracy is None else member.accuracy,
                test_accuracy=share_right(answer.argmax(1), labels),
            )
            for owner, member, answer in zip(owners, facts.members, answers, strict=True)
        ),
        vote_test_accuracy=share_right(majority(answers), labels),
        average_test_accuracy=averaged,
        average_validation_accuracy=written.validation_accuracy,
        path=written.path,
    )


def _best(experiment: Experiment, top: int, data: Dataset) -> Taken:
    history = experiment.history()
    return take(experiment, history, _top(experiment, history, top), data)


def _top(experiment: Experiment, history: History, top: int) -> list[str]:
    """The fittest of the living; of equals, those who became alive first."""
    living = [row for row in history.finished() if row.state is State.ALIVE]
    if len(living) < top:
        raise DataError(f"Of the {top} networks asked for, only {len(living)} are alive in '{shown(experiment.path)}'.")
    return [row.id for row in sorted(living, key=lambda row: -(row.fitness or 0.0))[:top]]


def _together(parts: Sequence[Taken]) -> Taken:
    from genepool.export.facts import Search, digest_of
    from genepool.export.network import Network

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
    return Taken(facts=facts, originals=tuple(model for part in parts for model in part.originals), network=network)
