"""`genepool bench`: benchmarks of training, of fine-tuning and of a simulated cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from genepool.cli.options import DATA_DIR, FILE, JSON, POSITIVE, SET, SIZE, json_text, settings_of
from genepool.cli.text import amount, percent, table
from genepool.errors import DataError

if TYPE_CHECKING:
    from genepool.testing.simulation import Outcome


@click.group()
def bench() -> None:
    """Measure training or plain fine-tuning on this machine, or the scale of a simulated cluster."""


@bench.command()
@DATA_DIR
@click.option("--quick", "--short", is_flag=True, help="Fewer and shorter measurements: under a minute.")
@click.option("--parallel", is_flag=True, help="Only a training that two processes share, against one process.")
@click.option("--repetitions", default=3, show_default=True, type=POSITIVE)
@click.option("--out", default="bench-training.json", show_default=True, type=FILE, help="File for all figures.")
@JSON
def training(data_dir: Path | None, parallel: bool, out: Path, as_json: bool, **given: Any) -> None:
    """Compare training with a baseline, a hand-tuned loop and the CPU's limit, on CIFAR-10, in one run."""
    from genepool.data import SOURCES, require_writable
    from genepool.testing.bench.parallel import shared
    from genepool.testing.bench.training import Benchmark

    found = "" if parallel else SOURCES.get("cifar-10").find(data_dir)  # type: ignore[misc]
    if found is None:
        raise DataError("CIFAR-10 is not on this machine; run `genepool data fetch cifar-10` or give --data-dir.")
    require_writable(out)
    given["progress"] = lambda text: click.echo(text, err=True)
    results = shared(**given) if parallel else Benchmark(Path(found), **given).run()
    out.write_text(json_text(results))
    click.echo(json_text(results) if as_json else _page(results, out))


def _page(results: dict[str, Any], out: Path) -> str:
    rows = [
        [bar["what"], f"{bar['ratio']:.2f}", f"{bar['bar']:.2f}", "met" if bar["met"] else "NOT met"]
        for bar in results["bars"]
    ]
    lines = [table(["against", "ratio", "bar", ""], rows), ""]
    kernels = {name.removeprefix("kernels "): share for name, share in results["medians"].items() if "kernels" in name}
    listed = ", ".join(f"{name} {share:.2f}" for name, share in kernels.items())
    lines += [f"torch's convolutions alone, relative to the matrix multiplication: {listed}"] if kernels else []
    if results["mixed"] and kernels:
        lines += [f"trained in bfloat16, which is faster on this CPU; {_in_float32(results['medians'])}"]
    if facts := results["accuracy"]:
        lines += [
            f"{facts['network']} after {facts['steps']} steps: ours {percent(facts['ours_mean'])} "
            f"(spread {percent(facts['ours_spread'])}), a plain loop {percent(facts['plain_mean'])} "
            f"(spread {percent(facts['plain_spread'])}), {len(facts['ours'])} seeds each: a difference of "
            f"{100 * facts['difference']:+.1f} points with a standard error of {100 * facts['error']:.1f}"
        ]
    return "\n".join([*lines, f"medians of {results['repetitions']} rounds; all figures are in {out}"])


def _in_float32(median: dict[str, float]) -> str:
    found = {name.removeprefix("float32 "): seconds for name, seconds in median.items() if name.startswith("float32 ")}
    ratios = (f"{what} steps {median[f'baseline {what}'] / seconds:.2f}" for what, seconds in found.items())
    return "in float32, relative to the baseline: " + (", ".join(ratios) or "not measured")


