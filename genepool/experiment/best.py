"""The best network of an experiment: tested once, kept with its weights, or prepared for export. `<experiment>/best/`
has the network (dna.json, weights.safetensors), facts about it, including its test accuracy (best.json), and all test
accuracies that were measured, by ID (tests.json).

The best networks of several experiments make an ensemble, without further training. The paper ensembles the top 2
models of each population by validation accuracy and takes a majority vote. The exported model averages probabilities,
like every exported ensemble; both are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool.analysis import History, Row, find, lineage
from genepool.data import write_atomic
from genepool.dna import codec, requirements
from genepool.errors import (
    ConcurrencyError,
    DataError,
    ExportError,
    LayerError,
    MissingLayerError,
    SettingsError,
    StorageError,
    shown,
)
from genepool.experiment.experiment import Experiment
from genepool.layers import blaming
from genepool.population import State

if TYPE_CHECKING:
    from genepool.data import Dataset, Source
    from genepool.experiment.images import ImageRecord
    from genepool.export import Member, ModelToExport

FOLDER, TESTS = "best", "tests.json"
Answers = NDArray[np.float32]  # probabilities (networks, images, classes)


class BestNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The best individual. The keys of its JSON form are documented."""

    id: str
    fitness: float  # what it was chosen by
    accuracy: float | None = None  # its validation accuracy; None in old files, where it equals the fitness
    test_accuracy: float | None  # None if it was not measured
    parameters: int
    network: str
    learning_rate: float
    body_rate: float = 1.0  # the learning rate of all layers but the classifier, as a fraction of it
    individuals: int  # number of individuals that the experiment has trained
    flops: int  # FLOPs that the experiment has spent
    seconds: float
    weights: str  # path of the weights file
    flops_image: int = 0  # FLOPs of a forward pass for one image
    milliseconds: float | None = None  # inference time for one image; None if it was not measured
    untested: str | None = None  # why its test accuracy could not be measured

    @property
    def validation_accuracy(self) -> float:
        return self.fitness if self.accuracy is None else self.accuracy


def choose_best(experiment: Experiment, history: History) -> Row:
    if (best := history.best()) is None:
        raise DataError(f"No individual in '{shown(experiment.path)}' is alive yet; let it run for a while.")
    return best


def best_network(
    experiment: Experiment, *, source: Callable[[], Source] | None = None, device: str = "cpu"
) -> BestNetwork:
    """Choose the best individual, keep a copy of its network and return the facts about it. With a source of
    images, its test accuracy is measured, unless that was done before: once, and only for the chosen one. It stays
    unknown if the images are gone or have changed, and in a process that lacks a kind of the network's layers."""
    history = experiment.history()
    row = choose_best(experiment, history)
    test_accuracy = measured_accuracies(experiment).get(row.id)
    if (weights := experiment.view().weights(row.individual)) is None:
        raise DataError(f"The weights of the best individual, {row.id}, are gone; run `genepool check`.")
    untested = None
    if test_accuracy is None and source is not None:
        try:
            test_accuracy = measure_test_accuracy(experiment, row, weights, source(), device)
            remember_test(experiment, row.id, test_accuracy)
        except (MissingLayerError, LayerError) as error:
            untested = str(error)
        except DataError as error:  # the images are gone or have changed
            if experiment.recorded_images() is None:
                raise
            untested = str(error)
    spent = history.spending()
    found = BestNetwork(
        id=row.id,
        fitness=row.fitness or 0.0,
        accuracy=row.accuracy or 0.0,
        test_accuracy=test_accuracy,
        parameters=row.evaluation.parameters,
        network=row.dna.in_a_line(),
        learning_rate=row.dna.learning_rate,
        body_rate=row.dna.body_rate,
        individuals=spent.individuals,
        flops=spent.flops,
        seconds=spent.seconds,
        weights=str(experiment.path / FOLDER / "weights.safetensors"),
        flops_image=row.evaluation.flops_image,
        milliseconds=row.evaluation.milliseconds,
        untested=untested,
    )
    with _writing_into(experiment.path / FOLDER) as folder:
        write_atomic(folder / "weights.safetensors", weights)
        write_atomic(folder / "dna.json", codec.encode(row.dna).encode())
        # Last, because it names the individual that the other files belong to.
        write_atomic(folder / "best.json", msgspec.json.format(msgspec.json.encode(found), indent=2))
    return found


