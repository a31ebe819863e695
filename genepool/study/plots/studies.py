"""The figures of studies: accuracy against FLOPs, the paper's repeatability, dependence and escapes, and scaling."""

from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from genepool.analysis import Dot
from genepool.study.plots import ALIVE, DEAD, MANY, RECORD, new_figure, percent_axis, save, save_png, time_axis
from genepool.testing.simulation import Outcome

COLOURS = ("#1f5fbf", "#d97706", "#2f855a", "#b83280", "#6b46c1", "#718096", "#c53030", "#0987a0")
FEW = 4  # with more arms than this, only the mean of each arm is drawn
STYLES = ("-", "--", "-.", ":")
GREYS = ("#1a202c", "#718096", "#a0aec0", "#4a5568")  # the colours of published curves
LATE = 0.6  # the share of the time at which the magnified part begins
BELOW = 0.55  # the share of the height that the inset takes if it is at the bottom
PLACES = ((0.5, 0.1, 0.47, 0.4), (0.3, 0.1, 0.47, 0.4), (0.5, 0.3, 0.47, 0.4), (0.08, 0.56, 0.42, 0.4))
"""Where the inset can be, in shares of the axes."""
STEPS, IDLE, IDEAL = "#1f5fbf", "#d97706", "#b0b0b0"


class Curve(NamedTuple):
    arm: str
    points: Sequence[tuple[float, float]]  # FLOPs spent and best validation accuracy so far
    test: float  # the test accuracy of its best network


class Star(NamedTuple):
    """A published result for comparison."""

    label: str
    flops: float
    accuracy: float


def draw_study(curves: Sequence[Curve], stars: Sequence[Star], path: Path, label: str = "") -> None:
    """Draw best validation accuracy against FLOPs, the test accuracy at the end, and published results."""
    arms: dict[str, list[Curve]] = {}
    for curve in curves:
        arms.setdefault(curve.arm, []).append(curve)
    many = len(arms) > FEW
    figure = new_figure(10 if many else 8, 5, label)
    axes = figure.add_subplot()
    for (arm, own), (style, colour) in zip(arms.items(), cycle(product(("-", "--", ":"), COLOURS)), strict=False):
        name = f"{arm}: {100 * mean(curve.test for curve in own):.1f} %" if many else arm
        for points in [_together(own)] if many else [curve.points for curve in own]:
            spent, best = zip(*((flops, 100 * accuracy) for flops, accuracy in points), strict=True)
            axes.step(spent, best, style, where="post", color=colour, linewidth=1.3, label=name, alpha=0.85)
            name = "_"  # once per arm; matplotlib leaves such labels out of the legend
        for curve in own:
            axes.plot([curve.points[-1][0]], [100 * curve.test], marker="o", color=colour, markersize=5)
    for star in stars:
        place = (star.flops, 100 * star.accuracy)
        axes.plot(*([value] for value in place), marker="*", color="#333333", markersize=10, linestyle="none")
        axes.annotate(
            star.label, place, xytext=(-8, 0), textcoords="offset points", fontsize=7, ha="right", va="center"
        )
    axes.set_xscale("log")
    axes.set_xlabel("FLOPs spent by the whole search")
    axes.set_ylabel("accuracy (%): best validation so far; dot: test")
    axes.grid(alpha=0.25)
    if many:
        figure.legend(
            loc="outside right upper", frameon=False, fontsize=8, title="mean test accuracy", title_fontsize=8
        )
    else:
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    save(figure, path)


def _together(curves: Sequence[Curve]) -> list[tuple[float, float]]:
    """The mean over the curves at every point of any of them, from where all have begun."""
    steps = sorted({spent for curve in curves for spent, _ in curve.points})
    begun = max(curve.points[0][0] for curve in curves)
    return [(at, mean(_reached(curve, at) for curve in curves)) for at in steps if at >= begun]


def _reached(curve: Curve, at: float) -> float:
    return next(best for spent, best in reversed(curve.points) if spent <= at)


class Circle(NamedTuple):
    value: float  # of the setting
    seed: int
    validation: float
    test: float


def draw_dependence(rows: Sequence[Circle], setting: str, path: Path, label: str = "") -> None:
    """Draw test accuracy against the setting, one circle per experiment; the line joins the means."""
    from matplotlib.ticker import NullLocator

    figure = new_figure(6, 4.5, label)
    axes = figure.add_subplot()
    values = sorted({row.value for row in rows})
    means = [100 * mean(row.test for row in rows if row.value == value) for value in values]
    axes.plot(values, means, color=COLOURS[5], linewidth=1.0, zorder=1, label="mean")
    axes.scatter(
        [row.value for row in rows], [100 * row.test for row in rows],
        s=36, facecolors="none", edgecolors=COLOURS[0], linewidths=1.3, label="one experiment",
    )  # fmt: skip
    if values and values[0] > 0:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:g}" for value in values])
    percent_axis(axes, [100 * row.test for row in rows])
    axes.set_xlabel(setting.replace("_", " "))
    axes.set_ylabel("test accuracy (%) of the best by validation")
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    save(figure, path)


