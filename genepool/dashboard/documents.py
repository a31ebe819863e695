"""The JSON documents of the dashboard's API, as plain values; docs/dashboard.md describes each.

The shape of an experiment's images. No record names it, and an observer may not have the images.

Data sets with a name are in the catalogue. Of others it follows from what any record says of its network's cost: the
parameters depend on the classes, and the operations on the size, and only one size gives exactly these.

The JSON documents of the dashboard's API (docs/dashboard.md describes each), as plain values.

One individual: its record, its network layer by layer, and those that it descends from.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from genepool import __version__
from genepool.analysis import Row, lineage
from genepool.dashboard.reader import Reader
from genepool.dna import DNA, Conv, Shape, requirements, shapes
from genepool.errors import ConcurrencyError, DataError, GenepoolError, InvalidDNAError, SettingsError, shown
from genepool.evaluation import Evaluation
from genepool.experiment import Experiment
from genepool.population import State
from genepool.population.directory import names
from genepool.settings import Settings

_LARGEST_SIDE = 1024


class Image(NamedTuple):
    """What a network is made for."""

    shape: Shape
    classes: int


def image_of(settings: Settings, dna: DNA, told: Evaluation) -> Image | None:
    """The images of an experiment, with the help of one of its records; None where they cannot be known."""
    from genepool.data import SOURCES

    try:
        if settings.data in SOURCES:
            known = SOURCES.get(settings.data)
            return Image(Shape(known.height, known.width, known.channels), known.classes)
        return next(filter(None, (_fitting(settings, dna, told, channels) for channels in (3, 1))), None)
    except (GenepoolError, ImportError):
        return None


def _fitting(settings: Settings, dna: DNA, told: Evaluation, channels: int) -> Image | None:
    one, two = (requirements(dna, Shape(8, 8, channels), classes).parameters for classes in (1, 2))
    classes, rest = divmod(told.parameters - one, two - one)
    if rest or classes < 0 or not told.flops_forward:
        return None

    def operations(shape: Shape) -> int:
        return requirements(dna, shape, classes + 1, settings.batch).forward.total

    if settings.size:
        height, width = (int(side) for side in settings.size.split("x"))
        shape = Shape(height, width, channels)
    else:
        sides = range(1, _LARGEST_SIDE)
        side = bisect_left(sides, told.flops_forward, key=lambda side: operations(Shape(side, side, channels))) + 1
        shape = Shape(side, side, channels)
    return Image(shape, classes + 1) if operations(shape) == told.flops_forward else None


VERSION = 1
"""Of the API; fields may be added under the same number."""
EVERYTHING = 10**9

_PLAIN = ("parent", "mutation", "worker", "version", "depth", "parameters", "flops", "learning_rate")
_TIMES = ("born", "finished", "seconds")


def about(*, control: bool, single: bool, name: str) -> dict[str, Any]:
    """The document `/api`."""
    return {"api": VERSION, "genepool": __version__, "control": control, "single": single, "name": name}


def sequence_of(reader: Reader, cursor: str) -> int | None:
    """How far a cursor is; None if it is from another reader, whose numbers mean nothing here."""
    boot, _, number = cursor.partition("-")
    known = boot == reader.boot and number.isascii() and number.isdigit()
    return min(int(number[:18]), reader.table.sequence) if known else None


def individuals(reader: Reader, since: int = 0, most: int = EVERYTHING) -> dict[str, Any]:
    """The document `/api/experiments/KEY/individuals`: columns of the rows that changed after a number."""
    with reader.lock:
        table = reader.table
        rows = table.changed_since(since, most)
        states = table.column("state")[rows].tobytes().decode("ascii")
        columns: dict[str, Any] = {name: table.column(name)[rows].tolist() for name in _PLAIN}
        columns |= {name: np.round(table.column(name)[rows], 3).tolist() for name in _TIMES}
        columns["fitness"] = np.round(table.column("fitness")[rows], 6).tolist()
        last = int(table.column("sequence")[rows[-1]]) if len(rows) else table.sequence
        return {
            "cursor": f"{reader.boot}-{last}",
            "total": len(table),
            "mutations": list(reader.mutations.texts),
            "workers": list(reader.workers.texts),
            "rows": {
                "index": rows.tolist(),
                "id": [table.ids[row] for row in rows],
                "state": states,
                **columns,
            },
        }


def curve(reader: Reader) -> dict[str, Any]:
    """The document `/api/experiments/KEY/curve`: every new best, and where the experiment stands now."""
    with reader.lock:
        table = reader.table
        fitness, finished = table.column("fitness"), table.column("finished")
        rows = table.finished_rows()
        scores, flops = fitness[rows], np.cumsum(table.column("flops")[rows])
        stops = finished[rows]
        starts = stops - table.column("seconds")[rows]
    if not len(rows):
        return {"individuals": [], "seconds": [], "flops": [], "best": []}
    best = np.maximum.accumulate(scores)
    records = np.concatenate([[True], best[1:] > best[:-1]])
    records[-1] = True
    elapsed = _elapsed(starts, stops)
    return {
        "individuals": (np.nonzero(records)[0] + 1).tolist(),
        "seconds": np.round(elapsed[records], 3).tolist(),
        "flops": flops[records].tolist(),
        "best": np.round(best[records], 6).tolist(),
    }


def _elapsed(starts: NDArray[np.float64], stops: NDArray[np.float64]) -> NDArray[np.float64]:
    """How long somebody had been training by the end of each, in the order of their ends; pauses do not count."""
    began = np.minimum.accumulate(starts[::-1])[::-1]  # of this one and of all that ended later
    previous = np.concatenate([[-np.inf], stops[:-1]])
    return np.cumsum(np.clip(stops - np.maximum(began, previous), 0.0, None))


MOST_ANCESTORS = 1000
_TRIES = 3


class Details:
    """Reads whole records of one experiment, when somebody asks for one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._image: Image | None = None

    def row(self, identity: str) -> Row:
        """The record of an individual, from its directory or from an archive."""
        number = self._reader.table.rows.get(identity)
        if number is None:
            raise SettingsError(f"The individual '{shown(identity)}' is not in this experiment, or not yet.")
        for _ in range(_TRIES):
            fossil = self._reader.fossil(number)
            if fossil is not None:
                individual = names.parse(fossil.name)
                assert individual is not None  # checked when it was dug up
                return Row(individual=individual, birth=fossil.birth, result=fossil.result)
            try:
                if (row := self._living(identity)) is not None:
                    return row
            except ConcurrencyError:
                pass
            self._reader.refresh()
        raise ConcurrencyError(f"Individual {identity} changes faster than it can be read; try again.")

    def _living(self, identity: str) -> Row | None:
        view = self._reader.view
        individual = view.find(identity)
        if individual is None:
            return None
        if individual.state is State.QUARANTINED:
            raise DataError(f"Individual {identity} is in quarantine ({individual.why}); `genepool check` tells more.")
        birth = view.read_birth(individual)
        has_result = individual.state in (State.ALIVE, State.DEAD)
        return Row(individual=individual, birth=birth, result=view.read_result(individual) if has_result else None)

    def individual(self, identity: str) -> dict[str, Any]:
        """The document `/api/experiments/KEY/individuals/ID`."""
        row = self.row(identity)
        told, birth = row.evaluation, row.birth
        return {
            "id": row.id,
            "state": row.state.value,
            "why": row.individual.why,
            "reason": told.reason,
            "fitness": row.fitness,
            "accuracy": row.accuracy,
            "parents": birth.parents,
            "mutations": birth.mutations,
            "born": birth.created,
            "finished": row.result.finished if row.result else None,
            "settings_version": birth.settings_version,
            "worker": row.individual.owner if row.result is None else row.result.attempt.partition("-")[2],
            "attempt": row.individual.claim,
            "training_budget": birth.training_budget,
            "steps": told.steps,
            "seconds": told.seconds,
            "step_seconds": told.step_seconds,
            "flops": told.flops,
            "flops_forward": told.flops_forward,
            "flops_training": told.flops_training,
            "parameters": told.parameters,
            "losses": told.losses,
            "inherited": told.inherited,
            "fresh": told.fresh,
            "has_weights": row.result is not None and row.state is State.ALIVE and bool(row.result.files),
            "dna": birth.dna,
            **self._network(row),
        }

    def dna_text(self, identity: str) -> bytes:
        """The DNA, as `genepool train` reads it."""
        return msgspec.json.format(bytes(self.row(identity).birth.dna), indent=2)

    def weights(self, identity: str) -> bytes:
        """The trained weights of one that is alive."""
        row = self.row(identity)
        found = None
        if row.result is not None and self._reader.table.get(self._reader.table.rows[identity], "log") < 0:
            found = self._reader.view.weights(row.individual)
        if found is None:
            raise DataError(f"The individual {identity} has no weights; only the living keep theirs.")
        return found

    def lineage(self, identity: str) -> dict[str, Any]:
        """The document `/api/experiments/KEY/lineage/ID`: from the first of the line to this one."""
        table = self._reader.table
        row = table.rows.get(identity)
        if row is None:
            raise SettingsError(f"The individual '{shown(identity)}' is not in this experiment, or not yet.")
        chain: list[int] = []
        known: set[int] = set()
        while row >= 0 and row not in known:
            known.add(row)
            chain.append(row)
            row = table.get(row, "parent")
        shown_rows = chain[:MOST_ANCESTORS]
        return {
            "id": identity,
            "left_out": len(chain) - len(shown_rows),
            "ancestors": [
                *self._abroad(table.ids[chain[-1]]),
                *(self._ancestor(table.ids[number]) for number in reversed(shown_rows)),
            ],
        }

    def _abroad(self, identity: str) -> list[dict[str, Any]]:
        """The ancestors that a migrant left in another population; their networks are known in words only."""
        try:
            first = self.row(identity)
        except GenepoolError:
            return []
        return [{**msgspec.to_builtins(link), "layers": []} for link in lineage({first.id: first}, first.id)[:-1]]

    def _ancestor(self, identity: str) -> dict[str, Any]:
        number = self._reader.table.rows[identity]
        try:
            row = self.row(identity)
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
            "trouble": "",
            "learning_rate": dna.learning_rate,
            "layers": layers(dna, self._image_for(row), set(row.evaluation.fresh)),
            "classes": self._image.classes if self._image else None,
        }

    def _image_for(self, row: Row) -> Image | None:
        if self._image is None:
            settings = Experiment.open(self._reader.path).settings()
            self._image = image_of(settings, row.dna, row.evaluation)
        return self._image


