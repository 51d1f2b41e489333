from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.store.files.data_directory import DataDirectory


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    """In memory where possible, which is faster: a kill takes nothing that a disk would keep."""
    memory = "/dev/shm"
    fast = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=fast) as root:
        yield DataDirectory(Path(root) / "data")
