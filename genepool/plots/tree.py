"""The ancestry of a population: who came from whom, and the line of the best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from genepool.analysis import Dot
from genepool.plots.progress import RECORD
from genepool.plots.saving import MANY, save, time_axis


def draw_tree(rows: Sequence[Dot], best: str, path: Path) -> None:
    """Time to the right; a branch keeps together; the colour is the fitness."""
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
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
    """Each leaf has its own height; the line of the best is straight, and so is every branch's largest one.

    No branch crosses another family's: the main child stands in the middle of its brothers and sisters.
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
    while todo:  # not by recursion: lineages are long
        name, seen = todo.pop()
        if seen:
            found[name] = found[main[name]]
        elif name in main:
            todo.append((name, True))
            todo.extend((child, False) for child in _around(children[name], main[name]))
        else:
            found[name] = float(leaves)
            leaves += 1
    return {dot.id: found.get(dot.id, 0.0) for dot in rows}  # in a damaged record some may go round in circles


def _around(family: list[str], main: str | None) -> list[str]:
    others = [child for child in family if child != main]
    return [*others[::2], *([main] if main is not None else []), *others[1::2][::-1]]


def line_of(rows: Sequence[Dot], best: str) -> list[str]:
    """From the first known ancestor to the best."""
    parent = {dot.id: dot.parent for dot in rows}
    found: list[str] = []
    name = best
    while name in parent and name not in found:
        found.append(name)
        name = parent[name]
    return found[::-1]
