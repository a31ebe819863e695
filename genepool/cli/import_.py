"""`genepool import`: the network in an exported model, back as DNA and weights."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("import")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="DNA file to write: X.json."
)
@click.option("--member", type=click.IntRange(1), help="Which network of an ensemble.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
def import_(model: Path, out: Path, member: int | None, force: bool) -> None:
    """Writes the DNA in an exported MODEL (.pt2, .onnx or a source folder) to X.json and its weights to X.safetensors.

    Nothing in the model is run: a changed model.py changes nothing here. What is written has answered like the model.
    """
    from genepool.data import require_writable, save_file
    from genepool.dna import codec
    from genepool.errors import DataError, shown
    from genepool.experiment import from_model

    if out.suffix != ".json":
        raise DataError(f"The name '{shown(out)}' must end in .json; the weights go beside it.")
    weights = out.with_suffix(".safetensors")
    for path in (out, weights):
        require_writable(path)
        if path.exists() and not force:
            raise DataError(f"'{shown(path)}' already exists; choose another name with --out or add --force.")
    start = from_model(model, member)
    save_file(weights, start.weights or b"", "weights")
    save_file(out, codec.encode(start.dna).encode() + b"\n", "DNA")
    click.echo(f"network  {start.dna.in_a_line()}")
    click.echo(f"images   {'x'.join(map(str, start.image or ()))}, {len(start.classes)} classes")
    click.echo(f"DNA      {out}")
    click.echo(f"weights  {weights}")
