"""What tests of every step and every moment need."""

from __future__ import annotations

import asyncio

import pytest
from tests.conversation.scene import AtOnce


@pytest.fixture
async def at_once() -> None:
    """Nothing happens in other threads, so that it happens in the same order each time."""
    asyncio.get_running_loop().set_default_executor(AtOnce())
