"""The benchmark of observers finds a loss if there is one; its real size is not tested."""

import pytest

from benchmarks.observers import SLICE, Slice, print_loss


def run(slowdown: float) -> tuple[list[Slice], list[tuple[float, float]]]:
    """Alternating slices, and two workers whose individuals take 2 s, and longer while they are observed."""
    slices = [Slice(number % 4 in (0, 3), SLICE * number, SLICE * (number + 1), 0.2) for number in range(8)]
    cycles = []
    for moment in (0.3, 1.1):
        while moment < slices[-1].stop:
            observed = slices[int(moment / SLICE)].observed
            after = moment + 2.0 * (slowdown if observed else 1.0)
            cycles.append((moment, after))
            moment = after
    return slices, cycles


@pytest.mark.parametrize("slowdown", [1.0, 1.1, 1.5])
def test_the_loss_is_what_the_slowdown_makes_of_it(slowdown, capsys):
    slices, cycles = run(slowdown)
    assert print_loss(slices, cycles, 100, 3000, "stream") == pytest.approx(1 - 1 / slowdown, abs=0.02)
    assert "4 pairs" in capsys.readouterr().out
