"""Delivers reminders, routines and the calls of plain jobs without any model."""

from __future__ import annotations

import logging
from datetime import datetime

from ollim_bot.conversation.chat_sessions import main_run
from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.due_items import delivery_id, item_message
from ollim_bot.domain.jobs import CalledJob
from ollim_bot.domain.lateness import is_late
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.pings import Charge
from ollim_bot.domain.run_history import PLAINLY
from ollim_bot.domain.runs import DeliveryRight, late_label, taint_of_job
from ollim_bot.domain.schedule import ScheduledJob, key_of
from ollim_bot.domain.taint import marked_taint, untrusted_label, untrusted_message
from ollim_bot.domain.text import shortened
from ollim_bot.domain.updates import PendingUpdate
from ollim_bot.domain.webhook_data import has_words_of_sender, plain_text
from ollim_bot.domain.webhooks import AcceptedCall
from ollim_bot.errors import DeliveryFailed, NotStored
from ollim_bot.ports import Clock
from ollim_bot.store.messages import Sender
from ollim_bot.store.steps import leave_update
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_NOT_KEPT = "The disk cannot be written, so this is not kept."
_BUDGET_USED_UP = "the ping budget is used up"
_LONGEST_IN_UPDATE = 500

_logger = logging.getLogger(__name__)


class PlainDelivery:
    """Delivers what must be delivered exactly once.

    On a full disk it is only shown, and stays owed until the log has it.
    """

    def __init__(self, store: Store, poster: MessagePoster, gate: DiskGate, clock: Clock) -> None:
        self._store = store
        self._poster = poster
        self._gate = gate
        self._clock = clock
        self._shown: set[Occurrence] = set()

    async def deliver(
        self, job: ScheduledJob, occurrence: Occurrence, right: DeliveryRight, reason: str
    ) -> bool:
        """Deliver the text of the job; False if that failed for now.

        `reason` says why the program does it.
        """
        if not right.take() and occurrence not in self._shown:
            return True
        now = self._clock.now()
        message, item = item_message(job, occurrence, now, reason)
        try:
            # What need not come waits for the end of the quiet; of one job, only the newest. What
            # the owner runs by hand does not.
            waits_as = None if job.must or occurrence.manual else f"plain {key_of(job)}"
            await self._poster.send(message, main_run(now), item=item, waits_as=waits_as)
            await self._poster.arrival(message.id)
        except NotStored:
            await self._show(job, occurrence)
            return False
        except DeliveryFailed:
            _logger.warning("A reminder could not be delivered", exc_info=True)
            right.give_back()
            return False
        self._shown.discard(occurrence)
        return True

    async def was_said(self, occurrence: Occurrence) -> bool:
        """Whether the log has a message for the occurrence, from the agent or from the program."""
        return bool(await self._store.read(lambda tx: tx.messages.of_occurrence(occurrence.id)))

    async def flash(self, job: ScheduledJob, occurrence: Occurrence, right: DeliveryRight) -> None:
        """Show the text although it cannot be stored: a full disk must not swallow it."""
        if right.take() or occurrence in self._shown:
            await self._show(job, occurrence)

    async def _show(self, job: ScheduledJob, occurrence: Occurrence) -> None:
        self._shown.add(occurrence)
        now, words = self._clock.now(), job.spec.words
        name = delivery_id(occurrence)
        called = job.spec.short_title
        message = ChatMessage(name, now, Author.BACKGROUND, words, footer=_NOT_KEPT, job=called)
        await self._poster.show_unkept(message)

    async def deliver_call(self, hook: CalledJob, occurrence: Occurrence) -> None:
        """Post the text of the call for one token of the ping budget, and end the occurrence.

        While it is quiet, the message waits for the digest. Without a token the text is left for
        the agent. All of it is one step, so that no crash leads to a second message.
        """
        await self._gate.commit(lambda tx: self._deliver_call(tx, hook, occurrence))

    def _deliver_call(self, tx: Transaction, hook: CalledJob, occurrence: Occurrence) -> None:
        message = _message(hook, occurrence, tx.webhook_deliveries.get(occurrence), tx.now)
        facts: dict[str, object] = {"job": hook.spec.title, "untrusted": taint_of_job(hook).mark}
        state = OccurrenceState.DONE
        if tx.budget.take(lambda budget: budget.spent_by(occurrence.id, tx.now)):
            self._poster.hold_or_add(tx, message, Sender(Charge.TOKEN))
            facts |= {**PLAINLY, "pings": [message.id]}
        else:
            unsaid = _unsaid(message, hook)
            leave_update(tx, unsaid)
            why = {"silent_because": _BUDGET_USED_UP, "report": unsaid.message}
            state, facts = (
                OccurrenceState.SKIPPED,
                facts | {"reason": SkipReason.BUDGET.value, **why},
            )
        tx.ledger.append(LedgerRow(tx.now, state.value, occurrence, facts))


def _message(
    hook: CalledJob, occurrence: Occurrence, call: AcceptedCall | None, now: datetime
) -> ChatMessage:
    body, data = hook.spec.message, call.fields if call else {}
    # Words that the owner wrote are the owner's, whoever calls.
    is_from_sender = has_words_of_sender(body, hook.fields, data)
    taint = taint_of_job(hook) if is_from_sender else marked_taint(hook.spec.untrusted)
    late = late_label(call.at, now, is_call=True) if call and is_late(call.at, now) else ""
    return ChatMessage(
        delivery_id(occurrence),
        now,
        Author.BACKGROUND,
        plain_text(body, data),
        footer=" ".join(filter(None, (late, untrusted_label(taint)))),
        # Without a description, the title would be the text itself.
        job=hook.spec.short_title if hook.spec.description else hook.spec.id,
        occurrence=occurrence.id,
        untrusted=untrusted_message(taint),
    )


def _unsaid(message: ChatMessage, hook: CalledJob) -> PendingUpdate:
    """One update for each hook: its callers decide how often this happens."""
    text = shortened(" ".join(message.text.split()), _LONGEST_IN_UPDATE)
    said = f"“{message.job}” was called and not shown, because {_BUDGET_USED_UP}. Its text: {text}"
    source = message.untrusted.source if message.untrusted else ""
    return PendingUpdate(message.at, said, f"budget {hook.spec.id}", source)
