"""What a worker goes by from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from genepool.evolution import Intervention, Rules, Spending
from genepool.experiment.values import escape_of

if TYPE_CHECKING:
    from genepool.experiment.experiment import Experiment


class Course:
    """What a worker goes by, asked before each step: the settings in force, and whether an escape lasts.

    Any worker that finds an escape due publishes it, as the version after the one that it has seen: of several who do
    so at once one wins, and the others find it in force.
    """

    def __init__(self, experiment: Experiment, who: str, spent: Callable[[], Spending]) -> None:
        self._experiment, self._who, self._spent = experiment, who, spent

    def __call__(self) -> Rules:
        version = self._experiment.version()
        escape = escape_of(self._experiment.settings(version))
        if not escape.matters:
            return self._experiment.rules(version)
        spent = self._spent()
        if escape.is_due(spent):
            phase = Intervention(mutations=escape.mutations, individuals=escape.auto)
            self._experiment.intervene(phase, spent, who=self._who, version=version)
            version = self._experiment.version()
            escape = escape_of(self._experiment.settings(version))
        return self._experiment.rules(version, escaping=escape.lasts(spent))
