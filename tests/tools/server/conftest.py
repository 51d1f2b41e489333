"""Every test of the tools gets a desk for the kind of run that it asks for."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.tools.server.desk import DeskOf, desk_of


@pytest.fixture
def desk(tmp_path: Path) -> DeskOf:
    return partial(desk_of, tmp_path)
