"""The first contact: fast, and without torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

GENEPOOL = Path(sys.executable).parent / "genepool"
HEAVY = ("torch", "numpy", "PIL", "rich", "matplotlib")


def fastest(command):
    """The best of five, in seconds of the processor, which other work on the machine hardly changes."""
    times = []
    for _ in range(5):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(times)


@pytest.mark.parametrize(
    "command", [[GENEPOOL, "--help"], [GENEPOOL, "train", "--help"], [sys.executable, "-c", "import genepool"]], ids=str
)
def test_it_answers_within_300_ms(command):
    assert fastest(command) < 0.3


@pytest.mark.parametrize("arguments", [["--help"], ["dna", "--help"], ["data", "--help"], ["train", "--help"]], ids=str)
def test_asking_for_help_loads_nothing_heavy(arguments):
    code = f"""
import sys
sys.argv = ["genepool", *{arguments!r}]
from genepool.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_importing_the_package_loads_nothing_heavy():
    code = f"import sys, genepool; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_version_is_told():
    from genepool import __version__

    result = subprocess.run([GENEPOOL, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"genepool {__version__}\n"
