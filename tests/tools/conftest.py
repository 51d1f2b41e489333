"""Every test of the tools gets a furnished house that no other test has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.tools.house import House, furnished

from ollim_bot.tools.path_rules import PathPolicy


class Houses:
    """Furnishes another house only if the last one has been changed: most tests only look."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._last: House | None = None
        self._inventory: Sequence[object] = ()

    def unchanged(self) -> House:
        if self._last is None or _inventory(self._last.home) != self._inventory:
            self._last = furnished(self._new_folder())
            self._inventory = _inventory(self._last.home)
        return self._last


def _inventory(home: Path) -> Sequence[object]:
    found = []
    for folder, folders, files in os.walk(home):
        for name in (".", *folders, *files):
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            found.append((path, facts.st_ino, facts.st_nlink, facts.st_size, facts.st_ctime_ns))
    return found


@pytest.fixture(scope="session")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Houses:
    def new_folder() -> Path:
        home = tmp_path_factory.mktemp("house") / "home"
        home.mkdir()
        return home

    return Houses(new_folder)


@pytest.fixture
def house(houses: Houses) -> House:
    return houses.unchanged()


@pytest.fixture
def reach(house: House) -> PathPolicy:
    return PathPolicy(house.data, (house.texts,))
