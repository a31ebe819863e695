"""One thread for torch, and which contract tests are thorough."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(items):
    """The contract itself cannot have our mark, which would be unknown in the folder of a plugin's author."""
    for item in items:
        name, parameters = getattr(item, "originalname", ""), getattr(item, "callspec", None)
        count = parameters.params.get("count", 0) if parameters else 0
        if name == "test_all_torch_programs_agree_and_are_read_back" or count == 2000:
            item.add_marker("thorough")
