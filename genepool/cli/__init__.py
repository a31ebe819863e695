"""The command line: files that parse options and print results, each imported only when its command is used.

run, train         evolve; train one network
launch             worker, launch: workers on other machines
study, estimate    studies; what they would take
study_text         the progress of a study, and its table
status             status and report of an experiment
live               the live view of a run
dashboard          the page
best, lineage      the chosen network; its mutations, shown or replayed
export             export, ensemble: write a model
model              import, predict: use a model
set                set, intervene, migrate: change a running experiment
check              check, doctor, gc: maintain a directory
data, dna, bench   data sets; DNA and reach; benchmarks
options, text      shared options; numbers and tables for the terminal

Every error is one sentence on standard error. The exit code is 2 for bad input and 1 for a bug.
"""

import os
import sys
from importlib import import_module
from typing import Any

import click

from genepool import __version__
from genepool.errors import GenepoolError

__all__ = ["COMMANDS", "cli", "main"]

COMMANDS = {
    "run": "Evolve: start an experiment, or continue one.",
    "worker": "Add a worker to an experiment, on any machine that sees its directory.",
    "launch": "Work on an experiment or a study with Slurm, Kubernetes or ssh.",
    "study": "Run a plan of experiments: arms and repeats, with statistics and a report.",
    "report": "Write a report on an experiment or a study, with figures.",
    "status": "Show the status of an experiment.",
    "dashboard": "Serve a live page of an experiment, or of a folder of them.",
    "best": "Show the best network, with its test accuracy and weights.",
    "export": "Export the best network for use without Genepool: torch, ONNX or readable source.",
    "ensemble": "Combine the best networks of several experiments into one model.",
    "import": "Read a trained model of any origin, to evolve or train it further.",
    "predict": "Classify images with a model.",
    "lineage": "Show the mutations that led to an individual.",
    "set": "Change the settings of a running experiment.",
    "intervene": "Help a running population out of a local optimum.",
    "migrate": "Copy the best individuals of one population into another.",
    "replay": "Repeat the trainings of a lineage, and check that they agree with the record.",
    "check": "Check every invariant of an experiment's directory.",
    "doctor": "Check that a file system is safe for a population.",
    "gc": "Archive dead individuals and remove their directories.",
    "data": "List the data sets, or download one.",
    "dna": "Show, mutate and write DNA.",
    "reach": "Find the mutations that lead to a known architecture.",
    "train": "Train one network.",
    "bench": "Measure training on this machine, or the scale of a simulated cluster.",
}

_FUNCTIONS = {"set": "set_", "import": "import_"}  # functions of commands whose names are taken in Python
_FILES = {
    "import": "model", "predict": "model", "ensemble": "export", "replay": "lineage", "intervene": "set",
    "migrate": "set", "worker": "launch", "report": "status", "doctor": "check", "gc": "check", "reach": "dna",
}  # fmt: skip


class _BadInput(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    """Imports a command's file when it is used, and prints Genepool's errors without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        file = import_module(f"genepool.cli.{_FILES.get(name, name)}")
        command: click.Command = getattr(file, _FUNCTIONS.get(name, name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the table above, so that --help imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GenepoolError as error:
            raise _BadInput(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Evolve image classifiers from trivial networks, and get a trained model."""


def main() -> None:
    """Run the program; tracebacks are shown only if GENEPOOL_DEBUG is set."""
    try:
        cli(prog_name="genepool")
    except BrokenPipeError:  # the reader of our output, such as `head`, is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("GENEPOOL_DEBUG"):
            raise
        bug = f"This is a bug in Genepool: {type(error).__name__}: {error}."
        click.echo(f"Error: {bug} Please report it with the output of GENEPOOL_DEBUG=1.", err=True)
        sys.exit(1)
