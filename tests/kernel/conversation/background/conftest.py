"""Background runs get a model and a data directory of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kernel.conversation.background.real_scene import RealScene, in_process_scene, real_scene
from tests.kernel.conversation.conftest import inline_executor
from tests.patience import patience

__all__ = ["inline_executor"]


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealScene]:
    async with asyncio.timeout(patience()), real_scene(tmp_path) as made:
        yield made


@pytest.fixture
async def in_process(tmp_path: Path) -> AsyncIterator[RealScene]:
    async with asyncio.timeout(patience()), in_process_scene(tmp_path) as made:
        yield made
