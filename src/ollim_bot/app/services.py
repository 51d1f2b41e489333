"""Keeps the services of the bot running: one that fails is started again, and the bot goes on."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial

from ollim_bot.clock import Backoff
from ollim_bot.conversation import texts
from ollim_bot.conversation.notices import Notices
from ollim_bot.errors import OllimError, StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

_logger = logging.getLogger(__name__)

Service = Callable[[], Coroutine[None, None, None]]


async def keep_running(run: Service, store: Store, notices: Notices, clock: Clock) -> None:
    """Run a service to its end, again after each failure. The owner is told once a day.

    A disk that refuses is not told here, and the service starts again when it takes writes.
    """

    async def tell(error: BaseException) -> None:
        if isinstance(error, StorageError):
            _logger.warning("The service %s has to wait: %s", name, error)
            await store.until_writable()
            return
        sentence = str(error) if isinstance(error, OllimError) else texts.SERVICE_FAULT
        await notices.tell(sentence, key=f"{sentence} {clock.now():%Y-%m-%d}")

    name = (run.func if isinstance(run, partial) else run).__qualname__
    await start_again(run, name, tell, clock, may_end=True)


async def start_again(
    run: Service,
    name: str,
    tell: Callable[[BaseException], Awaitable[None]],
    clock: Clock,
    *,
    may_end: bool = False,
) -> None:
    """Run a service, and start it again after each failure, with growing pauses.

    Its end is a failure too, unless it `may_end`. `tell` is called with the error, and may raise it
    to give up.
    """
    async for _ in Backoff(clock, _FIRST_PAUSE, _LONGEST_PAUSE):
        try:
            await run()
            if may_end:
                return
        except Exception as failed:  # a fault of one service must not end the bot
            error = first_error(failed)
            if not isinstance(error, OllimError):
                _logger.exception("The service %s failed", name)
            await tell(error)


async def in_order(first: Awaitable[None], run: Service) -> None:
    """Run a service after something that it needs."""
    await first
    await run()


def first_error(failed: BaseException) -> BaseException:
    """The error behind a group; the other tasks were only cancelled because of it."""
    while isinstance(failed, BaseExceptionGroup):
        failed = failed.exceptions[0]
    return failed
