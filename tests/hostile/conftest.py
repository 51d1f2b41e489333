"""A terminal for commands that show what strangers wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)