def measured_accuracies(experiment: Experiment) -> dict[str, float]:
    found, folder = {}, experiment.path / FOLDER
    with suppress(OSError, msgspec.MsgspecError):
        best = msgspec.json.decode((folder / "best.json").read_bytes(), type=BestNetwork)
        found = {best.id: best.test_accuracy} if best.test_accuracy is not None else {}
    with suppress(OSError, msgspec.MsgspecError):
        found |= msgspec.json.decode((folder / TESTS).read_bytes(), type=dict[str, float])
    return found


def remember_test(experiment: Experiment, identity: str, accuracy: float) -> None:
    everything = {**measured_accuracies(experiment), identity: accuracy}
    with _writing_into(experiment.path / FOLDER) as folder:
        write_atomic(folder / TESTS, msgspec.json.format(msgspec.json.encode(everything), indent=2))


@contextmanager
def _writing_into(folder: Path) -> Iterator[Path]:
    try:
        folder.mkdir(exist_ok=True)
        yield folder
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"The best network cannot be kept in '{shown(folder)}': {reason}.") from None


def measure_test_accuracy(experiment: Experiment, row: Row, weights: bytes, source: Source, device: str) -> float:
    """Measure the test accuracy of an individual with these weights. Workers never call this."""
    row.dna.require_kinds()
    from genepool.nn import TorchEvaluator, choose_device, from_bytes, inherit_weights, test_accuracy

    data = experiment.prepared(source)
    settings = experiment.settings(row.birth.settings_version)
    evaluator = TorchEvaluator(data, settings.training, settings.limits, choose_device(device))
    with blaming(row.dna.layers):
        model = evaluator.unfold(row.dna, seed=0)
        if inherit_weights(model, from_bytes(weights)).fresh:
            raise DataError(f"The weights of individual {row.id} do not fit its DNA; run `genepool check`.")
        return test_accuracy(model, source, data, evaluator.normalise)


def model_to_export(
    experiment: Experiment, history: History, identities: Sequence[str], data: Dataset | ImageRecord
) -> ModelToExport:
    """Prepare the best individual, the one given, or several as an ensemble, with their weights."""
    from genepool.export import Facts, ModelToExport, Search, build, digest_of, restore
    from genepool.nn import from_bytes

    rows = [find(history.rows, identity) for identity in identities] or [choose_best(experiment, history)]
    if len({row.id for row in rows}) < len(rows):
        raise ExportError("An individual was given twice; an ensemble needs different ones.")
    weights = [from_bytes(_required_weights(experiment, row)) for row in rows]
    spent = history.spending()
    facts = Facts(
        name=shown(experiment.path.resolve().name),
        data=data.name,
        classes=data.classes,
        **data.image._asdict(),
        mean=data.mean,
        std=data.std,
        test_accuracy=measured_accuracies(experiment).get(rows[0].id) if len(rows) == 1 else None,
        members=tuple(_member(history, row, data) for row in rows),
        search=Search(individuals=spent.individuals, flops=spent.flops, seconds=spent.seconds),
    )
    try:
        originals = tuple(restore(member, facts, part) for member, part in zip(facts.members, weights, strict=True))
        network = build(facts, weights)
    except DataError as error:
        raise DataError(
            f"The model cannot be taken out of '{shown(experiment.path)}': {error} Are these the images that it was "
            "trained on? If so, run `genepool check`."
        ) from None
    facts = msgspec.structs.replace(facts, digest=digest_of(network.state_dict()))
    return ModelToExport(facts=facts, originals=originals, network=network)


def weights_of(experiment: Experiment, row: Row) -> bytes | None:
    with suppress(ConcurrencyError):  # it has been collected
        return experiment.view().weights(row.individual) if row.result is not None else None
    return None


def _required_weights(experiment: Experiment, row: Row) -> bytes:
    weights = weights_of(experiment, row)
    if weights is None:
        state = row.state.name.lower()
        raise DataError(f"The individual {row.id} has no weights (it is {state}); only living individuals keep theirs.")
    return weights


def _member(history: History, row: Row, data: Dataset | ImageRecord) -> Member:
    from genepool.export import Ancestor, Member

    dna, ancestors = row.dna, lineage(history.rows, row.id)
    needs = requirements(dna, data.image, len(data.classes), 1)
    return Member(
        id=row.id,
        network=dna.in_a_line(),
        fitness=row.fitness or 0.0,
        accuracy=row.accuracy,
        parameters=needs.parameters,
        flops=needs.forward.total,
        dna=codec.encode_in_a_line(dna).decode(),
        lineage=tuple(Ancestor(mutations=a.mutations, fitness=a.fitness, accuracy=a.accuracy) for a in ancestors),
    )


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

    parts = [_fittest(experiment, top, data) for experiment in experiments]
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


def _fittest(experiment: Experiment, top: int, data: Dataset) -> ModelToExport:
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
