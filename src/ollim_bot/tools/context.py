"""What the bot's own tools work with, and their argument schemas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.pings import PingBudget, Verdict
from ollim_bot.domain.runs import Intent, Run
from ollim_bot.ports import Clock
from ollim_bot.stores import Stores

Schema = dict[str, object]


def arguments(required: Sequence[str] = (), **properties: Schema) -> Schema:
    """All arguments of a tool; no others are let in."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text(about: str) -> Schema:
    return {"type": "string", "description": about}


def choice(about: str, values: Sequence[str]) -> Schema:
    return {"type": "string", "description": about, "enum": list(values)}


def flag(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def whole(about: str, low: int) -> Schema:
    return {"type": "integer", "description": about, "minimum": low}


def whole_of(value: object) -> int | None:
    """The value given for a `whole`; in JSON Schema, 3.0 is a whole number too."""
    return int(value) if isinstance(value, int | float) else None


def number(about: str) -> Schema:
    return {"type": "number", "description": about, "exclusiveMinimum": 0}


def listed(about: str, item: Mapping[str, object]) -> Schema:
    return {"type": "array", "description": about, "items": dict(item)}


# May be called more than once for one payment, and changes nothing but what it returns.
Payment = Callable[[PingBudget], tuple[PingBudget, Verdict]]


class Arrival(StrEnum):
    SENT = "sent"
    ON_ITS_WAY = "on its way"


class Poster(Protocol):
    """Sends what a run has to say, so that it is neither lost nor doubled."""

    async def send(self, message: ChatMessage, run: Run, pay: Payment | None = None) -> Verdict:
        """Say it for `run`, so that a reply finds the way back to its session.

        The payment and the message are one step; nothing is sent where `pay` refuses. Raises
        `NotKept` where the disk has no room.
        """

    async def arrival(self, message_id: MessageId) -> Arrival:
        """Wait a moment for the channels to confirm what was sent.

        Raises `NotSent` where all of them refuse it; then the payment is given back.
        """

    async def budget(self) -> PingBudget:
        """The ping budget as it was last charged."""


async def _nothing(_: Intent) -> None:
    """A background run has no conversation that it could change."""


@dataclass(slots=True)
class ToolContext:
    """`run` may change from turn to turn of one session; `root` is the data directory.

    `is_busy` says whether the owner is being answered now. `wants` takes what shall happen to the
    conversation when this turn has ended, and keeps it through a crash. `pinging` is held while a
    ping of the run is being paid for, so that two at once are not both the first.
    """

    run: Run
    stores: Stores
    clock: Clock
    root: Path
    poster: Poster
    is_busy: Callable[[], bool]
    wants: Callable[[Intent], Awaitable[None]] = _nothing
    pinging: asyncio.Lock = field(default_factory=asyncio.Lock)
