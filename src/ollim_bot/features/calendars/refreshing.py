"""Keeps the subscribed calendars current while the bot runs."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from datetime import datetime
from functools import partial
from threading import Thread
from traceback import format_tb
from typing import ParamSpec, Protocol, TypeVar

from ollim_bot.features.calendars.feeds import CalendarFeeds
from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.text import literal
from ollim_bot.kernel.store.calendar_files import CalendarSource
from ollim_bot.kernel.values.calendar import (
    FRESH,
    CalendarCopy,
    CalendarEvent,
    added_words,
    failing_words,
)
from ollim_bot.kernel.values.pasted_addresses import AddressAnswer
from ollim_bot.kernel.values.taint import Untrusted

P = ParamSpec("P")
T = TypeVar("T")

# Computing the instances of a large calendar takes a core for seconds.
_AT_ONCE = 2
_QUOTED = Untrusted("calendar entry", "the next event of a calendar that the owner added")

_logger = logging.getLogger(__name__)


class _Tell(Protocol):
    async def __call__(self, sentence: str, *, key: str | None = None) -> object: ...


class CalendarRefresher:
    """Reads every subscribed calendar again each quarter of an hour.

    A calendar that fails does not delay or stop the others. The owner is told of it once, after a
    day. `read_others` reads those that have no address of their own, and returns their copies.
    `tell_news` is called when a reading has found other events than the one before.
    """

    def __init__(
        self,
        feeds: CalendarFeeds,
        tell: _Tell,
        clock: Clock,
        read_others: Callable[[datetime], Sequence[CalendarCopy]] = lambda _: (),
        tell_news: Callable[[], None] = lambda: None,
    ) -> None:
        self._tell_news = tell_news
        self._known: dict[str, tuple[Sequence[CalendarEvent], str]] = {}
        self._feeds = feeds
        self._read_others = read_others
        self._tell = tell
        self._clock = clock
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._wants_others = asyncio.Event()

    async def run(self) -> None:
        """Read them until cancelled."""
        while True:
            await self.refresh()
            ends_at = self._clock.monotonic() + FRESH.total_seconds()
            while (left := ends_at - self._clock.monotonic()) > 0:
                await wait_until_set(self._wants_others, self._clock, left)
                if self._wants_others.is_set():
                    self._wants_others.clear()
                    await self._refresh_others()

    def read_others_soon(self) -> None:
        """The owner has chosen others; do not wait for the next quarter of an hour."""
        self._wants_others.set()

    async def refresh(self) -> None:
        """Read all of them once."""
        try:
            sources = await _off_loop(self._feeds.sources)
        except OllimError as refused:
            _logger.warning("The calendars cannot be read now: %s", refused)
            return
        feeds = (self._refresh_one(source) for source in sources)
        await asyncio.gather(self._refresh_others(), *feeds)

    async def refresh_files(self) -> None:
        """Read those that are files in the data directory, and have changed."""
        try:
            changed = await _off_loop(self._feeds.changed_files)
        except OllimError as refused:
            _logger.warning("The calendars cannot be read now: %s", refused)
            return
        await asyncio.gather(*(self._refresh_one(each) for each in changed))

    async def _refresh_others(self) -> None:
        now = self._clock.now()
        try:
            for copy in await _off_loop(partial(self._read_others, now)):
                await self._note(copy)
        except OllimError as refused:
            _logger.warning("The calendars at Google cannot be kept now: %s", refused)
        except Exception:  # one service must not stop the others
            _logger.exception("The calendars at Google could not be refreshed")

    async def _refresh_one(self, source: CalendarSource) -> None:
        async with self._slots:
            now = self._clock.now()
            try:
                copy = await _off_loop(partial(self._feeds.refresh, source, now))
                if copy is not None:
                    await self._note(copy)
            except OllimError as refused:
                _logger.warning("The calendar %s cannot be kept now: %s", source.name, refused)
            except Exception as fault:  # noqa: BLE001 - one calendar must not stop the others
                # The message of a fault may hold the address; the places where it came from do not.
                places = "".join(format_tb(fault.__traceback__))
                kind = type(fault).__name__
                _logger.error("Reading the calendar %s failed: %s\n%s", source.name, kind, places)

    async def _note(self, copy: CalendarCopy) -> None:
        now, found = self._clock.now(), (copy.events, copy.problem)
        if self._known.get(copy.name) != found:
            self._known[copy.name] = found
            self._tell_news()
        if copy.is_to_be_told(now):
            # Each time of failing has its own key, and so is told once.
            key = f"calendar {copy.name} {copy.failing_since}"
            await self._tell(failing_words(copy, now), key=key)


async def take_calendar_address(feeds: CalendarFeeds, clock: Clock, address: str) -> AddressAnswer:
    """Subscribe to an address that the owner pasted into the conversation."""
    now = clock.now()
    try:
        copy = await _off_loop(partial(feeds.subscribe, address, None, now))
    except OllimError as refused:
        return AddressAnswer(f"No calendar was added. {refused}")
    update = f"The owner added the calendar {copy.name}; `ollim-bot cal upcoming` shows it."
    remove = shlex.join(["ollim-bot", "cal", "unsubscribe", copy.name])
    words = (
        f"{added_words(copy, now, literal)} `{remove}` removes it; to name it yourself, remove it, "
        "then run `ollim-bot cal subscribe - --name Work`."
    )
    return AddressAnswer(words, update, _QUOTED)


class _DaemonThreads(Executor):
    """A thread for each call. Unlike the threads of a pool, they do not delay the exit."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        # It runs to its end, also if its result is not wanted any more.
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - handed to the waiting task
                done.set_exception(error)

        Thread(target=run, name="calendar", daemon=True).start()
        return done


_THREADS = _DaemonThreads()


async def _off_loop(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