@bench.command()
@click.argument("model")
@click.option("--data", "data__source", required=True, help="Data set, folder of images or .npz file.")
@SIZE
@click.option("--time", "limit", default="10m", show_default=True, help="Time of the training, like 90s or 10m.")
@click.option("--rate", default=0.1, show_default=True, help="Learning rate of the classifier.")
@click.option("--body-rate", default=1.0, show_default=True, help="That of all other layers, as a fraction of it.")
@click.option("--threads", type=POSITIVE, help="Threads.  [default: one per core]")
@click.option("--seed", default=0, show_default=True, help="Seed of the random numbers.")
@SET
@JSON
def finetune(model: str, limit: str, threads: int | None, as_json: bool, **given: Any) -> None:
    """Fine-tune a pretrained MODEL plainly: the yardstick for `genepool run --start MODEL` with the same time."""
    from genepool.nn import prepare_process
    from genepool.settings import changed, override, preset, seconds
    from genepool.testing.bench.finetune import Recipe, fine_tune

    prepare_process(threads or os.cpu_count() or 1)
    rates = {"learning_rate": given["rate"], "body_rate": given["body_rate"]}
    recipe = Recipe(seconds=seconds(limit), seed=given["seed"], **rates)
    changes = settings_of({name: given[name] for name in ("data__source", "data__size")})
    found = fine_tune(model, lambda name: override(changed(preset(name), changes), given["assignments"]), recipe)
    page = (
        f"{found.steps} steps in {found.seconds:.0f} s on images of {found.height}x{found.width}: validation accuracy "
        f"{percent(found.validation_accuracy)}, test accuracy {percent(found.test_accuracy)}"
    )
    click.echo(json_text(found) if as_json else page)


@bench.command()
@click.option("--workers", type=POSITIVE, help="Size of one cluster, instead of the two default ones.")
@click.option("--population", type=click.IntRange(2), help="Individuals to keep.  [default: four times the workers]")
@click.option("--individuals", default=100_000, show_default=True, type=POSITIVE, help="Individuals to train.")
@click.option("--steps", default=25_600, show_default=True, type=POSITIVE, help="Training steps per individual.")
@click.option("--set-point", default="paper", show_default=True, help="The rule that keeps the population at its size.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random numbers.")
@click.option("--curve", type=FILE, help="Draw a figure of clusters of 10 to 10,000 workers.")
@JSON
def scale(
    workers: int | None, population: int | None, individuals: int, curve: Path | None, as_json: bool, **options: Any
) -> None:
    """Simulate a cluster in virtual time: the real worker code on a population in memory, with simulated training."""
    from genepool.evolution import SET_POINTS, Rules
    from genepool.testing.simulation import CURVE, SETTINGS, TURNOVERS, Cluster, Landscape

    rule, landscape = SET_POINTS.get(options["set_point"]), Landscape(steps=options["steps"])
    outcomes = []
    for count, size in [(workers, population or 4 * workers)] if workers else CURVE if curve else SETTINGS:
        wanted = min(individuals, TURNOVERS * size) if curve else individuals
        click.echo(f"{count} workers, a population of {size}, {wanted} individuals ...", err=True)
        rules = Rules(population_size=size, set_point=rule)
        outcomes += [Cluster(workers=count, rules=rules, landscape=landscape, seed=options["seed"]).run(wanted)]
    if curve is not None:
        from genepool.study.plots.studies import draw_scale

        draw_scale(outcomes, curve)
    click.echo(json_text(outcomes) if as_json else _scale_page(outcomes))


def _scale_page(outcomes: list[Outcome]) -> str:
    header = ["workers", "population", "individuals", "idle", "hours", "steps/h", "size", "FLOP", "memory", "seconds"]
    rows = [
        [
            *(f"{count:,}" for count in (o.workers, o.population_size, o.individuals)), f"{100 * o.idle:.2f} %",
            f"{o.simulated_hours:.2f}", f"{o.steps_per_hour:,.0f}",
            f"{o.smallest:,}-{o.largest:,}" if o.largest else "growing",
            amount(o.flops), f"{amount(o.memory)}B", f"{o.seconds:.0f}",
        ]
        for o in outcomes
    ]  # fmt: skip
    worst = percent(max(o.idle for o in outcomes))
    return f"{table(header, rows, left=0)}\n\nat most {worst} idle; hours are simulated, seconds are real"
