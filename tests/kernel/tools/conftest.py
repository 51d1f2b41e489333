"""A home directory with secrets for each test, which no other test has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.kernel.tools.home_scene import HomeScene, make_home

from ollim_bot.kernel.permissions.path_rules import PathPolicy


class HomeSceneCache:
    """Makes another home only if the last one was changed, because most tests only read it."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._last: HomeScene | None = None
        self._inventory: Sequence[object] = ()

    def unchanged(self) -> HomeScene:
        if self._last is None or _inventory(self._last.root) != self._inventory:
            self._last = make_home(self._new_folder())
            self._inventory = _inventory(self._last.root)
        return self._last


def _inventory(root: Path) -> Sequence[object]:
    found = []
    for folder, folders, files in os.walk(root):
        for name in (".", *folders, *files):
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            found.append((path, facts.st_ino, facts.st_nlink, facts.st_size, facts.st_ctime_ns))
    return found


@pytest.fixture(scope="session")
def home_scenes(tmp_path_factory: pytest.TempPathFactory) -> HomeSceneCache:
    def new_folder() -> Path:
        root = tmp_path_factory.mktemp("house") / "home"
        root.mkdir()
        return root

    return HomeSceneCache(new_folder)


@pytest.fixture
def home(home_scenes: HomeSceneCache) -> HomeScene:
    return home_scenes.unchanged()


@pytest.fixture
def path_policy(home: HomeScene) -> PathPolicy:
    return PathPolicy(home.data, (home.texts,))
