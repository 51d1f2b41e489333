"""What the bot sends by itself, and the outbox where it stands until its fate is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ollim_bot.domain.chat import ChatMessage, MessageId


class Charge(StrEnum):
    """What a message costs of the ping budget; given back if it is known not to have been sent."""

    NOTHING = "nothing"
    TOKEN = "token"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Sending:
    """Written before anything is sent. The id of the message is what it is told apart by."""

    at: datetime
    message: ChatMessage
    charge: Charge = Charge.NOTHING


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
