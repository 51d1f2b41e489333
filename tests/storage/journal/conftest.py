from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.storage.journal.git_repos import Kept


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that nobody's git settings are read."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    root = tmp_path / "data"
    root.mkdir()
    return Kept(root)


@pytest.fixture
def repository(kept: Kept) -> Kept:
    kept.become_repository()
    kept.commit_by_hand("README.md")
    return kept
