"""The benchmark of watching finds a loss where there is one; how large it really is, is not tested."""

import pytest

from benchmarks.observers import SLICE, Slice, told


def run(slowdown: float) -> tuple[list[Slice], list[tuple[float, float]]]:
    """Slices in turns, and two workers whose individuals take 2 s, and longer while somebody watches."""
    slices = [Slice(number % 4 in (0, 3), SLICE * number, SLICE * (number + 1), 0.2) for number in range(8)]
    cycles = []
    for moment in (0.3, 1.1):
        while moment < slices[-1].stop:
            watched = slices[int(moment / SLICE)].watched
            after = moment + 2.0 * (slowdown if watched else 1.0)
            cycles.append((moment, after))
            moment = after
    return slices, cycles


@pytest.mark.parametrize("slowdown", [1.0, 1.1, 1.5])
def test_the_loss_is_what_the_slowdown_makes_of_it(slowdown, capsys):
    slices, cycles = run(slowdown)
    assert told(slices, cycles, 100, 3000, "stream") == pytest.approx(1 - 1 / slowdown, abs=0.02)
    assert "4 pairs" in capsys.readouterr().out
