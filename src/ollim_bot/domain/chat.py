"""What was said on the surfaces, by whom: the one message log that all of them show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from ollim_bot.domain.sessions import SessionId

MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)


class Author(StrEnum):
    OWNER = "owner"
    ASSISTANT = "assistant"
    BACKGROUND = "background"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message; `path` is where it stands below the data directory."""

    name: str
    path: str
    media_type: str
    size: int

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a turn cost, and how much of the model's window the conversation then filled."""

    cost_usd: float = 0.0
    context: int = 0
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message, as it stays. `turn` is set on what a turn of the agent brought forth.

    `refs` has the id that each surface gave to it. `is_cut_off` marks an answer that was
    interrupted or could not be finished.
    """

    id: MessageId
    at: datetime
    author: Author
    text: str
    reply_to: MessageId | None = None
    attachments: tuple[Attachment, ...] = ()
    turn: TurnId | None = None
    session: SessionId | None = None
    is_cut_off: bool = False
    spent: Spent | None = None
    refs: Mapping[str, str] = field(default_factory=dict)
