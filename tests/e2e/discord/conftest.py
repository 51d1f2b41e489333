"""Each test gets a bot of its own on a Discord of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.discord.talk import Talk, talking, talking_inline


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "own_process: the bot runs in a process of its own")


@pytest.fixture
async def talk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Talk]:
    """In this process, unless the test is marked with `own_process`."""
    needs_process = request.node.get_closest_marker("own_process") is not None
    async with talking(tmp_path) if needs_process else talking_inline(tmp_path) as made:
        yield made
