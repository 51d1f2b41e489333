"""Every test of the tools gets a furnished house."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.house import House, furnished

from ollim_bot.tools.path_rules import PathPolicy


@pytest.fixture
def house(tmp_path: Path) -> House:
    home = tmp_path / "home"
    home.mkdir()
    return furnished(home)


@pytest.fixture
def reach(house: House) -> PathPolicy:
    return PathPolicy(house.data, (house.texts,))
