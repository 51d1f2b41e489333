from __future__ import annotations

from pathlib import Path

import pytest
from tests.storage.attachments.desk import Desk
from tests.storage.places import DataDirectory


@pytest.fixture
def desk(data: DataDirectory, tmp_path: Path) -> Desk:
    (tmp_path / "inbox").mkdir()
    return Desk(data, tmp_path / "inbox")
