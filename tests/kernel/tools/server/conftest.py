"""Each test makes scenes for the kinds of run that it needs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.kernel.tools.server.tool_scene import MakeToolScene, make_tool_scene


@pytest.fixture
def tool_scene(tmp_path: Path) -> MakeToolScene:
    return partial(make_tool_scene, tmp_path)
