"""The figures of one experiment: the paper's Figure 1 during a run and in reports, and the ancestry of a population."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genepool.analysis import Annotation, Diagram, Dot, Row, chain
from genepool.population import State
from genepool.study.plots import ALIVE, DEAD, MANY, NOTE, RECORD, new_figure, save, save_png, time_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

LEVELS = 18  # lines of labels that fit into the figure
FILL = {"end": "#e2e8f0", "linear": "#ffffff", "once": "#dbeafe", "often": "#fed7aa"}
"""The background of a box; the paper's are white without a nonlinearity and orange with more than one."""
WIDTH, GAP = 0.72, 0.28  # the width of a box in columns, and the gap between two in rows
INCHES = 0.21  # the height of a box and its gap


def draw_progress(rows: Sequence[Row], path: Path, annotations: Sequence[Annotation] = (), label: str = "") -> None:
    """Draw the individuals in the order in which they became alive, and the changes of settings."""
    save_png(progress_figure(rows, annotations, label), path)


def progress_figure(rows: Sequence[Row], annotations: Sequence[Annotation] = (), label: str = "") -> Figure:
    figure = new_figure(8, 4.5, label)
    axes = figure.add_subplot()
    results = [row.result for row in rows if row.result is not None]
    start = min((each.finished - float(each.metrics.get("seconds", 0.0)) for each in results), default=0.0)
    seconds = [each.finished - start for each in results]
    unit, scale = ("hours", 3600) if seconds and seconds[-1] > 7200 else ("minutes", 60)
    shown = [(row.accuracy or 0.0, row.state is State.ALIVE) for row in rows if row.result is not None]
    _scatter(axes, [each / scale for each in seconds], shown, _records(rows))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"time ({unit})")
    axes.legend(loc="lower right", frameon=False)
    axes.set_title(f"{len(rows)} individuals", loc="left", fontsize=10)
    if annotations:
        _annotate(figure, axes, [(max(0.0, note.time - start) / scale, note.label) for note in annotations])
    return figure


def _records(rows: Sequence[Row]) -> list[float]:
    """The accuracy of the fittest individual so far."""
    fitness, accuracy, records = float("-inf"), 0.0, []
    for row in rows:
        if row.fitness is not None:
            if row.fitness > fitness:
                fitness, accuracy = row.fitness, row.accuracy or 0.0
            records.append(100 * accuracy)
    return records


def _scatter(axes: Any, times: list[float], shown: Sequence[tuple[float, bool]], records: list[float]) -> float:
    """Draw one dot per individual, by its accuracy and whether it is alive, and the records; return the dots' size."""
    size = max(2.0, min(24.0, 6000 / max(1, len(times))))
    for label, colour, alive in (("dead", DEAD, False), ("alive", ALIVE, True)):
        chosen = [(time, 100 * each[0]) for time, each in zip(times, shown, strict=True) if each[1] is alive]
        axes.scatter(
            [time for time, _ in chosen], [accuracy for _, accuracy in chosen],
            s=size, c=colour, label=label, linewidths=0, zorder=3 if alive else 2, rasterized=len(times) > MANY,
        )  # fmt: skip
    axes.step(times, records, where="post", color=RECORD, linewidth=1.2, label="best so far", zorder=1)
    axes.set_ylabel("validation accuracy (%)")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.25)
    return size


def _annotate(figure: Figure, axes: Axes, notes: Sequence[tuple[float, str]]) -> None:
    """Draw a dashed line and a label for each, at the first height at which the label overlaps no other."""
    axes.set_xlim(right=max(axes.get_xlim()[1], 1.02 * max(x for x, _ in notes)))
    for x, _ in notes:
        axes.axvline(x, color=NOTE, linestyle="--", linewidth=0.9, zorder=1)
    figure.draw_without_rendering()  # fixes the axes, which the widths of labels depend on
    left, right = axes.get_xlim()
    taken: list[BboxBase] = []
    for x, label in notes:
        side = "right" if x > (left + right) / 2 else "left"
        text = axes.text(
            x, 1.0, f" {label} ", fontsize=7, color=NOTE, ha=side, va="top", transform=axes.get_xaxis_transform(),
        )  # fmt: skip
        for level in range(LEVELS):
            text.set_y(0.99 - level / LEVELS)
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
        else:  # too many to read; the line stays
            text.remove()


