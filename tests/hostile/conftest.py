"""The engine of the hostile model, and a terminal for what strangers wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.terminal import Terminal
from tests.virtual_loop import VirtualTimeLoop


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


@pytest.fixture(scope="module")
def virtual_loop() -> None:
    """The first loop makes sockets that stay."""
    VirtualTimeLoop().close()


@pytest.fixture
def without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command finds no git, so that it starts no process."""
    monkeypatch.setenv("PATH", "")
