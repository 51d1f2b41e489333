"""Each test gets its own bot on its own local Discord."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.discord.discord_scene import (
    DiscordScene,
    in_process_scene,
    killable_scene,
    real_engine_scene,
)


@pytest.fixture
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DiscordScene]:
    """In this process with a doubled engine, unless a mark says otherwise."""

    def is_marked(name: str) -> bool:
        return request.node.get_closest_marker(name) is not None

    apart = killable_scene if is_marked("own_process") else in_process_scene
    async with (real_engine_scene if is_marked("real_engine") else apart)(tmp_path) as made:
        yield made
