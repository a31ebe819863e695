"""`genepool dna`: show, mutate and write DNA."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import click

from genepool.cli.options import CHANNELS, JSON, PLUGIN, json_text
from genepool.cli.text import amount, numbers, table
from genepool.dna import CLASSIFIER, DNA, Conv, Requirements, Shape, Shapes, codec, shapes
from genepool.dna import requirements as requirements_of


@click.group()
def dna() -> None:
    """Show, mutate and write networks' DNA."""


@dna.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--image", default="32x32x3", show_default=True, help="Height x width x channels of the images.")
@click.option("--classes", default=10, show_default=True, type=click.IntRange(2))
@click.option("--batch", default=50, show_default=True, type=click.IntRange(1), help="Images per step.")
@JSON
def show(file: Path, image: str, classes: int, batch: int, as_json: bool) -> None:
    """Print the layers, parameters, FLOPs and memory of the network in FILE ('-': standard input)."""
    individual = _read(file)
    shape = Shape(*numbers(image, "32x32x3"))
    facts = _facts(individual, shape, classes, batch)
    click.echo(json_text(facts) if as_json else _page(facts))


@dna.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--mutation", help="Its name.  [default: one of the paper's eleven, at random]")
@click.option("--times", default=1, show_default=True, type=click.IntRange(1), help="How many, one after another.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random numbers.")
@PLUGIN
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the DNA here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with the mutations' names beside the DNA.")
def mutate(file: Path, mutation: str | None, times: int, seed: int, out: Path | None, as_json: bool) -> None:
    """Mutate the DNA in FILE ('-': standard input) and print it."""
    import msgspec

    from genepool.mutations import mutate as mutate_once

    child, rng, names = _read(file), Random(seed), []
    for _ in range(times):
        name, child = mutate_once(child, rng, {mutation: 1.0} if mutation else None)
        names.append(name)
    click.echo(f"mutations: {', '.join(names)}", err=True)
    if out is not None or not as_json:
        _put(child, out)
    if as_json:
        click.echo(json_text({"mutations": names, "seed": seed, "dna": msgspec.Raw(codec.encode(child).encode())}))


@dna.command()
@click.argument("name")
@CHANNELS
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the DNA here.")
def zoo(name: str, channels: int, out: Path | None) -> None:
    """Print a known network as DNA: initial, resnet-20, resnet-110, all-cnn-c or wrn-28-10."""
    from genepool.dna import zoo as network

    _put(network(name, channels), out)


def _read(file: Path) -> DNA:
    return codec.decode(sys.stdin.buffer.read(codec.MAX_BYTES + 1)) if str(file) == "-" else codec.read(file)


def _put(individual: DNA, out: Path | None) -> None:
    """Write the DNA to a file, or print it."""
    from genepool.data import save_file

    if out is None:
        click.echo(codec.encode(individual))
    else:
        save_file(out, codec.encode(individual).encode() + b"\n", "DNA")


def _facts(individual: DNA, image: Shape, classes: int, batch: int) -> dict[str, Any]:
    sizes, needs = shapes(individual, image), requirements_of(individual, image, classes, batch)
    return {
        "image": list(image),
        "classes": classes,
        "batch": batch,
        "learning_rate": individual.learning_rate,
        "parameters": needs.parameters,
        "flops_forward": needs.forward.total,
        "flops_training": needs.training.total,
        "memory": needs.memory,
        "vertices": [_vertex_row(individual, vertex, sizes, needs) for vertex in individual.order],
    }


def _vertex_row(individual: DNA, vertex: str, sizes: Shapes, needs: Requirements) -> dict[str, Any]:
    items = [needs.items[vertex], *(needs.items[edge.id] for edge in individual.edges_in[vertex])]
    if vertex == individual.output:
        items.append(needs.items[CLASSIFIER])
    height, width, channels = sizes.vertices[vertex]
    return {
        "id": vertex,
        "type": individual.vertex[vertex].type,
        "edges": [
            {"id": edge.id, "from": edge.from_vertex, "kind": _kind(edge)} for edge in individual.edges_in[vertex]
        ],
        "height": height,
        "width": width,
        "channels": channels,
        "parameters": sum(item.parameters for item in items),
        "flops_forward": sum(item.forward.total for item in items),
        "flops_training": sum(item.training.total for item in items),
    }


def _kind(edge: object) -> str:
    if not isinstance(edge, Conv):
        return "identity"
    stride = f" /{edge.stride}" if edge.stride > 1 else ""
    return f"conv {edge.filter_width}x{edge.filter_height}{stride}"


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
        f"learning rate {facts['learning_rate']:.4g}\n{amount(facts['flops_forward'])}FLOP forward and "
        f"{amount(facts['flops_training'])}FLOP in training for a batch of {facts['batch']}; "
        f"at most {amount(facts['memory'])}B of memory"
    )


def _edge_cells(edge: dict[str, str] | None) -> list[str]:
    return [edge["id"], edge["from"], edge["kind"]] if edge else ["", "", ""]
