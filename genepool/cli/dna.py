"""`genepool dna` and `reach`: show, mutate and write DNA, and find the mutations that lead to an architecture."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click
import msgspec

from genepool.cli.options import CHANNELS, FILE, JSON, PATH, PLUGIN, POSITIVE, json_text
from genepool.cli.text import amount, numbers, table
from genepool.dna import DNA, PUBLISHED, Shape, codec, network_facts, rates_label

if TYPE_CHECKING:
    from genepool.mutations import Step

SHORT = 30  # a sequence of at most this many steps is printed in full
SHOWN = 10  # the number of steps printed of a longer one


@click.group()
def dna() -> None:
    """Show, mutate and write DNA."""


@dna.command()
@click.argument("file", type=PATH)
@click.option("--image", default="32x32x3", show_default=True, help="Height x width x channels of the images.")
@click.option("--classes", default=10, show_default=True, type=click.IntRange(2))
@click.option("--batch", default=50, show_default=True, type=POSITIVE, help="Images per step.")
@PLUGIN
@JSON
def show(file: Path, image: str, classes: int, batch: int, as_json: bool) -> None:
    """Show the shapes, parameters, FLOPs and memory of the network in FILE ('-': standard input)."""
    facts = network_facts(_read(file), Shape(*numbers(image, "32x32x3")), classes, batch)
    click.echo(json_text(facts) if as_json else _page(facts))


@dna.command()
@click.argument("file", type=PATH)
@click.option("--mutation", help="Name of the mutation.  [default: a random one of the paper's eleven]")
@click.option("--times", default=1, show_default=True, type=POSITIVE, help="Number of mutations.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random numbers.")
@PLUGIN
@click.option("--out", type=FILE, help="Write the DNA here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the names of the mutations, and the DNA.")
def mutate(file: Path, mutation: str | None, times: int, seed: int, out: Path | None, as_json: bool) -> None:
    """Mutate the DNA in FILE ('-': standard input) and print it."""
    from genepool.mutations import mutate as mutate_once

    child, rng, names = _read(file), Random(seed), []
    for _ in range(times):
        name, child = mutate_once(child, rng, {mutation: 1.0} if mutation else None)
        names.append(name)
    click.echo(f"mutations: {', '.join(names)}", err=True)
    if out is not None or not as_json:
        _write(child, out)
    if as_json:
        click.echo(json_text({"mutations": names, "seed": seed, "dna": msgspec.Raw(codec.encode(child).encode())}))


@dna.command()
@click.argument("name")
@CHANNELS
@click.option("--out", type=FILE, help="Write the DNA here.")
def zoo(name: str, channels: int, out: Path | None) -> None:
    """Print a known network as DNA: initial, resnet-20, resnet-110, all-cnn-c or wrn-28-10."""
    from genepool.dna import zoo as network

    _write(network(name, channels), out)


def _read(file: Path) -> DNA:
    return codec.decode(sys.stdin.buffer.read(codec.MAX_BYTES + 1)) if str(file) == "-" else codec.read(file)


def _write(individual: DNA, out: Path | None) -> None:
    from genepool.data import save_file

    if out is not None:
        save_file(out, codec.encode(individual).encode() + b"\n", "DNA")
    else:
        click.echo(codec.encode(individual))


def _page(facts: dict[str, Any]) -> str:
    rows = []
    for row in facts["vertices"]:
        first, *others = row["edges"] or [None]
        size = f"{row['height']}x{row['width']}"
        rows.append(
            [row["id"], row["type"], *_edge_cells(first), size, str(row["channels"])]
            + [amount(row[key]) for key in ("parameters", "flops_forward", "flops_training")]
        )
        rows.extend([["", "+", *_edge_cells(edge), "", "", "", "", ""] for edge in others])
    header = ["vertex", "type", "edge", "from", "by", "size", "channels", "parameters", "FLOPs forward", "training"]
    return (
        f"{table(header, rows, left=5)}\n\n{facts['parameters']:,} parameters ({amount(facts['parameters'])}), "
        f"learning rate {rates_label(facts['learning_rate'], facts['body_rate'])}\n"
        f"{amount(facts['flops_forward'])}FLOP forward and {amount(facts['flops_training'])}FLOP in training "
        f"for a batch of {facts['batch']}; at most {amount(facts['memory'])}B of memory"
    )


def _edge_cells(edge: dict[str, str] | None) -> list[str]:
    return [edge["id"], edge["from"], edge["kind"]] if edge else ["", "", ""]


@click.command()
@click.argument("name", metavar="[NAME|DNA.json]", required=False)
@CHANNELS
@click.option("--all", "everything", is_flag=True, help="Print every mutation.")
@PLUGIN
@JSON
def reach(name: str | None, channels: int, everything: bool, as_json: bool) -> None:
    """Find mutations from the initial network to NAME (all-cnn-c, resnet-110, wrn-28-10, ...) or the DNA in a file.

    Each is one of the paper's eleven with the random numbers that it draws. The mutations are applied, and the result
    is compared with the requested architecture. Without a NAME, known networks, among them all of the paper's Table 1,
    are listed with what differs from the published ones, or why they cannot be reached.
    """
    from genepool import mutations

    if name is None:
        answers = [f"{key}: {'no' if each.obstacle else 'yes'}. {each.text}" for key, each in PUBLISHED.items()]
        click.echo(json_text(PUBLISHED) if as_json else "\n".join(answers))
        return
    goal, note = mutations.target(name, channels)
    steps, known = mutations.reach(goal).steps, PUBLISHED.get(name)
    if as_json:
        facts = {"name": name, "verified": True, "note": note, "differences": known.differences if known else []}
        click.echo(json_text({**facts, "count": len(steps), "steps": steps}))
        return
    same = "the same architecture" if note is None else "the same architecture except for this"
    head = [f"{name}: {len(steps)} mutations from the initial network, applied and compared: {same}."]
    click.echo("\n".join([*head, *([known.text] if known else []), *(_route_page(steps, everything) if steps else [])]))


def _route_page(steps: Sequence[Step], everything: bool) -> list[str]:
    listed = list(steps if everything or len(steps) <= SHORT else steps[:SHOWN])
    rows = [[str(i), step.mutation, step.what] for i, step in enumerate(listed, 1)]
    more = [f"... and {len(steps) - len(listed)} more; --all prints them."] if len(listed) < len(steps) else []
    lines = ["", table(["", "mutation", "what"], rows, left=3), *more]
    counts = Counter(step.mutation for step in steps).most_common()
    return [*lines, "", table(["times", "mutation"], [[str(number), kind] for kind, number in counts], left=2)]
