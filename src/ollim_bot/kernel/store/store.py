"""The store, for code on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol, TypeVar

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.store.backend import Backend, Sharing
from ollim_bot.kernel.store.transaction import NAMES, Step

R = TypeVar("R")

_POLL = 1.0
_LOOK_FOR_ROOM = 5
_LOOK_FOR_COPY = 60

_logger = logging.getLogger(__name__)


class Store(Protocol):
    """All state. `transact` is the only way to change it."""

    async def transact(self, step: Step[R]) -> R:
        """Run `step(tx)`, a plain function, in one transaction; return its result.

        When this returns, everything is durable. When the step raises, nothing has changed. A step
        is repeatable: it may be run twice, with the first run rolled back. A caller that is
        cancelled after its step began still waits for the outcome.
        """

    async def read(self, question: Step[R]) -> R:
        """Return `question(tx)`, of one state; for display, never as the basis of a change."""

    def run(self, step: Step[R]) -> R:
        """As `transact`, for a thread without an event loop."""

    def query(self, question: Step[R]) -> R:
        """As `read`, for a thread without an event loop."""

    def changes(
        self, *names: str, event: asyncio.Event | None = None
    ) -> AbstractContextManager[asyncio.Event]:
        """Set `event`, or a new one, after each commit that changes one of these while entered.

        The names are those of records and tables; no names mean any commit. A commit of another
        process counts as a change of all.
        """

    @property
    def is_writable(self) -> bool:
        """False from the first write that the disk refused until one succeeds again."""

    async def until_writable(self) -> None: ...

    @property
    def sharing(self) -> Sharing: ...


async def changes_of(store: Store, *names: str, also: Watches | None = None) -> AsyncIterator[None]:
    """An item after each commit that changes one of these; several at once make one.

    So does all that `also` publishes.
    """
    beside = Watches() if also is None else also
    with store.changes(*names) as has_changed, beside.watching((), has_changed):
        while True:
            await has_changed.wait()
            has_changed.clear()
            yield


class Watches:
    """The events to set after a change, each with the names that concern it; none mean any."""

    def __init__(self) -> None:
        self._events: list[tuple[frozenset[str], asyncio.Event]] = []

    @contextmanager
    def watching(
        self, names: tuple[str, ...], event: asyncio.Event | None
    ) -> Iterator[asyncio.Event]:
        watch = (frozenset(names), event or asyncio.Event())
        self._events.append(watch)
        try:
            yield watch[1]
        finally:
            self._events.remove(watch)

    def publish(self, changed: frozenset[str] = frozenset()) -> None:
        for names, event in self._events:
            if names & changed or not names:
                event.set()


class DatabaseStore:
    """A `Store` on the database of this process; `run_upkeep` is a service to run beside it.

    `before_step` is called with the database before each step and once a second, while the database
    can be written. It raises nothing, and returns whether it has changed something.
    """

    def __init__(
        self,
        database: Backend,
        clock: Clock,
        before_step: Callable[[Backend], bool] = lambda _: False,
    ) -> None:
        self._database = database
        self._before_step = before_step
        self._clock = clock
        self._writer = ThreadPoolExecutor(1, "store-writer")
        self._reader = ThreadPoolExecutor(1, "store-reader")
        self._watches = Watches()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._commits = 0
        self._writable = asyncio.Event()
        self._note_disk()

    async def transact(self, step: Step[R]) -> R:
        self._loop = asyncio.get_running_loop()
        try:
            return await _outcome(self._writer.submit(self.run, step))
        finally:
            self._note_disk()

    async def read(self, question: Step[R]) -> R:
        return await _outcome(self._reader.submit(self._database.query, question))

    def run(self, step: Step[R]) -> R:
        if self._database.is_writable and self._before_step(self._database):
            self._announce(NAMES)
        result, changed = self._database.run_noting(step)
        self._announce(changed)
        return result

    def query(self, question: Step[R]) -> R:
        return self._database.query(question)

    def changes(
        self, *names: str, event: asyncio.Event | None = None
    ) -> AbstractContextManager[asyncio.Event]:
        self._loop = asyncio.get_running_loop()
        return self._watches.watching(names, event)

    @property
    def is_writable(self) -> bool:
        return self._database.is_writable

    @property
    def sharing(self) -> Sharing:
        return self._database.sharing

    async def until_writable(self) -> None:
        await self._writable.wait()

    async def run_upkeep(self) -> None:
        """Notice other commits, tidy, copy and recover, until cancelled."""
        tidied, ticks = -1, 0
        while True:
            commits = self._commits
            await self._clock.sleep(_POLL)
            ticks += 1
            database = self._database
            if database.is_writable and await self._in_writer(partial(self._before_step, database)):
                self._publish(NAMES)
            if await self._in_writer(database.note_version):
                self._publish(NAMES)
            is_idle = commits == self._commits != tidied
            await self._in_writer(partial(database.tidy, is_idle=is_idle))
            if is_idle:
                tidied = self._commits
            if ticks % _LOOK_FOR_COPY == 0:
                try:
                    await _outcome(self._reader.submit(database.copy_if_due))
                except StorageError:
                    _logger.warning("An automatic copy could not be made", exc_info=True)
            if not self.is_writable and ticks % _LOOK_FOR_ROOM == 0:
                self._database = await self._in_writer(database.recovered)
                if self._database is not database:
                    self._publish(NAMES)
            self._note_disk()

    async def close(self) -> None:
        """Wait for the steps that began, then close the database."""
        try:
            await self._in_writer(self._database.close)
        finally:
            self._writer.shutdown()
            self._reader.shutdown()

    async def _in_writer(self, work: Callable[[], R]) -> R:
        return await _outcome(self._writer.submit(work))

    def _note_disk(self) -> None:
        if self._database.is_writable:
            self._writable.set()
        else:
            self._writable.clear()

    def _announce(self, changed: frozenset[str]) -> None:
        """Have the event loop publish the change. Callable from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._publish, changed)

    def _publish(self, changed: frozenset[str]) -> None:
        if changed:
            self._commits += 1
            self._watches.publish(changed)


async def _outcome(work: Future[R]) -> R:
    """What `work` returns or raises, even if the caller is cancelled after it began."""
    waiter = asyncio.wrap_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not waiter.done():
        try:
            await asyncio.wait({waiter})
        except asyncio.CancelledError as stop:
            cancelled = stop
            if work.cancel():
                break
    if cancelled is None:
        return waiter.result()
    if not waiter.cancelled() and waiter.done():
        failure = waiter.exception()
        if isinstance(failure, SystemExit):
            raise failure
    raise cancelled
