"""The engine of the hostile model, and a terminal for what strangers wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


@pytest.fixture(
    params=[False, pytest.param(True, marks=[pytest.mark.minutes, pytest.mark.real_engine])],
    ids=["our engine", "real engine"],
)
def is_real(request: pytest.FixtureRequest) -> bool:
    """Whether the engine is the real one, or one in this process that has no rules of its own."""
    return bool(request.param)
