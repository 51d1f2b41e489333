"""The store on a server, and as a command has it, keep the same contract as that on disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.store_contract import RowsContract, StoreContract
from tests.kernel.store.scene import NOW
from tests.postgres_server import leading, new_address

from ollim_bot.kernel.store.store import DatabaseStore, Store
from ollim_bot_standby.bot_rows import rows_beside_bot
from ollim_bot_standby.command_server import CommandRows, CommandServer


class TestPostgresStore(RowsContract):
    def opened(self) -> AbstractAsyncContextManager[Store]:
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        with leading(new_address(), lambda: NOW) as (_, database):
            store = DatabaseStore(database, ManualClock(NOW))
            yield store
            await store.close()


class TestStoreOfBot(StoreContract):
    """As a command beside the bot has it, whose rows are those of the bot."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "commands.sock"

    def opened(self) -> AbstractAsyncContextManager[Store]:
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        address = new_address()
        with leading(address, lambda: NOW) as (lease, database):
            rows = CommandRows(address, lease, lambda: NOW)
            rows.open(DatabaseStore(database, ManualClock(NOW)))
            server = CommandServer(self.path, rows)
            server.start()
            beside = rows_beside_bot(self.path, lambda: NOW)
            assert beside is not None
            store = DatabaseStore(beside, ManualClock(NOW))
            yield store
            await store.close()
            server.stop()
            rows.close()
