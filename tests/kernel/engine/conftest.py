"""Every test of the engine has its own model. Most tests share one session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.kernel.engine.cases import (
    Case,
    OpenCase,
    double,
    killable,
    modelled,
    opened,
    opened_in,
    real,
)
from tests.kernel.engine.scene import Scene
from tests.kernel.engine.scene import scene as open_scene
from tests.kernel.engine.shared import SharedSession
from tests.patience import patience


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with open_scene(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def one_session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedSession]:
    made = SharedSession(tmp_path_factory.mktemp("shared"))
    async with made.opened():
        yield made


@pytest.fixture
def shared(one_session: SharedSession) -> SharedSession:
    """The session of all tests that run in the shared loop."""
    one_session.renew()
    return one_session


@pytest.fixture(
    params=[pytest.param(real, marks=pytest.mark.real_engine), double, modelled, killable],
    ids=["real", "double", "modelled", "killable"],
)
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    async with asyncio.timeout(5 * patience()), request.param(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def open_double(tmp_path: Path) -> AsyncIterator[OpenCase]:
    async with asyncio.timeout(patience()), double(tmp_path) as case, opened(case) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def open_model(tmp_path: Path) -> AsyncIterator[OpenCase]:
    async with asyncio.timeout(patience()), modelled(tmp_path) as case, opened(case) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def open_killable(tmp_path: Path) -> AsyncIterator[OpenCase]:
    async with asyncio.timeout(patience()), killable(tmp_path) as case, opened(case) as made:
        yield made


@pytest.fixture
def open_real(shared: SharedSession) -> OpenCase:
    return opened_in(shared)


@pytest.fixture(params=["open_real", "open_double", "open_model", "open_killable"])
def open_case(request: pytest.FixtureRequest) -> OpenCase:
    """A session that is open; the one of the real engine is shared."""
    made = request.getfixturevalue(request.param)
    assert isinstance(made, OpenCase)
    return made
