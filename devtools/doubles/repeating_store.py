"""A store in memory that runs every step twice, and tells when the two runs differ."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Generic, Self, TypeVar

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.store.backend import ALONE
from ollim_bot.kernel.store.connection import (
    Row,
    SqliteStatements,
    Statements,
    Value,
    connect_in_memory,
)
from ollim_bot.kernel.store.schema import migrate
from ollim_bot.kernel.store.search_index import can_index
from ollim_bot.kernel.store.store import Watches
from ollim_bot.kernel.store.transaction import Step, Transaction

R = TypeVar("R")

_PATH = Path("ollim.db")


class RecordedStatements(Statements):
    """Records every statement that changes something."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, tuple[Value, ...]]] = []

    def write(self, table: str, sql: str, *arguments: Value) -> list[Row]:
        self.written.append((sql, arguments))
        return super().write(table, sql, *arguments)


class _RecordedInMemory(SqliteStatements, RecordedStatements):
    pass


class NotRepeatable(AssertionError):
    """A step did something else, or returned something else, when it was run again."""


@cache
def _empty_database() -> bytes:
    """Every store begins as a copy, which takes a tenth of the time of the migrations."""
    with closing(connect_in_memory()) as connection:
        connection.execute("BEGIN")
        migrate(connection)
        transaction = Transaction(SqliteStatements(connection, _PATH), datetime.now(UTC))
        transaction.messages.prepare_search(is_supported=can_index())
        connection.execute("COMMIT")
        return connection.serialize()


class RepeatingStore:
    """A `Store` without a disk and without threads of its own.

    Every step is run, rolled back and run again, unless `is_repeating` is False. `fail_with` has
    all further steps refused with an error, as a full disk does.
    """

    def __init__(self, now: Callable[[], datetime], *, is_repeating: bool = True) -> None:
        self._now = now
        self._is_repeating = is_repeating
        self._connection = connect_in_memory()
        self._connection.deserialize(_empty_database())
        self._lock = threading.RLock()
        self._watches = Watches()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refusal: StorageError | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.commits = 0

    def fail_with(self, refusal: StorageError | None) -> None:
        """Refuse all steps from now on; with None, take them again."""
        self._refusal = refusal
        if refusal is None:
            self._writable.set()
        else:
            self._writable.clear()

    async def transact(self, step: Step[R]) -> R:
        self._loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        return self.run(step)

    async def read(self, question: Step[R]) -> R:
        await asyncio.sleep(0)
        return self.query(question)

    def query(self, question: Step[R]) -> R:
        with self._lock:
            answer = _Attempt(self, question)
            self.end("ROLLBACK")
        if answer.statements.written:
            raise NotRepeatable(f"a question changes {sorted(answer.statements.changed)}")
        return answer.result()

    def run(self, step: Step[R]) -> R:
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            attempt = self._repeated(step)
            if attempt.failure is not None:
                self.end("ROLLBACK")
            else:
                self.end("COMMIT")
                self.commits += 1
        if attempt.failure is None:
            self._publish(frozenset(attempt.statements.changed - {"mirrors", "meta"}))
        return attempt.result()

    def changes(
        self, *names: str, event: asyncio.Event | None = None
    ) -> AbstractContextManager[asyncio.Event]:
        self._loop = asyncio.get_running_loop()
        return self._watches.watching(names, event)

    @property
    def is_writable(self) -> bool:
        return self._refusal is None

    sharing = ALONE

    async def until_writable(self) -> None:
        await self._writable.wait()

    async def close(self) -> None:
        self._connection.close()

    def content(self) -> bytes:
        return self._connection.serialize()

    def copied(self, now: Callable[[], datetime] | None = None) -> Self:
        """A store of the same content, by another clock if there is one.

        Changes of one do not reach the other.
        """
        copied = type(self)(now or self._now)
        copied._is_repeating = self._is_repeating
        copied.fill(self.content())
        return copied

    def fill(self, content: bytes) -> None:
        """Replace all rows."""
        self._connection.deserialize(content)

    def begin(self) -> tuple[RecordedStatements, Transaction]:
        """Open the transaction of one run of a step."""
        self._connection.execute("BEGIN")
        statements = _RecordedInMemory(self._connection, _PATH)
        return statements, Transaction(statements, self._now())

    def end(self, word: str) -> None:
        """End the open transaction: COMMIT or ROLLBACK."""
        self._connection.execute(word)

    def _repeated(self, step: Step[R]) -> _Attempt[R]:
        first = _Attempt(self, step)
        if not self._is_repeating:
            return first
        self.end("ROLLBACK")
        second = _Attempt(self, step)
        try:
            first.compare(second)
        except NotRepeatable:
            self.end("ROLLBACK")
            raise
        return second

    def _publish(self, changed: frozenset[str]) -> None:
        if changed and self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # the loop was closed in between
                self._loop.call_soon_threadsafe(self._watches.publish, changed)


class _Attempt(Generic[R]):
    """One run of a step, in a transaction that is left open."""

    def __init__(self, store: RepeatingStore, step: Step[R]) -> None:
        self.statements, tx = store.begin()
        self.failure: Exception | None = None
        self._results: list[R] = []
        try:
            self._results.append(step(tx))
        except Exception as failure:  # noqa: BLE001  # it is raised once the transaction is over
            self.failure = failure

    def result(self) -> R:
        if self.failure is not None:
            raise self.failure
        return self._results[0]

    def compare(self, other: _Attempt[R]) -> None:
        if self.statements.written != other.statements.written:
            raise NotRepeatable(
                f"a step writes {_first_difference(self.statements, other.statements)}"
            )
        if repr(self.failure) != repr(other.failure):
            raise NotRepeatable(f"a step raises {self.failure!r}, then {other.failure!r}")
        if self._results != other._results:
            raise NotRepeatable(f"a step returns {self._results!r}, then {other._results!r}")


def _first_difference(first: RecordedStatements, second: RecordedStatements) -> str:
    for one, other in zip(first.written, second.written, strict=False):
        if one != other:
            return f"{one}, then {other}"
    return f"{len(first.written)} times, then {len(second.written)} times"
