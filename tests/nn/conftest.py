"""Small real data, on one thread."""

import pytest
import torch

from genepool.nn.data import Dataset, prepare
from genepool.nn.sources import open_source


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def fashion() -> Dataset:
    return prepare(open_source("fashion-mini"))
