"""The JSON documents about one individual: its record, its network layer by layer, and its lineage."""

from bisect import bisect_left
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from genepool.analysis import Observer, Row, ancestor_rows, before_migration
from genepool.dna import DNA, Shape, requirements, shapes
from genepool.errors import DataError, GenepoolError, InvalidDNAError, shown
from genepool.evaluation import Evaluation
from genepool.experiment import Experiment
from genepool.layers import Layer, is_missing, label_of, title_of
from genepool.population import State, worker_of
from genepool.settings import Settings

MOST_ANCESTORS = 1000
_LARGEST_SIDE = 1024  # pixels; larger images of unnamed data sets are not recognised
_MEASURED = (
    "steps", "seconds", "step_seconds", "flops", "flops_forward", "flops_training", "parameters", "losses",
    "inherited", "fresh",
)  # fmt: skip


class Image(NamedTuple):
    """The images that a network is made for."""

    shape: Shape
    classes: int


class Details:
    """Reads single records of one experiment on request."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._image: Image | None = None

    def individual(self, identity: str) -> dict[str, Any]:
        """The document `/api/experiments/KEY/individuals/ID`."""
        row = self._observer.row(identity)
        evaluation, birth = row.evaluation, row.birth
        return {
            "id": row.id,
            "state": row.state.value,
            "why": row.individual.why,
            "reason": evaluation.reason,
            "fitness": row.fitness,
            "accuracy": row.accuracy,
            "parents": birth.parents,
            "mutations": birth.mutations,
            "born": birth.created,
            "finished": row.result.finished if row.result else None,
            "settings_version": birth.settings_version,
            "worker": row.individual.owner if row.result is None else worker_of(row.result.attempt),
            "attempt": row.individual.claim,
            "training_budget": birth.training_budget,
            **{name: getattr(evaluation, name) for name in _MEASURED},
            "has_weights": row.result is not None and row.state is State.ALIVE and bool(row.result.files),
            "dna": birth.dna,
            **self._network(row),
        }

    def dna_text(self, identity: str) -> bytes:
        """The DNA, as `genepool train` reads it."""
        return msgspec.json.format(bytes(self._observer.row(identity).birth.dna), indent=2)

    def weights(self, identity: str) -> bytes:
        """The trained weights of a living individual."""
        row, found = self._observer.row(identity), None
        if row.result is not None and self._observer.table.place(self._observer.number(identity)) is None:
            found = self._observer.view.weights(row.individual)
        if found is None:
            raise DataError(f"The individual {identity} has no weights; only living individuals keep theirs.")
        return found

    def lineage(self, identity: str) -> dict[str, Any]:
        """The document `/api/experiments/KEY/lineage/ID`: from the first known ancestor to this individual."""
        line = ancestor_rows(self._observer.table, self._observer.number(identity))
        shown_rows, ids = line[-MOST_ANCESTORS:], self._observer.table.ids
        return {
            "id": identity,
            "left_out": len(line) - len(shown_rows),
            "ancestors": [*self._before_migration(ids[line[0]]), *(self._ancestor(ids[row]) for row in shown_rows)],
        }

    def _before_migration(self, identity: str) -> list[dict[str, Any]]:
        """The ancestors in another population, of whose networks only a description is known."""
        try:
            links = before_migration(self._observer.row(identity))
        except GenepoolError:
            return []
        return [{**msgspec.to_builtins(link), "layers": []} for link in links]

    def _ancestor(self, identity: str) -> dict[str, Any]:
        number = self._observer.number(identity)
        try:
            row = self._observer.row(identity)
        except GenepoolError as error:
            return {"id": identity, "index": number, "trouble": str(error), "layers": [], "mutations": []}
        return {
            "id": identity,
            "index": number,
            "state": row.state.value,
            "mutations": row.birth.mutations,
            "second": row.birth.parents[1] if len(row.birth.parents) > 1 else None,
            "fitness": row.fitness,
            "parameters": row.evaluation.parameters,
            "reason": row.evaluation.reason,
            **self._network(row),
        }

    def _network(self, row: Row) -> dict[str, Any]:
        try:
            dna = row.dna
        except InvalidDNAError as error:
            return {"network": "", "trouble": f"Its DNA cannot be read: {error}", "learning_rate": None, "layers": []}
        return {
            "network": dna.in_a_line(),
            "trouble": _trouble(dna),
            "learning_rate": dna.learning_rate,
            "body_rate": dna.body_rate,
            "layers": layers(dna, self._image_for(row), set(row.evaluation.fresh)),
            "classes": self._image.classes if self._image else None,
        }

    def _image_for(self, row: Row) -> Image | None:
        if self._image is None:
            self._image = image_of(Experiment.open(self._observer.path).settings(), row.dna, row.evaluation)
        return self._image


def _trouble(dna: DNA) -> str:
    if not dna.missing_kinds:
        return ""
    names = ", ".join(f"'{shown(kind)}'" for kind in dna.missing_kinds)
    return f"The dashboard lacks the plugin with {names}, so shapes are unknown; start it with --plugin."


def layers(dna: DNA, image: Image | None, fresh: set[str]) -> list[dict[str, Any]]:
    """Every vertex with its incoming edges, from the input to the output."""
    place = {vertex: number for number, vertex in enumerate(dna.order)}
    backbone, on = {edge.id for edge in dna.backbone}, set(dna.backbone_vertices)
    sizes, needs = None, None
    if image is not None:
        with suppress(GenepoolError):
            sizes, needs = shapes(dna, image.shape), requirements(dna, image.shape, image.classes, 1)
    fresh_parts = {name.partition(".")[0] for name in fresh}

    def item(identity: str) -> dict[str, Any]:
        if needs is None:
            return {"parameters": None, "flops": None}
        return {"parameters": needs.items[identity].parameters, "flops": needs.items[identity].forward.total}

    return [
        {
            "vertex": vertex,
            "type": dna.vertex[vertex].type,
            **_drawn(dna.vertex[vertex]),
            "backbone": vertex in on,
            "shape": sizes.vertices[vertex] if sizes else None,
            "fresh": f"vertex_{vertex}" in fresh_parts,
            **item(vertex),
            "edges": [
                {
                    "edge": edge.id,
                    "from": place[edge.from_vertex],
                    "kind": edge.type,
                    **_drawn(edge),
                    "stride": edge.stride,
                    "backbone": edge.id in backbone,
                    "fresh": f"edge_{edge.id}" in fresh_parts,
                    **item(edge.id),
                }
                for edge in dna.edges_in[vertex]
            ],
        }
        for vertex in dna.order
    ]


def _drawn(layer: Layer) -> dict[str, Any]:
    """The parts of the document that say how an edge or a vertex is drawn."""
    return {
        "title": title_of(layer),
        "computes": bool(label_of(layer)),
        "has_weights": layer.has_weights,
        "known": not is_missing(layer),
    }


def image_of(settings: Settings, dna: DNA, evaluation: Evaluation) -> Image | None:
    """The shape and classes of an experiment's images; None if they cannot be determined. The catalogue has those of
    named data sets. Others follow from any record, because an observer may not have the images: the classes from the
    parameters, and the size from the FLOPs, which no other size gives exactly.
    """
    from genepool.data import SOURCES

    try:
        if settings.data.source in SOURCES:
            known = SOURCES.get(settings.data.source)
            return Image(Shape(known.height, known.width, known.channels), known.classes)
        return next(filter(None, (_fitting(settings, dna, evaluation, channels) for channels in (3, 1))), None)
    except (GenepoolError, ImportError):
        return None


def _fitting(settings: Settings, dna: DNA, evaluation: Evaluation, channels: int) -> Image | None:
    one, two = (requirements(dna, Shape(8, 8, channels), classes).parameters for classes in (1, 2))
    classes, rest = divmod(evaluation.parameters - one, two - one)
    if rest or classes < 0 or not evaluation.flops_forward:
        return None

    def operations(shape: Shape) -> int:
        return requirements(dna, shape, classes + 1, settings.training.batch).forward.total

    if (size := settings.data.height_and_width) is None:
        wanted, sides = evaluation.flops_forward, range(1, _LARGEST_SIDE)
        side = bisect_left(sides, wanted, key=lambda side: operations(Shape(side, side, channels))) + 1
        size = side, side
    shape = Shape(*size, channels)
    return Image(shape, classes + 1) if operations(shape) == evaluation.flops_forward else None
