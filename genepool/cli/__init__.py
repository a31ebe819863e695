"""The command line: one small file a verb, each imported only when its verb is used. No logic lives here.

Whatever goes wrong becomes one sentence on standard error: 2 is the exit code for bad input, 1 for a fault of ours.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from genepool import __version__
from genepool.errors import GenepoolError

__all__ = ["VERBS", "cli", "main"]

VERBS = {
    "run": "Evolve: create an experiment, or go on with one.",
    "worker": "One more worker for an experiment, on any machine that sees its directory.",
    "launch": "Start workers elsewhere, through Slurm, Kubernetes or ssh.",
    "study": "Run a plan of experiments: arms and repeats, with statistics and a report.",
    "report": "A page about an experiment or a study, with its figures.",
    "status": "How an experiment stands.",
    "dashboard": "Watch an experiment, or a folder of them, on a live page.",
    "best": "The best network, with its test accuracy and its weights.",
    "export": "Write the best network for use without Genepool: torch, ONNX or readable source.",
    "ensemble": "The best networks of several experiments as one model, by vote and by average.",
    "import": "Take the DNA and weights out of an exported model, to evolve or train it on.",
    "predict": "What a model says of images.",
    "lineage": "The mutations that led to an individual.",
    "set": "Change settings of an experiment while it runs.",
    "intervene": "Help a running population out of a local optimum.",
    "migrate": "Put copies of the best of one population into another.",
    "replay": "Rebuild an individual from its lineage, and check that it comes out the same.",
    "check": "Check every invariant of an experiment's directory.",
    "doctor": "Probe a directory's file system: is it safe for a population?",
    "gc": "Archive the dead and remove their directories.",
    "data": "List the data sets, or fetch one.",
    "dna": "Show, mutate and write networks' DNA.",
    "reach": "The mutations that lead to a known architecture.",
    "train": "Train one network.",
    "bench": "Measure training on this machine, or the scale of a simulated cluster.",
}


_FUNCTIONS = {"set": "set_", "import": "import_"}
"""Functions of commands whose names are taken in Python."""
_FILES = {
    "import": "export",
    "ensemble": "export",
    "replay": "lineage",
    "intervene": "set",
    "migrate": "set",
    "worker": "launch",
    "report": "status",
    "doctor": "check",
    "gc": "check",
}


class _BadInput(click.ClickException):
    """Prints its sentence and ends the program."""

    exit_code = 2


class _Verbs(click.Group):
    """Finds a verb's file by its name and turns our errors into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = getattr(
            import_module(f"genepool.cli.{_FILES.get(name, name)}"), _FUNCTIONS.get(name, name)
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table above, so that asking for help imports no verb."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GenepoolError as error:
            raise _BadInput(str(error)) from error


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Evolves image classifiers from trivial networks and hands back a trained model."""


def main() -> None:
    """The program; no traceback reaches a user unless GENEPOOL_DEBUG is set."""
    try:
        cli(prog_name="genepool")
    except BrokenPipeError:  # the reader of our output, `head` say, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("GENEPOOL_DEBUG"):
            raise
        click.echo(
            f"Error: Genepool failed in a way that it should not: {type(error).__name__}: {error}. "
            "Please report it, with what GENEPOOL_DEBUG=1 prints.",
            err=True,
        )
        sys.exit(1)