def draw_ancestors(rows: Sequence[Dot], diagrams: Sequence[Diagram], path: Path, label: str = "") -> None:
    """Draw one dot per individual, and above the dots the diagrams of some networks with their accuracies."""
    tallest = max((len(each.boxes) for each in diagrams), default=0)
    strip = INCHES * (tallest + 2.7)
    figure = new_figure(9, 4.6 + strip, label)
    above, axes = figure.subplots(2, 1, height_ratios=(max(strip, 0.1), 4.6))
    unit, scale = time_axis(rows[-1].seconds if rows else 0.0)
    records = [100 * best for best in accumulate((dot.fitness for dot in rows), max, initial=0.0)][1:]
    size = _scatter(axes, [dot.seconds / scale for dot in rows], [(dot.fitness, dot.alive) for dot in rows], records)
    axes.set_ylim(0, 100)
    axes.set_xlabel(f"time ({unit}); {len(rows):,} individuals")  # a title would cross the connecting lines
    axes.legend(loc="lower right", framealpha=0.7, edgecolor="none", markerscale=max(1.0, (16 / size) ** 0.5))
    above.set_axis_off()
    above.set_xlim(0, max(4, len(diagrams)))
    above.set_ylim(tallest + 2.3, -0.6)
    places = {dot.id: dot for dot in rows}
    for column, each in enumerate(diagrams, start=max(0, 4 - len(diagrams))):
        _diagram(above, each, column + 0.5)
        if each.id in places:
            _connect(figure, above, axes, (column + 0.5, len(each.boxes) + 1.1), places[each.id], scale)
    save(figure, path)


def _diagram(axes: Any, each: Diagram, x: float) -> None:
    from matplotlib.patches import FancyArrowPatch, Rectangle

    for y, box in enumerate(each.boxes):
        corner = (x - WIDTH / 2, y - (1 - GAP) / 2)
        axes.add_patch(Rectangle(corner, WIDTH, 1 - GAP, facecolor=FILL[box.kind], edgecolor="#4a5568", linewidth=0.7))
        text = box.text if len(box.text) <= 26 else f"{box.text[:24]}…"
        axes.text(x, y, text, ha="center", va="center", fontsize=7)
        if y:
            axes.plot([x, x], [y - 1 + (1 - GAP) / 2, y - (1 - GAP) / 2], color="#4a5568", linewidth=0.7)
    for start, stop in each.skips:
        side, length = x + WIDTH / 2, stop - start
        bend = 2 * min(0.25 * length, 0.5 + 0.05 * length, 1.2) / length  # within the column, longer ones outside
        axes.add_patch(
            FancyArrowPatch(
                (side, start), (side, stop), connectionstyle=f"arc3,rad=-{bend:.3f}", arrowstyle="-|>",
                mutation_scale=6, linewidth=0.7, color="#b83280", shrinkA=0, shrinkB=0,
            )
        )  # fmt: skip
    test, weight = ("not tested", "normal") if each.test is None else (f"test {100 * each.test:.1f} %", "bold")
    validation, end = f"validation {100 * each.accuracy:.1f} %", len(each.boxes)
    axes.text(x, end - 0.1, test, ha="center", va="center", fontsize=9, weight=weight)
    axes.text(x, end + 0.65, validation, ha="center", va="center", fontsize=8)


def _connect(figure: Any, above: Any, axes: Any, start: tuple[float, float], dot: Dot, scale: float) -> None:
    from matplotlib.patches import ConnectionPatch

    end = (dot.seconds / scale, 100 * dot.fitness)
    line = ConnectionPatch(
        start, end, "data", "data", axesA=above, axesB=axes, color="#4a5568", linewidth=0.7, alpha=0.7
    )
    line.set_in_layout(False)
    figure.add_artist(line)
    axes.scatter([end[0]], [end[1]], s=60, facecolors="none", edgecolors="#1a202c", linewidths=1.2, zorder=5)


