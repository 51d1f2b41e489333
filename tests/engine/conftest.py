"""Every test of the engine gets a model of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.engine.cases import Case, double, modelled, real
from tests.engine.scene import Scene, scene


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture(params=[real, double, modelled], ids=["real", "double", "modelled"])
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    async with asyncio.timeout(60), request.param(tmp_path) as made:
        yield made
