"""The manifest of a job against the official schema of Kubernetes, offline; there is no cluster to try it on."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from genepool.cli import cli
from genepool.experiment import Experiment
from genepool.settings import preset


@pytest.mark.parametrize("more", [(), ("--gpus-per-worker", "1", "--memory", "2G", "--cpus-per-worker", "4")])
def test_the_manifest_keeps_to_the_schema(more: tuple[str, ...], tmp_path: Path) -> None:
    Experiment.create(tmp_path / "e", preset("laptop"))
    words = ["launch", "k8s", str(tmp_path / "e"), "--workers", "3", "--image", "i", "--claim", "c", *more]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    job = yaml.safe_load(result.output)
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    job["spec"]["completionMod"] = job["spec"].pop("completionMode")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
