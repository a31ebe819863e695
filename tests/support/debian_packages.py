"""Programs that only Debian's packages bring; root gets them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
"""Daemons are in folders that not every user's has."""


def require(programs: Sequence[str], packages: Sequence[str]) -> None:
    """Installs what is missing, or fails: a green run without them must not look like one with them."""
    if all(shutil.which(program, path=PATH) for program in programs):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        _give_up(packages, "only root on Debian can install it")
    for words in (("update", "-q"), ("install", "-qy", "--no-install-recommends", *packages)):
        done = subprocess.run(["apt-get", *words], capture_output=True, text=True, check=False, timeout=240)
    if done.returncode:
        _give_up(packages, (done.stderr.strip() or "apt-get failed")[-300:])


def _give_up(packages: Sequence[str], why: str) -> None:
    pytest.fail(f"Without {', '.join(packages)} this is not tested: {why}; GENEPOOL_CLUSTER=ray leaves it out.")
