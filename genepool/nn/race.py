"""One look at a child on its way: who clearly loses against its parent stops, who clearly wins goes on for longer.

Differs from the paper, where everybody trains to the end. Nobody waits for anybody: all that is compared is the child,
on some of the validation images, with the fitness that its parent had when the child was born.

What is compared are errors, by their ratio: a child is further from its own end than its parent was, and by how much
depends on how hard the images are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from genepool.evaluation import Race, Verdict
from genepool.nn.pace import Pace

IMAGES = 500
"""Validation images for a look: less than one in a hundred of a training's operations, in most."""
LOSING = 1.4
"""Times the parent's errors. Measured with `laptop`, half-way: of 54 that ended at least as good as their parent all
but one had less than 1.3 times its errors then; of 44 that did not, the 12 hopeless ones had 1.49 times and more."""
WINNING = 0.95
"""Times the parent's errors: nobody who was below it half-way ended worse than its parent."""
_VERDICTS: tuple[Verdict | None, ...] = (None, "stopped", "longer", "kept")


def judge(accuracy: float, rival: float) -> Verdict:
    """What is to become of a child that has this accuracy at the look."""
    error, known = 1 - accuracy, 1 - rival
    if error > LOSING * known:
        return "stopped"
    return "longer" if error < WINNING * known else "kept"


class Referee:
    """Watches the steps of one training; `measure` tells the network's accuracy as it is at that moment."""

    def __init__(self, race: Race | None, pace: Pace, measure: Callable[[], float]) -> None:
        self._race, self._pace, self._measure = race, pace, measure
        self.verdict = race.verdict if race is not None else None
        self.look: tuple[int, float] | None = None

    def after(self, done: int) -> None:
        """To be told of every step."""
        race, steps = self._race, self._pace.steps
        if race is None or self.verdict is not None or not race.look * steps <= done < steps:
            return
        began = self._pace.elapsed
        self.look = (done, self._measure())
        self._pace.pause(self._pace.elapsed - began)
        self.verdict = judge(self.look[1], race.rival)
        if self.verdict == "stopped":
            self._pace.stop(done)
        elif self.verdict == "longer" and race.stretch > 1:
            self._pace.stretch(done, race.stretch)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint has to keep."""
        if self._race is None:
            return {}
        figures = [_VERDICTS.index(self.verdict), *(self.look or (0, 0.0)), self._pace.seconds]
        return {"race": torch.tensor(figures, dtype=torch.float64)}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """Goes back to where a checkpoint was made."""
        if self._race is None:
            return
        verdict, step, accuracy, self._pace.seconds = tensors["race"].tolist()
        self.verdict = _VERDICTS[int(verdict)]
        self.look = (int(step), accuracy) if step else None
