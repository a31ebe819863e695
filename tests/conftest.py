"""What all tests share: fuzzing that repeats itself in CI, the whole data sets where they are, one thread for torch."""

import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Whatever is started from here takes Ctrl-C, also where the tests run behind a shell's `&`, which ignores it.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start programs in folders of their own, where a relative path would lead elsewhere.
if "GENEPOOL_DATA" in os.environ:
    os.environ["GENEPOOL_DATA"] = str(Path(os.environ["GENEPOOL_DATA"]).resolve())

# As genepool.nn.device.prepare_process does for workers; oneDNN reads it once, at its first convolution.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Two processes of tests on two cores: several threads of each would wait for one another, and on a busy machine long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in each run, so that a change is judged by what it changed; `make fuzz` looks for new ones.
settings.register_profile(
    "repeatable",
    deadline=None,  # an example may take longer on a busy machine
    derandomize="GENEPOOL_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def whole_data() -> Path:
    """The folder with the whole official data sets."""
    folder = os.environ.get("GENEPOOL_DATA")
    if not folder:
        pytest.skip("GENEPOOL_DATA is not set: the same check runs on the shipped data set instead")
    return Path(folder).resolve()


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory) -> None:
    """Tests neither use nor fill the user's cache."""
    os.environ["GENEPOOL_CACHE"] = str(tmp_path_factory.getbasetemp().parent / "genepool-cache")


@pytest.fixture(scope="session")
def fashion():
    """The shipped data set, prepared for training, on one thread of torch."""
    import torch

    from genepool.data import open_source, prepare

    torch.set_num_threads(1)
    return prepare(open_source("fashion-mini"))
