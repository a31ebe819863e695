"""The machine's memory, as files of the system tell it, and the shares of it."""

from pathlib import Path

import pytest

from genepool.data import available_memory
from genepool.errors import SettingsError
from genepool.experiment import Experiment
from genepool.settings import preset
from genepool.workers.pool import RESERVE, allowance, share

GIB = 2**30


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MACHINE = {"proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n"}


def test_without_groups_the_machine_decides(tmp_path):
    assert available_memory(system(tmp_path, MACHINE)) == 16 * GIB


def test_a_system_that_tells_nothing_shares_nothing_out(tmp_path):
    assert available_memory(tmp_path) is None
    assert allowance(None, None, 4) is None
    assert allowance(2 * GIB, None, 4) == 2 * GIB


@pytest.mark.parametrize(("limit", "free"), [(str(4 * GIB), 3 * GIB + 5), ("max", 16 * GIB)])
def test_a_group_of_version_2_with_all_around_it(tmp_path, limit, free):
    files = {
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/inner/memory.current": "77\n",
        "sys/fs/cgroup/outer/memory.max": f"{limit}\n",
        "sys/fs/cgroup/outer/memory.current": f"{GIB}\n",
        "sys/fs/cgroup/outer/memory.stat": "active_file 100\ninactive_file 5\n",
    }
    assert available_memory(system(tmp_path, MACHINE | files)) == free


def test_a_group_of_version_1_whose_path_a_container_cannot_see(tmp_path):
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
        "sys/fs/cgroup/memory/memory.stat": "cache 1\ntotal_inactive_file 4096\n",
    }
    assert available_memory(system(tmp_path, MACHINE | files)) == GIB + 4096


def test_no_limit_in_version_1_is_a_huge_number(tmp_path):
    files = {
        "proc/self/cgroup": "4:memory:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
    }
    assert available_memory(system(tmp_path, MACHINE | files)) == 16 * GIB


@pytest.mark.parametrize("workers", [1, 2, 7, 30])
def test_the_shares_never_add_up_to_more_than_is_free(workers):
    assert workers * share(16 * GIB, workers) <= 16 * GIB - RESERVE
    assert share(RESERVE - 1, workers) == 0


def test_too_many_workers_are_refused_with_the_number_that_fits():
    with pytest.raises(SettingsError, match=r"100 workers .* 16\.00 GiB .*; use at most 49 workers"):
        allowance(None, 16 * GIB, 100)
    with pytest.raises(SettingsError, match="use at most 3 workers"):
        allowance(5 * GIB, 16 * GIB, 4)
    with pytest.raises(SettingsError, match="free some memory"):
        allowance(None, GIB // 2, 1)
    with pytest.raises(SettingsError, match=r"alone takes 0\.31 GiB; 0\.10 GiB is too little"):
        allowance(GIB // 10, 16 * GIB, 1)
    assert allowance(3 * GIB, 16 * GIB, 4) == 3 * GIB


def test_of_a_derived_number_of_workers_as_many_are_started_as_fit(tmp_path, monkeypatch, caplog):
    """A quarter of the paper's population on a laptop; a number that the user gave is refused instead."""
    monkeypatch.setattr("genepool.data.available_memory", lambda: 16 * GIB)
    experiment = Experiment.create(tmp_path / "e", preset("paper"))
    pool = experiment.pool(device="cpu")
    assert pool.count == 49
    assert [record.getMessage() for record in caplog.records] == [
        "250 workers of at least 0.31 GiB do not fit into the 16.00 GiB of free memory; 49 are started."
    ]
    assert experiment.pool(device="cpu", memory=5 * GIB).count == 3
    experiment.set({"population.size": 40})
    assert experiment.pool(device="cpu").count == 10
    experiment.set({"workers.count": 250})
    with pytest.raises(SettingsError, match="use at most 49 workers"):
        experiment.pool(device="cpu")
