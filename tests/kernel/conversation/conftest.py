"""A fixture for tests that need the same order of events each time."""

from __future__ import annotations

import asyncio

import pytest
from tests.kernel.conversation.scene import InlineExecutor


@pytest.fixture
async def inline_executor() -> None:
    """Work for threads is run in the event loop, so that its order is the same each time."""
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
