"""One individual: its record, its network layer by layer, and those that it descends from."""

from __future__ import annotations

from typing import Any

import msgspec

from genepool.analysis import Row, lineage
from genepool.dashboard.images import Image, image_of
from genepool.dashboard.reader import Reader
from genepool.dna import DNA, Conv, cost, shapes
from genepool.errors import ConcurrencyError, DataError, GenepoolError, InvalidDNAError, SettingsError, shown
from genepool.experiment import Experiment
from genepool.population import State, naming

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
                individual = naming.parse(fossil.name)
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
            "attempt": row.individual.epoch,
            "plan": birth.plan,
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
    sizes, price = None, None
    if image is not None:
        try:
            sizes, price = shapes(dna, image.shape), cost(dna, image.shape, image.classes, 1)
        except GenepoolError:
            sizes = None
    drawn_anew = {name.partition(".")[0] for name in fresh}

    def item(identity: str) -> dict[str, Any]:
        if price is None:
            return {"parameters": None, "flops": None}
        return {"parameters": price.items[identity].parameters, "flops": price.items[identity].forward.total}

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
