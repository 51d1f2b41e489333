from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernel.store.files.data_directory import DataDirectory


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")
