"""What is remembered about Discord across restarts, written in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from functools import partial

from ollim_bot.domain.surface_state import DiscordState
from ollim_bot.domain.text import shortened
from ollim_bot.errors import StorageError
from ollim_bot.store.steps import leave_notice, new_notice
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction
from ollim_bot.surfaces.discord.rendering import ReceivedMessage

_Change = Callable[[DiscordState], DiscordState]

_logger = logging.getLogger(__name__)


class DiscordFacts:
    """Changes return at once; `run` writes them to disk, all pending ones together.

    Reading gives the newest value, written or not, and raises `StorageError`. A crash may lose the
    last changes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # One change per key, so that changes do not pile up while the disk refuses writes.
        self._unwritten: dict[str, _Change] = {}
        self._newest = "0"
        self._is_wanted = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    async def last_seen(self) -> str | None:
        return (await self._now()).last_seen

    def saw(self, ref: str) -> None:
        """Note that this message, and all before it, need not be read again."""
        newest = self._newest = max(self._newest, ref, key=int)
        self._note("seen", lambda state: state.seen(newest))

    async def passed_over(self, missed: Sequence[ReceivedMessage]) -> Set[str]:
        """The ids of the messages that the bot may have answered before it lost its newest state.

        They are told in one notice, once, and count as seen. Raises `StorageError`.
        """
        until = (await self._now()).told_until
        if until is None:
            return frozenset()
        old = [seen for seen in missed if int(seen.ref) <= int(until)]
        notice = new_notice(said_since(old), key=f"said until {until}", for_reminder=True)

        def step(tx: Transaction) -> None:
            if old:
                leave_notice(tx, notice, tx.now)
            tx.discord.change(lambda state: state.having_told())

        await self._store.transact(step)
        return {seen.ref for seen in old}

    async def commands_hash(self) -> str | None:
        return (await self._now()).commands

    def keep_commands_hash(self, mark: str) -> None:
        self._note("commands", lambda state: state.with_commands(mark))

    async def drafts(self) -> tuple[str, ...]:
        return (await self._now()).drafts

    def add_draft(self, ref: str) -> None:
        self._note(f"draft {ref}", lambda state: state.with_draft(ref))

    def remove_draft(self, ref: str) -> None:
        self._note(f"draft {ref}", lambda state: state.without_draft(ref))

    async def run(self) -> None:
        """Run until cancelled. A failed write is repeated with the next change."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            await self.flush()

    async def flush(self) -> bool:
        """Write the changes; True if all of them are on disk."""
        async with self._one_at_a_time:
            changes = dict(self._unwritten)
            if not changes:
                return True
            try:
                step = partial(_changed, changes=tuple(changes.values()))
                await self._store.transact(lambda tx: tx.discord.change(step))
            except StorageError:
                _logger.warning("What is known of Discord could not be kept", exc_info=True)
                return False
            for about, change in changes.items():
                if self._unwritten.get(about) is change:
                    del self._unwritten[about]
            return True

    async def _now(self) -> DiscordState:
        state = await self._store.read(lambda tx: tx.discord.get())
        return _changed(state, tuple(self._unwritten.values()))

    def _note(self, about: str, change: _Change) -> None:
        self._unwritten.pop(about, None)
        self._unwritten[about] = change
        self._is_wanted.set()


def said_since(messages: Sequence[ReceivedMessage]) -> str:
    shown = [f"“{_words(seen)}”" for seen in messages[-10:]]
    more = len(messages) - len(shown)
    listed = "; ".join((*([f"{more} more"] if more else []), *shown))
    return (
        f"Since this copy you wrote on Discord: {listed}. None of it is answered again. Ask again "
        "for what is still wanted."
    )


def _words(seen: ReceivedMessage) -> str:
    """The owner's words. Words of others are not quoted: the agent reads this outside a fence."""
    if seen.forwarded is not None:
        return "a forwarded message"
    line = " ".join(seen.text.split()) or ", ".join(file.name for file in seen.files)
    return shortened(line, 80)


def _changed(state: DiscordState, changes: tuple[_Change, ...]) -> DiscordState:
    for change in changes:
        state = change(state)
    return state
