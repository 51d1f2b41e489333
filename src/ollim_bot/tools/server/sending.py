"""How the tools send: a message of the run, paid for where it is the bot's own initiative."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace

from ollim_bot.agent import ToolAnswer
from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId, numbered_id
from ollim_bot.domain.orders import Order
from ollim_bot.domain.outgoing import ON_ITS_WAY, Charge
from ollim_bot.domain.ping_rules import Refused, charged, is_ordered
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.run_words import late_label
from ollim_bot.domain.runs import RefusedPing, Run
from ollim_bot.errors import NotSent
from ollim_bot.tools.server.bench import Workbench
from ollim_bot.tools.server.schemas import flag

CRITICAL = flag("true only for what cannot wait: skips the budget, once in a run")

# How long what the owner ordered lets the owner finish first, and how often it looks.
_PATIENCE = 120.0
_GLANCE = 1.0

_REMINDED = (
    "The program has delivered this reminder already, because it was time. Leave what else there "
    "is to say with `report_updates`, or end without a message."
)


def message_of(
    bench: Workbench,
    words: str,
    *,
    card: Card | None = None,
    attachments: tuple[Attachment, ...] = (),
) -> ChatMessage:
    run, now = bench.run, bench.clock.now()
    return ChatMessage(
        _new_id(bench),
        now,
        Author.BACKGROUND if run.policy.kind.is_background else Author.ASSISTANT,
        words,
        attachments=attachments,
        session=run.session,
        card=card,
        footer=_lateness(bench),
        job=run.label,
        occurrence=run.occurrence,
    )


def _lateness(bench: Workbench) -> str:
    due = bench.run.late_since
    return "" if due is None else late_label(due, bench.clock.now())


def _new_id(bench: Workbench) -> MessageId:
    return numbered_id(bench.clock.now(), secrets.randbits(20))


async def sent(bench: Workbench, message: ChatMessage, *, is_critical: bool) -> ToolAnswer:
    """Only what a background run sends is a ping: everything else is part of a conversation."""
    if bench.run.policy.kind.is_background:
        return await _pinged(bench, message, is_critical=is_critical)
    try:
        await bench.poster.send(message, bench.run)
    except NotSent as failed:
        return _not_sent(failed)
    bench.run.pings.append(message.id)
    return _said(bench, message)


async def _pinged(bench: Workbench, message: ChatMessage, *, is_critical: bool) -> ToolAnswer:
    config = await asyncio.to_thread(bench.stores.config.read)
    run = bench.run
    if is_ordered(run) and not is_critical and await _waited(bench):
        now, footer = bench.clock.now(), _lateness(bench)
        message = replace(message, id=_new_id(bench), at=now, footer=footer)
    payment = _PaymentOfPing(bench, run, message, is_critical, config.critical_daily_cap)
    try:
        await bench.poster.send(message, run, payment.pay)
    except NotSent as failed:
        payment.take_back()
        return _not_sent(failed)
    if payment.refusal:
        run.refused_pings.append(RefusedPing(payment.refusal, message.text))
        return ToolAnswer(payment.refusal, is_error=True)
    return _said(bench, message)


async def _waited(bench: Workbench) -> bool:
    """Let the answer to the owner end first, within reason; False if there was none to wait for."""
    clock, has_waited = bench.clock, False
    latest = clock.monotonic() + _PATIENCE
    while bench.is_busy() and clock.monotonic() < latest:
        await clock.sleep(_GLANCE)
        has_waited = True
    return has_waited


@dataclass(slots=True)
class _PaymentOfPing:
    """Counts for the run as soon as it is paid, so that two calls at once are not both the first.

    `refusal` is why it was not paid, if it was not.
    """

    bench: Workbench
    run: Run
    message: ChatMessage
    is_critical: bool
    daily_cap: int
    refusal: str = ""
    charge: Charge | None = None
    order: Order | None = None

    def pay(self, budget: PingBudget) -> tuple[PingBudget, Charge | None]:
        order = self.run.order if is_ordered(self.run) else None
        after, verdict = charged(
            budget,
            self.run,
            self.bench.clock.now(),
            wants_critical=self.is_critical,
            is_busy=self.bench.is_busy(),
            daily_cap=self.daily_cap,
        )
        if isinstance(verdict, Refused):
            self.refusal = verdict.reason
            return after, None
        if order is not None and not order.take():
            self.refusal = _REMINDED
            return budget, None
        self.order = order
        self.charge = verdict.charge
        self.run.critical_used |= verdict.charge is Charge.CRITICAL
        self.run.pings.append(self.message.id)
        return after, verdict.charge

    def take_back(self) -> None:
        """For the run alone; what was paid is given back by whoever could not send it."""
        if self.charge is not None:
            self.run.pings.remove(self.message.id)
            self.run.critical_used &= self.charge is not Charge.CRITICAL
            if self.order is not None:
                self.order.give_back()


def _not_sent(failed: NotSent) -> ToolAnswer:
    return ToolAnswer(f"It could not be sent: {failed}", is_error=True)


def _said(bench: Workbench, message: ChatMessage) -> ToolAnswer:
    is_on_its_way = bench.poster.is_on_its_way(message.id)
    return ToolAnswer(ON_ITS_WAY if is_on_its_way else "Sent.")
