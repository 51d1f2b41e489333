"""`/quiet`, the sign that it is quiet, and the digest that brings what had to wait."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from ollim_bot.clock import wait_until_set
from ollim_bot.conversation.digests import add_digest, redraw_digests
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.state import ConversationState, StatusBoard
from ollim_bot.domain.inbox import CommandCall
from ollim_bot.domain.moments import describe, duration_in_words, elapsed, later
from ollim_bot.domain.phrases import is_moment, parse_duration, parse_moment
from ollim_bot.domain.quiet import QuietChoice, ended_now, is_quiet, quiet_until
from ollim_bot.domain.text import counted
from ollim_bot.errors import WrongInput
from ollim_bot.ports import Clock
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# The wall clock may be set, or the machine may sleep.
_LONGEST_SLEEP = 30.0
_CAUSES = frozenset({"held", "quiet", "config", "zone"})

_logger = logging.getLogger(__name__)


class QuietWatch:
    """Shows whether it is quiet. When the quiet ends, posts everything that waited as one digest.

    The digest is posted once, and never during a turn. Its lines follow the answers to them.
    """

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        poster: MessagePoster,
        board: StatusBoard,
        clock: Clock,
    ) -> None:
        self._store = store
        self._state = state
        self._poster = poster
        self._board = board
        self._clock = clock
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Watch the clock and the settings, and the items of digests, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_answers())
            await self._watch_quiet()

    async def _follow_answers(self) -> None:
        """Redraw the digests whenever an item may have its answer, as long as one is kept."""
        with (
            self._store.changes("digests") as has_digest,
            self._store.changes("due_items") as has_answer,
        ):
            while True:
                has_digest.clear()
                has_answer.clear()
                digests = await self._store.read(lambda tx: tx.digests.get())
                if digests.kept:
                    await self._store.transact(lambda tx: redraw_digests(tx, self._poster))
                await (has_answer if digests.kept else has_digest).wait()

    async def _watch_quiet(self) -> None:
        with self._store.changes(*_CAUSES, event=self._changed):
            while True:
                self._changed.clear()
                await self._post_or_wait()

    async def _post_or_wait(self) -> None:
        now = self._clock.now()
        settings, has_waiting = await self._store.read(
            lambda tx: (quiet_settings(tx), bool(tx.held.get().waiting))
        )
        until = quiet_until(settings, now)
        await self._board.show_quiet(until)
        if until is not None:
            left = elapsed(now, until).total_seconds()
            await wait_until_set(self._changed, self._clock, min(_LONGEST_SLEEP, left))
        elif has_waiting:
            await self._state.until_idle()
            now = self._clock.now()
            await self._store.transact(lambda tx: self._end_quiet(tx, now))
        elif settings.hours is not None:
            await wait_until_set(self._changed, self._clock, _LONGEST_SLEEP)
        else:
            await self._changed.wait()

    def _end_quiet(self, tx: Transaction, now: datetime) -> None:
        if not is_quiet(quiet_settings(tx), now):
            add_digest(tx, self._poster, now)


_LONGEST = timedelta(days=3)
_UNTIL, _FOR = "until ", "for "
_HOW_TO = "`/quiet 2h` or `/quiet until 15:00` makes it quiet for a while."
_HOW_TO_EVERY_NIGHT = "`/config quiet_hours 22:00-07:00` does so every night."
_WHAT_COMES = "What must come and what is critical comes; the rest waits for one message then."


class QuietCommands:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def quiet(self, call: CommandCall) -> str:
        """Show when it is quiet, or change it; raises `WrongInput`."""
        words, now = call.arguments.get("how_long", "").strip(), self._clock.now()
        if not words:
            return await self._store.read(lambda tx: _as_it_is(tx, now))
        if words.casefold() == "off":
            return await self._store.transact(lambda tx: _ended(tx, now))
        until = chosen_end(words, now)
        return await self._store.transact(lambda tx: _begun(tx, until, now))


def chosen_end(words: str, now: datetime) -> datetime:
    """The end of the quiet that is wanted: `2h`, `for 2h`, `until 15:00`. Raises `WrongInput`."""
    phrase = words.casefold()
    if phrase.startswith(_UNTIL) or is_moment(words, now):
        end = parse_moment(phrase.removeprefix(_UNTIL), now)
    else:
        end = later(now, parse_duration(phrase.removeprefix(_FOR)), timedelta(minutes=1))
    if elapsed(now, end) > _LONGEST + timedelta(minutes=1):
        raise WrongInput(
            f"It can be quiet for {duration_in_words(_LONGEST)} at most. "
            "`/config quiet_hours` sets hours for every day."
        )
    return end


def _begun(tx: Transaction, until: datetime, now: datetime) -> str:
    tx.quiet.put(QuietChoice(until=until))
    end = quiet_until(quiet_settings(tx), now)
    assert end is not None
    return f"Quiet until {describe(end, now)}. {_WHAT_COMES} `/quiet off` ends it."


def _ended(tx: Transaction, now: datetime) -> str:
    settings = quiet_settings(tx)
    if not is_quiet(settings, now):
        return _as_it_is(tx, now)
    tx.quiet.put(ended_now(settings, now))
    waiting = len(tx.held.get().waiting)
    follows = f" What waited follows now ({counted(waiting, 'message')})." if waiting else ""
    again = "" if settings.hours is None else f" The quiet hours {settings.hours} hold again later."
    return f"It is not quiet any more.{follows}{again}"


def _as_it_is(tx: Transaction, now: datetime) -> str:
    settings = quiet_settings(tx)
    end, waiting = quiet_until(settings, now), len(tx.held.get().waiting)
    if end is not None:
        waits = f" {counted(waiting, 'message')} waiting." if waiting else ""
        return f"Quiet until {describe(end, now)}.{waits} `/quiet off` ends it."
    if settings.hours is None:
        return f"It is not quiet. {_HOW_TO} {_HOW_TO_EVERY_NIGHT}"
    return f"It is not quiet now. The quiet hours are {settings.hours}. {_HOW_TO}"
