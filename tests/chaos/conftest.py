from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.data_directory import DataDirectory


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    """In memory where possible: a kill does not ask for a disk, and many more fit in a second."""
    memory = "/dev/shm"
    fast = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=fast) as root:
        yield DataDirectory(Path(root) / "data")
