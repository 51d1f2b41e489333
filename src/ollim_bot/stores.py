"""Every store that the program has, as seams: one bundle, whatever is behind them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.fork_messages import ForkMessage
from ollim_bot.domain.inputs import InboxRow
from ollim_bot.domain.inquiries import Inquiries
from ollim_bot.domain.jobs import Reminder, Routine, WebhookSpec
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.sessions import SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.ports import Log, Shelf, Store


@dataclass(frozen=True, slots=True)
class Stores:
    session: Store[SessionId | None]
    session_history: Log[SessionEvent]
    updates: Store[PendingUpdates]
    fork_messages: Store[tuple[ForkMessage, ...]]
    inquiries: Store[Inquiries]
    pings: Store[PingBudget]
    config: Store[RuntimeConfig]
    memory: Store[Mapping[str, object]]
    ledger: Log[LedgerRow]
    inbox: Log[InboxRow]
    messages: Log[ChatMessage]
    routines: Shelf[Routine]
    reminders: Shelf[Reminder]
    webhooks: Shelf[WebhookSpec]

    def leave_update(self, message: str, now: datetime) -> None:
        """Leave a summary for the main session.

        What has to give way to it stays readable in the ledger.
        """
        update = PendingUpdate(now, message, os.urandom(4).hex())

        def step(pending: PendingUpdates) -> tuple[PendingUpdates, None]:
            after, dropped = pending.appended(update)
            # In the ledger first: a crash in between repeats a row there and loses nothing.
            facts = ({"message": old.message} for old in dropped)
            self.ledger.append(*(LedgerRow(now, "update_dropped", facts=each) for each in facts))
            return after, None

        self.updates.transact(step)