def draw_tree(rows: Sequence[Dot], best: str, path: Path, label: str = "") -> None:
    """Draw parents and children over time, coloured by fitness; branches do not cross."""
    from matplotlib.collections import LineCollection

    figure = new_figure(9, 5.5, label)
    axes = figure.add_subplot()
    unit, scale = time_axis(rows[-1].seconds if rows else 0.0)
    height = heights(rows, best)
    place = {dot.id: (dot.seconds / scale, height[dot.id]) for dot in rows}
    many = len(rows) > MANY
    lines = [(place[dot.parent], place[dot.id]) for dot in rows if dot.parent in place]
    width = max(0.15, min(0.8, 300 / max(1, len(rows))))
    axes.add_collection(LineCollection(lines, colors="#a0aec0", linewidths=width, zorder=1, rasterized=many))
    painted = axes.scatter(
        [place[dot.id][0] for dot in rows], [place[dot.id][1] for dot in rows], c=[100 * dot.fitness for dot in rows],
        s=max(1.5, min(24.0, 5000 / max(1, len(rows)))), cmap="viridis", linewidths=0, zorder=2, rasterized=many,
    )  # fmt: skip
    line = [place[name] for name in line_of(rows, best)]
    if line:
        axes.plot(*zip(*line, strict=True), color=RECORD, linewidth=1.6, zorder=3, label="line of the best")
        axes.plot([line[-1][0]], [line[-1][1]], marker="*", markersize=13, color=RECORD, zorder=4, linestyle="none")
        axes.legend(loc="upper left", frameon=False)
    figure.colorbar(painted, ax=axes, label="validation accuracy (%)")
    axes.set_xlabel(f"time ({unit})")
    axes.set_ylabel("families")
    axes.set_yticks([])
    axes.set_xlim(left=0)
    axes.margins(y=0.1)
    axes.set_title(f"{len(rows):,} individuals", loc="left", fontsize=10)
    save(figure, path)


def heights(rows: Sequence[Dot], best: str) -> dict[str, float]:
    """The height of each individual: every leaf has its own, and the main child is level with its parent. The main
    child is on the line of the best, or has the most descendants; its siblings surround it.
    """
    known = {dot.id for dot in rows}
    children: defaultdict[str, list[str]] = defaultdict(list)
    weight = dict.fromkeys(line_of(rows, best), len(rows))
    for dot in reversed(rows):  # children became alive after their parents
        parent = dot.parent if dot.parent in known and dot.parent != dot.id else ""
        children[parent].append(dot.id)
        weight[dot.id] = weight.get(dot.id, 0) + 1
        weight[parent] = weight.get(parent, 0) + weight[dot.id]
    main = {name: max(family, key=lambda child: weight[child]) for name, family in children.items()}
    found: dict[str, float] = {}
    leaves, todo = 0, [(name, False) for name in _around(children.get("", []), main.get(""))]
    while todo:  # not recursive: lineages are long
        name, seen = todo.pop()
        if seen:
            found[name] = found[main[name]]
        elif name in main:
            todo.append((name, True))
            todo.extend((child, False) for child in _around(children[name], main[name]))
        else:
            found[name] = float(leaves)
            leaves += 1
    return {dot.id: found.get(dot.id, 0.0) for dot in rows}  # damaged records may form cycles


def _around(family: list[str], main: str | None) -> list[str]:
    others = [child for child in family if child != main]
    return [*others[::2], *([main] if main is not None else []), *others[1::2][::-1]]


def line_of(rows: Sequence[Dot], best: str) -> list[str]:
    """From the first known ancestor to the best individual."""
    parents = {dot.id: dot.parent for dot in rows}

    def parent(child: str) -> str | None:
        return parents[child] if parents[child] in parents else None

    return chain(best, parent) if best in parents else []