def layers(dna: DNA, image: Image | None, fresh: set[str]) -> list[dict[str, Any]]:
    """Every vertex with what comes into it, from the input to the output."""
    place = {vertex: number for number, vertex in enumerate(dna.order)}
    backbone, on = {edge.id for edge in dna.backbone}, set(dna.backbone_vertices)
    sizes, needs = None, None
    if image is not None:
        try:
            sizes, needs = shapes(dna, image.shape), requirements(dna, image.shape, image.classes, 1)
        except GenepoolError:
            sizes = None
    drawn_anew = {name.partition(".")[0] for name in fresh}

    def item(identity: str) -> dict[str, Any]:
        if needs is None:
            return {"parameters": None, "flops": None}
        return {"parameters": needs.items[identity].parameters, "flops": needs.items[identity].forward.total}

    return [
        {
            "vertex": vertex,
            "type": dna.vertex[vertex].type,
            "leakiness": dna.vertex[vertex].leakiness,
            "backbone": vertex in on,
            "shape": sizes.vertices[vertex] if sizes else None,
            "fresh": f"vertex_{vertex}" in drawn_anew,
            **item(vertex),
            "edges": [
                {
                    "edge": edge.id,
                    "from": place[edge.from_vertex],
                    "kind": "conv" if isinstance(edge, Conv) else "identity",
                    "filter": [edge.filter_width, edge.filter_height] if isinstance(edge, Conv) else None,
                    "stride": edge.stride if isinstance(edge, Conv) else 1,
                    "factor": edge.depth_factor if isinstance(edge, Conv) else 1.0,
                    "backbone": edge.id in backbone,
                    "fresh": f"edge_{edge.id}" in drawn_anew,
                    **item(edge.id),
                }
                for edge in dna.edges_in[vertex]
            ],
        }
        for vertex in dna.order
    ]
