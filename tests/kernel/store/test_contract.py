"""The store on disk and the store for tests keep the same contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.repeating_store import RepeatingStore
from devtools.doubles.store_contract import RowsContract
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.store.store import DatabaseStore, Store


class TestSqliteStore(RowsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def opened(self) -> AbstractAsyncContextManager[Store]:
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        store = DatabaseStore(StoreScene(self.folder).open(), ManualClock(NOW))
        yield store
        await store.close()


class TestRepeatingStore(RowsContract):
    def opened(self) -> AbstractAsyncContextManager[Store]:
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        store = RepeatingStore(lambda: NOW)
        yield store
        await store.close()
