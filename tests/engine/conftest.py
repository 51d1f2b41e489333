"""Every test of the engine gets a model of its own, and most get a session of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.engine.cases import Case, double, modelled, real
from tests.engine.scene import Scene, scene
from tests.engine.shared import SharedSession


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedSession]:
    made = SharedSession(tmp_path_factory.mktemp("shared"))
    async with made.opened():
        yield made


@pytest.fixture
def shared(one_session: SharedSession) -> SharedSession:
    """The session of all tests of the module that run in the module's loop."""
    one_session.renew()
    return one_session


@pytest.fixture(params=[real, double, modelled], ids=["real", "double", "modelled"])
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    async with asyncio.timeout(60), request.param(tmp_path) as made:
        yield made
