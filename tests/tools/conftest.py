"""Every test of the tools gets a furnished house."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.house import House, furnished

from ollim_bot.tools.reach import Reach


@pytest.fixture
def house(tmp_path: Path) -> House:
    home = tmp_path / "home"
    home.mkdir()
    return furnished(home)


@pytest.fixture
def reach(house: House) -> Reach:
    return Reach(house.data, (house.texts,))
