"""Every store that the program has, as seams: one bundle, whatever is behind them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ollim_bot.domain.cards import ButtonPrompt, ButtonPrompts
from ollim_bot.domain.definitions import Armed
from ollim_bot.domain.facts import Facts, Move
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.inbox import InboxRow
from ollim_bot.domain.initiative import Setter
from ollim_bot.domain.jobs import Reminder, Routine, WebhookSpec
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import History, checkpoint_row, reach_back
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.sessions import SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.ports import Log, Shelf, Store

# How many rows of the ledger a start reads at first; if they do not say enough, four times more.
_NEWEST = 512


class Claims(Protocol):
    """The right to begin an occurrence, which is given once among all threads and processes."""

    def claim(
        self, occurrence: Occurrence, now: datetime, facts: Mapping[str, object] | None = None
    ) -> bool:
        """Append `due` if the ledger has no row of the occurrence yet; True if it had none.

        `now` must be the moment at which it was found to be due: what is claimed before its time
        raises `ValueError`.
        """

    def claim_all(self, rows: Sequence[LedgerRow]) -> Set[Occurrence]:
        """The same for many at once, in one write, each with all of its rows that are given.

        Returns the occurrences of which there was no row.
        """


@dataclass(frozen=True, slots=True)
class Stores:
    session: Store[SessionId | None]
    session_history: Log[SessionEvent]
    updates: Store[PendingUpdates]
    fork: Store[Fork | None]
    inquiries: Store[ButtonPrompts]
    config: Store[RuntimeConfig]
    memory: Store[Mapping[str, object]]
    ledger: Log[LedgerRow]
    claims: Claims
    inbox: Log[InboxRow]
    routines: Shelf[Routine]
    reminders: Shelf[Reminder]
    webhooks: Shelf[WebhookSpec]

    def leave_update(self, message: str, now: datetime, update_id: str | None = None) -> None:
        """Leave a summary for the main session.

        What has to give way to it stays readable in the ledger. With an id that waits already, as
        after a crash, nothing is left.
        """
        update = PendingUpdate(now, message, update_id or os.urandom(4).hex())

        def step(pending: PendingUpdates) -> tuple[PendingUpdates, None]:
            if any(entry.id == update.id for entry in pending.entries):
                return pending, None
            after, dropped = pending.appended(update)
            # In the ledger first: a crash in between repeats a row there and loses nothing.
            facts = ({"message": old.message} for old in dropped)
            self.ledger.append(*(LedgerRow(now, "update_dropped", facts=each) for each in facts))
            return after, None

        self.updates.transact(step)

    def count_set(self, setter: Setter, now: datetime) -> str:
        """Note that a background run sets one more job; not empty is why it may not.

        `now` is in the owner's zone. It counts across processes and restarts.
        """

        def step(raw: Mapping[str, object]) -> tuple[Mapping[str, object], str]:
            facts = Facts(raw)
            after, refusal = facts.set_in_background.one_more(setter.run, now.date())
            return facts.with_set_in_background(after).raw, refusal

        return self.memory.transact(step)

    def store_inquiry(self, prompt: str, now: datetime, untrusted: tuple[str, ...] = ()) -> str:
        """Keep the prompt behind a button that is to be shown; gives the key that it carries."""
        inquiry = ButtonPrompt(os.urandom(4).hex(), prompt, now.timestamp(), untrusted)
        self.inquiries.transact(lambda known: (known.stored(inquiry), None))
        return inquiry.key

    def forget_inquiries(self, keys: Set[str]) -> None:
        """Those of buttons that were not shown after all."""
        if keys:
            self.inquiries.transact(lambda known: (known.without(keys), None))

    def recent_history(self) -> History:
        """At least all occurrences without an end; the cost does not grow with the history."""
        return History.of(self._newest_rows(reach_back))

    def keep_checkpoint(self, now: datetime, watched_until: datetime) -> None:
        """Note in the ledger what has no end yet, for the next start and for the ledger's check."""
        self.ledger.append(checkpoint_row(now, watched_until, self.recent_history()))

    def armed_jobs(self) -> Armed:
        """The jobs that are armed, read back to the last row that lists them all (`roster`)."""
        rows = self._newest_rows(lambda rows: Armed().followed_by(rows).rostered is not None)
        return Armed().followed_by(rows)

    def _newest_rows(
        self, are_enough: Callable[[Sequence[LedgerRow]], bool]
    ) -> Sequence[LedgerRow]:
        limit = _NEWEST
        while True:
            rows = self.ledger.tail(limit).entries
            if len(rows) < limit or are_enough(rows):
                return rows
            limit *= 4

    def change_provider(self, kind: str) -> bool:
        """Make `kind` the provider in use, and go on with the session that it had last.

        True if another one was in use before. Two files change, one after the other; after a crash
        in between, calling it again leads to the same end. Call it before the session is used.
        """
        before = Facts(self.memory.read()).provider
        while (move := self._begin_move(kind)) is not None:
            self._finish_move(move)
        return before not in (None, kind)

    def _begin_move(self, kind: str) -> Move | None:
        current = self.session.read()

        def step(raw: Mapping[str, object]) -> tuple[Mapping[str, object], Move | None]:
            facts = Facts(raw).moving_to(kind, current)
            return facts.raw, facts.moving

        return self.memory.transact(step)

    def _finish_move(self, move: Move) -> None:
        self.session.transact(lambda _: (move.next, None))
        self.memory.transact(lambda raw: (Facts(raw).moved().raw, None))
