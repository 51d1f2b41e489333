from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernel.store.files.attachments.scene import AttachmentScene
from tests.kernel.store.files.data_directory import DataDirectory


@pytest.fixture
def scene(data: DataDirectory, tmp_path: Path) -> AttachmentScene:
    (tmp_path / "inbox").mkdir()
    return AttachmentScene(data, tmp_path / "inbox")
