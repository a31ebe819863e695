"""`genepool reach`: the mutations that lead to a given architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from genepool.cli.options import CHANNELS, JSON, json_text
from genepool.cli.text import table

if TYPE_CHECKING:
    from genepool.mutations import Step

SHORT = 30
"""A sequence of at most this many steps is printed in full."""
SHOWN = 10
"""The number of steps printed of a longer sequence."""


@click.command()
@click.argument("name", metavar="[NAME|DNA.json]", required=False)
@CHANNELS
@click.option("--all", "everything", is_flag=True, help="Print every mutation.")
@JSON
def reach(name: str | None, channels: int, everything: bool, as_json: bool) -> None:
    """Find mutations from the initial network to NAME (all-cnn-c, resnet-110, wrn-28-10, ...) or the DNA in a file.

    Each is one of the paper's eleven with the random numbers that it draws. The mutations are applied, and the result
    is compared with the requested architecture. Without a NAME, known networks, among them all of the paper's Table 1,
    are listed with what differs from the published ones, or why they cannot be reached.
    """
    from genepool.dna import PUBLISHED
    from genepool.mutations import reach as route_to
    from genepool.mutations import target

    if name is None:
        click.echo(json_text(PUBLISHED) if as_json else _known())
        return
    goal, note = target(name, channels)
    steps = route_to(goal).steps
    differences = PUBLISHED[name].differences if name in PUBLISHED else ()
    if as_json:
        facts = {"name": name, "verified": True, "note": note, "differences": differences}
        click.echo(json_text({**facts, "count": len(steps), "steps": steps}))
        return
    same = "the same architecture" if note is None else "the same architecture except for this"
    click.echo(f"{name}: {len(steps)} mutations from the initial network, applied and compared: {same}.")
    if differences:
        click.echo("\n".join([f"What differs from the published {PUBLISHED[name].title}:", *_listed(differences)]))
    if steps:
        click.echo(_page(steps, everything))


def _known() -> str:
    """The answers to Table 1's "Reachable?", with their reasons."""
    from genepool.dna import PUBLISHED

    lines = []
    for name, each in PUBLISHED.items():
        if each.obstacle is not None:
            lines.append(f"{name}: no; {each.obstacle}")
        else:
            lines += [f"{name}: yes. What differs from the published {each.title}:", *_listed(each.differences)]
    return "\n".join(lines)


def _listed(sentences: Sequence[str]) -> list[str]:
    return [f"  - {sentence}" for sentence in sentences]


def _page(steps: Sequence[Step], everything: bool) -> str:
    listed = list(steps if everything or len(steps) <= SHORT else steps[:SHOWN])
    rows = [[str(i), step.mutation, step.what] for i, step in enumerate(listed, 1)]
    counts = [[str(number), kind] for kind, number in Counter(step.mutation for step in steps).most_common()]
    lines = ["", table(["", "mutation", "what"], rows, left=3)]
    if len(listed) < len(steps):
        lines.append(f"... and {len(steps) - len(listed)} more; --all prints them.")
    return "\n".join([*lines, "", table(["times", "mutation"], counts, left=2)])