class Moment(NamedTuple):
    """The repeats of an arm at one moment."""

    arm: str
    seconds: float
    mean: float
    deviation: float | None  # the standard deviation of the test accuracy; None for a single experiment
    repeats: int


class Published(NamedTuple):
    """A published curve, or single points of one."""

    label: str
    points: Sequence[tuple[float, float]]  # the share of the run time, and the test accuracy
    deviation: float | None


def draw_repeatability(
    rows: Sequence[Moment], path: Path, label: str = "", published: Sequence[Published] = ()
) -> None:
    """Draw one curve per arm, with a band of two standard deviations on both sides if it has repeats, and an inset.
    Published curves come from much longer runs; with them, the horizontal axis is the share of the run time.
    """
    figure = new_figure(8, 5.4, label)
    axes = figure.add_subplot()
    longest = max((row.seconds for row in rows), default=0.0)
    unit, scale = ("% of the run", (longest or 1.0) / 100) if published else time_axis(longest)
    _curves(axes, rows, scale)
    for each, colour in zip(published, cycle(GREYS), strict=False):
        _published(axes, each, colour)
    ends = [100 * accuracy for each in published for _, accuracy in each.points]
    percent_axis(axes, [*ends, *(100 * row.mean for row in rows), *(_band(row)[1] for row in rows)])
    _make_room(axes, [100 * row.mean for row in rows if row.seconds > 0.45 * longest])
    axes.set_xlim(left=0)
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("test accuracy (%) of the best by validation")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=2 if published else 3, frameon=False, fontsize=9)
    axes.set_title("mean ± 2 standard deviations", loc="left", fontsize=10)
    _inset(axes, rows, scale)
    save(figure, path)


def _curves(axes: Any, rows: Sequence[Moment], scale: float) -> None:
    arms = dict.fromkeys(row.arm for row in rows)
    for number, (arm, colour, style) in enumerate(zip(arms, cycle(COLOURS), cycle(STYLES), strict=False)):
        curve = [row for row in rows if row.arm == arm]
        times = [row.seconds / scale for row in curve]
        name = f"{arm} (n = {curve[-1].repeats})"
        axes.plot(times, [100 * row.mean for row in curve], color=colour, linestyle=style, linewidth=1.6, label=name)
        if all(row.deviation is not None for row in curve):
            low, high = zip(*(_band(row) for row in curve), strict=True)
            axes.fill_between(times, low, high, color=colour, alpha=0.08 if number else 0.22, linewidth=0)


def _band(row: Moment) -> tuple[float, float]:
    width = 2 * (row.deviation or 0.0)
    return 100 * max(0.0, row.mean - width), 100 * min(1.0, row.mean + width)


def _published(axes: Any, each: Published, colour: str) -> None:
    shares, accuracies = zip(*((100 * share, 100 * accuracy) for share, accuracy in each.points), strict=True)
    error = None if each.deviation is None else 200 * each.deviation
    axes.errorbar(
        shares, accuracies, yerr=error, color=colour, linestyle=":" if len(shares) > 1 else "none", linewidth=1.0,
        marker="D", markersize=5, capsize=3, label=each.label,
    )  # fmt: skip


def _make_room(axes: Any, late: Sequence[float]) -> None:
    """Extend the axis downwards, so that there is room for the inset below the curves."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(0.0, min(bottom, (min(late, default=top) - BELOW * top) / (1 - BELOW))), top)


def _inset(axes: Any, rows: Sequence[Moment], scale: float) -> None:
    """Magnify the last part of the two best arms, as in the paper's Figure 2, where there is the most room."""
    late = LATE * max((row.seconds for row in rows), default=0.0)
    ends = {row.arm: row.mean for row in rows}
    best, *others = sorted(ends, key=lambda arm: -ends[arm]) or [""]
    seen = [row for row in rows if row.seconds >= late and row.arm in (best, *others[:1])]
    if len(seen) < 2:
        return
    values = [value for row in seen for value in (_band(row) if row.arm == best else (100 * row.mean,))]
    bottom, top = axes.get_ylim()
    high = min(top, max(values))
    low = max(min(values), high - 0.5 * (top - bottom))  # more than half of the graph would not be magnified
    room = max(0.2, 0.05 * (high - low))
    inset = axes.inset_axes(_roomiest(axes, rows, scale))
    _curves(inset, rows, scale)
    inset.set_xlim(late / scale, max(row.seconds for row in rows) / scale)
    inset.set_ylim(low - room, high + room)
    inset.tick_params(labelsize=7)
    inset.grid(alpha=0.25)
    axes.indicate_inset_zoom(inset, edgecolor="#4a5568")


