"""The rows of the outbox, and what hangs on them: the payment, and the way back to a session."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from ollim_bot import errors
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.forks import ForkMessage, with_fork_message
from ollim_bot.domain.outgoing import (
    Failure,
    NotSent,
    Outbox,
    OutboxRow,
    Sending,
    Sent,
    Settled,
    Tried,
    Unsure,
    as_number,
)
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores
from ollim_bot.tools.context import Payment

_LONG = 400

_logger = logging.getLogger(__name__)


class PostBook:
    """Waits for the disk, so that the event loop calls it through threads."""

    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock
        self._rows = 0

    def load(self) -> Outbox:
        """What has no end yet; the rest is done with."""
        try:
            self._stores.outbox.compact(_fewest)
        except errors.StorageError:  # a full disk, say: it only stays longer than it need be
            _logger.warning("The outbox could not be made shorter", exc_info=True)
        return Outbox.of(self._stores.outbox.read().entries)

    def begin(
        self, sending: Sending, pay: Payment | None, tried: Tried | None = None
    ) -> Sending | None:
        """Put it into the outbox, if it can be paid for; `tried` is what was done before that.

        The row comes first: it has the number of the payment, by which a crash before the payment
        is told from one after it.
        """
        if pay is None:
            self._stores.outbox.append(sending, *([] if tried is None else [tried]))
            return sending
        begun: list[Sending] = []

        def step(budget: PingBudget) -> tuple[PingBudget, None]:
            after, charge = pay(budget)
            if charge is None:
                return after, None
            number = 0 if charge is Charge.NOTHING else after.payments + 1
            row = replace(sending, charge=charge, payment=number)
            self._stores.outbox.append(row)
            begun.append(row)
            return replace(after, payments=max(after.payments, number)), None

        try:
            self._stores.pings.transact(step)
        except errors.StorageError as refused:
            if not begun or self.take_back(begun[0], str(refused)) is not None:
                raise
        return begun[0] if begun else None

    def complete(self, sending: Sending) -> None:
        """What comes before the message is seen, if it has not come yet."""
        if sending.payment:
            now = self._clock.now()
            self._stores.pings.transact(lambda budget: (sending.paid(budget, now), None))
        self.remember(sending)

    def remember(self, sending: Sending, refs: Sequence[str] = ()) -> None:
        """Let a reply to it find its session, by our number and by those that it has elsewhere.

        Ours is there before the message is seen, so that even the first reply finds it.
        """
        if sending.fork is None:
            return
        numbers = [as_number(each) for each in (sending.message.id, *refs)]
        sent, now = sending.at.timestamp(), self._clock.now().timestamp()

        def step(known: tuple[ForkMessage, ...]) -> tuple[tuple[ForkMessage, ...], None]:
            for number in numbers:
                if number is not None and sending.fork is not None:
                    record = ForkMessage(number, sending.fork, sending.parent, sent)
                    known = with_fork_message(known, record, now)
            return known, None

        self._stores.fork_messages.transact(step)

    def note_try(self, message_id: MessageId, refs: tuple[str, ...]) -> Tried:
        row = Tried(self._clock.now(), message_id, refs)
        self._append(row)
        return row

    def take_back(self, sending: Sending, reason: str, service: str = "") -> NotSent | None:
        """It was not sent, and costs nothing. None if not even that can be written down.

        The row comes first, as with the payment, and has the number of the refund.
        """
        row = NotSent(self._clock.now(), sending.message.id, reason, service=service)
        written: list[NotSent] = []

        def step(budget: PingBudget) -> tuple[PingBudget, None]:
            number = budget.payments + 1 if sending.is_paid(budget) else 0
            numbered = replace(row, refund=number)
            self._append(numbered)
            written.append(numbered)
            return numbered.refunded(sending, budget, row.at), None

        try:
            if not sending.payment:
                self._append(row)
                return row
            self._stores.pings.transact(step)
            if written[0].refund and not service:
                self.settle(written[0])
        except errors.StorageError:
            _logger.exception("That a message was not sent could not be written down whole")
        return written[0] if written else None

    def give_up(self, sending: Sending, service: str) -> Unsure:
        """It may have arrived: so it is not repeated, and what it cost stays spent."""
        row = Unsure(self._clock.now(), sending.message.id, service)
        self._append(row)
        return row

    def refund(self, sending: Sending, failure: Failure) -> None:
        """Give back what a crash has kept from being given back."""
        if isinstance(failure, NotSent) and failure.refund:
            now = self._clock.now()
            self._stores.pings.transact(
                lambda budget: (failure.refunded(sending, budget, now), None)
            )

    def settle(self, failure: Failure) -> None:
        self._append(Settled(self._clock.now(), failure.id))

    def confirm(self, message_id: MessageId, ref: str = "") -> None:
        """Where that cannot be written down, the next start finds out."""
        try:
            self._append(Sent(self._clock.now(), message_id, ref))
            if self._rows > _LONG:
                self._stores.outbox.compact(_fewest)
                self._rows = 0
        except errors.StorageError:
            _logger.exception("That a message was sent could not be written down")

    def _append(self, row: OutboxRow) -> None:
        self._stores.outbox.append(row)
        # Each has a row from when it was begun, too.
        self._rows += 2 if isinstance(row, Sent | NotSent | Unsure) else 1


def _fewest(rows: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    return Outbox.of(rows).rows()
