from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.kernel.store.files.journal.git_repos import JournalScene


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, so that git reads no settings of this machine."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def scene(tmp_path: Path) -> JournalScene:
    root = tmp_path / "data"
    root.mkdir()
    return JournalScene(root)


@pytest.fixture
def repository(scene: JournalScene) -> JournalScene:
    scene.become_repository()
    scene.commit_by_hand("README.md")
    return scene
