"""What the bot sends by itself, and the outbox where it stands until its fate is known."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.sessions import SessionId

_LARGEST = 2**63 - 1


class Charge(StrEnum):
    """What a message costs of the ping budget; given back if it is known not to have been sent."""

    NOTHING = "nothing"
    TOKEN = "token"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Sending:
    """Written before anything is sent. The id of the message is what it is told apart by.

    `payment` is the number of its payment, 0 if it cost nothing. `fork` is the session that says
    it, unless that is the main one; the id of such a message is a number.
    """

    at: datetime
    message: ChatMessage
    charge: Charge = Charge.NOTHING
    payment: int = 0
    fork: SessionId | None = None
    parent: SessionId | None = None

    def __post_init__(self) -> None:
        if self.fork is not None and not _is_number(self.message.id):
            raise ValueError("the id of a fork's message is not a number")

    def paid(self, budget: PingBudget, now: datetime) -> PingBudget:
        """Having paid for this, exactly once however often it is asked."""
        if budget.payments >= self.payment:
            return budget
        if self.charge is Charge.CRITICAL:
            after, _ = budget.critical_spent(now, sys.maxsize)
        else:
            after, _ = budget.spent(now)
        return replace(after, payments=self.payment)

    def given_back(self, budget: PingBudget, now: datetime) -> PingBudget:
        """With what this had cost, if it was paid for."""
        if not 0 < self.payment <= budget.payments:
            return budget
        if self.charge is Charge.CRITICAL:
            return budget.critical_given_back(now)
        return budget.given_back(now)


@dataclass(frozen=True, slots=True)
class Sent:
    """`ref` is the id that it has where it was delivered; empty where that is our own log."""

    at: datetime
    id: MessageId
    ref: str = ""


@dataclass(frozen=True, slots=True)
class NotSent:
    at: datetime
    id: MessageId
    reason: str


@dataclass(frozen=True, slots=True)
class Unsure:
    """It may have been sent and cannot be found out: it is not sent again."""

    at: datetime
    id: MessageId


def _is_number(text: str) -> bool:
    is_short = len(text) <= len(str(_LARGEST))
    return is_short and text.isascii() and text.isdecimal() and int(text) <= _LARGEST


OutboxRow = Sending | Sent | NotSent | Unsure


@dataclass(frozen=True, slots=True)
class Outbox:
    """What was begun and has no end yet, in order."""

    open: tuple[Sending, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[OutboxRow]) -> Outbox:
        outbox = cls()
        for row in rows:
            outbox = outbox.after(row)
        return outbox

    def after(self, row: OutboxRow) -> Outbox:
        if isinstance(row, Sending):
            is_known = any(each.message.id == row.message.id for each in self.open)
            return self if is_known else replace(self, open=(*self.open, row))
        return replace(self, open=tuple(each for each in self.open if each.message.id != row.id))

    def rows(self) -> tuple[OutboxRow, ...]:
        """The fewest rows that amount to this."""
        return self.open
