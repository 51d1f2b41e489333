from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernel.conversation.conftest import inline_executor
from tests.kinds import REAL_MARKS
from tests.terminal import Terminal

__all__ = ["inline_executor", "terminal"]


@pytest.fixture
def terminal(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    """A test that starts no process has no git for its commands."""
    kinds = {mark.name for mark in request.node.iter_markers()} & REAL_MARKS.keys()
    if not kinds - {"real_time"}:
        monkeypatch.setenv("PATH", "")
    return Terminal(tmp_path)