def _roomiest(axes: Any, rows: Sequence[Moment], scale: float) -> tuple[float, float, float, float]:
    """The place, in shares of the axes, that covers the fewest points of the curves."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()  # left is 0
    points = [(row.seconds / scale / (right - left), (100 * row.mean - bottom) / (top - bottom)) for row in rows]

    def covered(place: tuple[float, float, float, float]) -> int:
        x, y, width, height = place
        return sum(x - 0.06 <= px <= x + width and y - 0.08 <= py <= y + height for px, py in points)

    return min(PLACES, key=covered)


class Panel(NamedTuple):
    title: str
    dots: Sequence[Dot]
    changes: Sequence[tuple[float, str]]  # the seconds and the text of each change of settings


def draw_escapes(panels: Sequence[Panel], path: Path, label: str = "") -> None:
    """Draw one panel per experiment, on a common time axis."""
    figure = new_figure(8, 2.9 * max(1, len(panels)) + 0.4, label)
    columns = figure.subplots(max(1, len(panels)), 1, sharex=True, squeeze=False)
    unit, scale = time_axis(max((dot.seconds for panel in panels for dot in panel.dots), default=0.0))
    for axes, panel in zip(columns[:, 0], panels, strict=False):
        fitness = [100 * dot.fitness for dot in panel.dots]
        axes.scatter(
            [dot.seconds / scale for dot in panel.dots], fitness,
            s=max(2.0, min(16.0, 4000 / max(1, len(fitness)))), linewidths=0,
            c=[ALIVE if dot.alive else DEAD for dot in panel.dots], rasterized=len(fitness) > MANY,
        )  # fmt: skip
        for seconds, _ in panel.changes:
            axes.axvline(seconds / scale, color=RECORD, linewidth=1.2, linestyle="--")
        percent_axis(axes, fitness)
        axes.set_ylabel("validation\naccuracy (%)")
        axes.set_title(panel.title, loc="left", fontsize=10)
        axes.grid(alpha=0.25)
    columns[-1, 0].set_xlabel(f"time ({unit})")
    columns[-1, 0].set_xlim(left=0)  # after the last panel is drawn: this fixes the common axis
    for axes, panel in zip(columns[:, 0], panels, strict=False):
        _label(axes, panel, scale)
    save(figure, path)


def _label(axes: Any, panel: Panel, scale: float) -> None:
    """Label each line on the side that has more room."""
    middle = sum(axes.get_xlim()) / 2
    for i, (seconds, text) in enumerate(panel.changes):
        x = seconds / scale
        side, away = ("left", 3) if x < middle else ("right", -3)
        axes.annotate(
            text, (x, 0.03 + 0.08 * (i % 3)), xycoords=("data", "axes fraction"), fontsize=8, ha=side,
            xytext=(away, 0), textcoords="offset points", color="#92400e",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )  # fmt: skip


def draw_scale(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw simulated clusters by their number of workers; the grey line scales up the smallest."""
    figure = new_figure(8, 4.5)
    axes = figure.add_subplot()
    workers = [outcome.workers for outcome in outcomes]
    steps = [outcome.steps_per_hour for outcome in outcomes]
    ideal = [steps[0] * count / workers[0] for count in workers]
    axes.loglog(workers, ideal, color=IDEAL, linestyle="--", linewidth=1.2, label="ideal: the smallest, scaled up")
    axes.loglog(workers, steps, color=STEPS, marker="o", label="steps per hour")
    axes.set_xlabel("workers")
    axes.set_ylabel("steps per simulated hour")
    axes.grid(alpha=0.25)
    other = axes.twinx()
    idle = [100 * outcome.idle for outcome in outcomes]
    other.plot(workers, idle, color=IDLE, marker="s", label="idle")
    other.set_ylabel("workers' time idle (%)")
    other.set_ylim(0, max(1.0, 1.2 * max(idle)))
    lines = [*axes.get_lines(), *other.get_lines()]
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="upper left", frameon=False)
    axes.set_title("simulated clusters, four individuals per worker", loc="left", fontsize=10)
    save_png(figure, path)
