"""A terminal for the commands that show events."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)
