"""The messages that the bot sends, and the outbox that keeps each until its outcome is known."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.domain.sessions import SessionId

ON_ITS_WAY = "It is on its way; the service does not answer now."

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sending:
    """Written before anything is sent; later rows name it by the id of its message.

    `payment` is the number of its payment, 0 if it cost nothing. `fork` is its session, unless that
    is the main one; the id of such a message is a number.
    """

    at: datetime
    message: ChatMessage
    charge: Charge = Charge.NOTHING
    payment: int = 0
    fork: SessionId | None = None
    parent: SessionId | None = None

    def __post_init__(self) -> None:
        if self.fork is not None and as_number(self.message.id) is None:
            raise ValueError("the id of a fork's message is not a number")

    def paid(self, budget: PingBudget, now: datetime) -> PingBudget:
        """The budget after the payment, which counts once however often this is called."""
        if budget.payments >= self.payment:
            return budget
        if self.charge is Charge.CRITICAL:
            after, _ = budget.critical_spent(now, sys.maxsize)
        else:
            after, _ = budget.spent_by(self.message.occurrence, now)
        return replace(after, payments=self.payment)

    def is_paid(self, budget: PingBudget) -> bool:
        return 0 < self.payment <= budget.payments

    def given_back(self, budget: PingBudget, now: datetime) -> PingBudget:
        """The budget with the cost of this message, if it was paid for."""
        if not self.is_paid(budget):
            return budget
        if self.charge is Charge.CRITICAL:
            return budget.critical_given_back(now)
        return budget.given_back(now)


@dataclass(frozen=True, slots=True)
class Tried:
    """Written before a part of the message is passed to a service.

    Written again for the same part only if that part certainly did not arrive. `refs` are the
    service's ids of the earlier parts, which have arrived.
    """

    at: datetime
    id: MessageId
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """`ref` is the id of the message where it was delivered; empty for our own log."""

    at: datetime
    id: MessageId
    ref: str = ""


@dataclass(frozen=True, slots=True)
class NotSent:
    """`refund` is the number under which its payment is returned, 0 if it cost nothing.

    `service` is the service that refused it, for the owner to be told; empty if our own disk did.
    """

    at: datetime
    id: MessageId
    reason: str
    refund: int = 0
    service: str = ""

    def refunded(self, sending: Sending, budget: PingBudget, now: datetime) -> PingBudget:
        """The budget with the cost, which is returned once however often this is called."""
        if budget.payments >= self.refund:
            return budget
        return replace(sending.given_back(budget, now), payments=self.refund)


@dataclass(frozen=True, slots=True)
class Unsure:
    """The message may or may not have been sent; it is not sent again.

    `service` is the service that cannot tell, for the owner to be told.
    """

    at: datetime
    id: MessageId
    service: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """The failure is dealt with: the payment is returned, and the owner is told."""

    at: datetime
    id: MessageId


Failure = NotSent | Unsure
OutboxRow = Sending | Tried | Sent | Failure | Settled


def as_number(text: str) -> int | None:
    """The text as the number of a message, ours or a service's; None if it cannot be one."""
    is_short = len(text) <= len(str(_LARGEST))
    if not (is_short and text.isascii() and text.isdecimal()):
        return None
    return int(text) if int(text) <= _LARGEST else None


@dataclass(frozen=True, slots=True)
class Outbox:
    """The messages without an outcome, in order, with the last try of each.

    `unsettled` are the failed ones whose payment is not returned, or of which the owner is not
    told.
    """

    open: tuple[Sending, ...] = ()
    tries: tuple[Tried, ...] = ()
    unsettled: tuple[tuple[Sending, Failure], ...] = ()

    @classmethod
    def of(cls, rows: Iterable[OutboxRow]) -> Outbox:
        outbox = cls()
        for row in rows:
            outbox = outbox.after(row)
        return outbox

    def after(self, row: OutboxRow) -> Outbox:
        match row:
            case Sending():
                is_known = self._waiting(row.message.id) is not None
                return self if is_known else replace(self, open=(*self.open, row))
            case Tried():
                return self._tried(row)
            case Settled():
                left = tuple(each for each in self.unsettled if each[1].id != row.id)
                return replace(self, unsettled=left)
        return self._ended(row)

    def last_try(self, message_id: MessageId) -> Tried | None:
        return next((each for each in self.tries if each.id == message_id), None)

    def rows(self) -> tuple[OutboxRow, ...]:
        """The fewest rows with this result."""
        failures = (row for pair in self.unsettled for row in pair)
        return (*failures, *self.open, *self.tries)

    def _waiting(self, message_id: MessageId) -> Sending | None:
        return next((each for each in self.open if each.message.id == message_id), None)

    def _tried(self, row: Tried) -> Outbox:
        if self._waiting(row.id) is None:
            return self
        others = (each for each in self.tries if each.id != row.id)
        return replace(self, tries=(*others, row))

    def _ended(self, row: Sent | Failure) -> Outbox:
        sending = self._waiting(row.id)
        if sending is None:
            return self
        unsettled = self.unsettled
        if isinstance(row, NotSent | Unsure) and (row.service or _refund(row)):
            unsettled = (*unsettled, (sending, row))
        return Outbox(
            tuple(each for each in self.open if each is not sending),
            tuple(each for each in self.tries if each.id != row.id),
            unsettled,
        )


def _refund(row: Failure) -> int:
    return row.refund if isinstance(row, NotSent) else 0
