"""Each test gets a bot of its own on a Discord of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.discord.talk import Talk, talking, talking_inline, talking_killable


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "own_process: the bot runs in a process of its own")
    config.addinivalue_line("markers", "real_engine: and has the engine's program, too")


@pytest.fixture
async def talk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Talk]:
    """In this process with the engine doubled, unless a mark says otherwise."""

    def is_marked(name: str) -> bool:
        return request.node.get_closest_marker(name) is not None

    apart = talking_killable if is_marked("own_process") else talking_inline
    async with (talking if is_marked("real_engine") else apart)(tmp_path) as made:
        yield made
