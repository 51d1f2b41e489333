"""Brings what had to wait when the quiet ends."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime

from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.digest import Digest, HeldMessage, HeldMessages, digest_of
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.quiet import is_quiet, quiet_until
from ollim_bot.domain.run_history import RELEASED
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.messages import Sender
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# The wall clock may be set, or the machine may sleep.
_LONGEST_SLEEP = 30.0
_BETWEEN_TRIES = 5.0
_CAUSES = frozenset({"held", "quiet", "config"})

_logger = logging.getLogger(__name__)


class QuietDigest:
    """Posts everything that waited as one digest, once, and never during a turn."""

    def __init__(
        self, store: Store, state: ConversationState, poster: MessagePoster, clock: Clock
    ) -> None:
        self._store = store
        self._state = state
        self._poster = poster
        self._clock = clock
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Post each digest when its quiet ends, until cancelled."""
        unsubscribe = self._store.subscribe(self._note_change)
        try:
            while True:
                self._changed.clear()
                try:
                    await self._post_or_wait()
                except StorageError:
                    _logger.warning("The digest has to wait", exc_info=True)
                    await self._store.until_writable()
                    await self._clock.sleep(_BETWEEN_TRIES)
        finally:
            unsubscribe()

    async def _post_or_wait(self) -> None:
        now = self._clock.now()
        has_held, until = await self._store.read(
            lambda tx: (bool(tx.held.get().waiting), quiet_until(quiet_settings(tx), now))
        )
        if not has_held:
            await self._changed.wait()
        elif until is not None:
            await self._pause(min(_LONGEST_SLEEP, elapsed(now, until).total_seconds()))
        else:
            await self._state.until_idle()
            now = self._clock.now()
            await self._store.transact(lambda tx: self._add_digest(tx, now))

    def _add_digest(self, tx: Transaction, now: datetime) -> None:
        held = tx.held.get().waiting
        if not held or is_quiet(quiet_settings(tx), now):
            return
        digest = digest_of(held, now)
        self._poster.add_to_log(tx, digest.message, Sender(digest.charge))
        for each in digest.following:
            self._poster.add_to_log(tx, each.message, Sender(each.charge, each.fork, each.parent))
        tx.held.put(HeldMessages())
        due = (each for each in held if each.message.occurrence)
        tx.ledger.append(*(_released(each, digest, now) for each in due))

    async def _pause(self, seconds: float) -> None:
        alarm = asyncio.ensure_future(self._clock.sleep(seconds))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({alarm, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            change.cancel()

    def _note_change(self, changed: frozenset[str]) -> None:
        if changed & _CAUSES:
            self._changed.set()


def _released(held: HeldMessage, digest: Digest, now: datetime) -> LedgerRow:
    facts = {"message": held.message.id, "digest": digest.message.id}
    return LedgerRow(now, RELEASED, Occurrence.parse(held.message.occurrence), facts)
