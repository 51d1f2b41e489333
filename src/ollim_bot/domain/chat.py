"""What was said on the surfaces, by whom: the one message log that all of them show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

from ollim_bot.domain.cards import Card
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.taint import Untrusted

MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)

# How the ids of messages begin that a button, or a command, sends in the owner's name.
OF_CLICK = "click-"
OF_SET_UP = "setup-"

# How the ids of greetings begin.
OF_GREETING = "greeting-"

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_UNREAD = {
    "audio": "I cannot listen to voice messages and other recordings",
    "video": "I cannot watch videos",
    "image": "I can see PNG, JPEG, GIF and WebP pictures only",
}


class Author(StrEnum):
    OWNER = "owner"
    ASSISTANT = "assistant"
    BACKGROUND = "background"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message; `path` is where it stands below the data directory.

    `media_type` is what the content says, whatever the sender said.
    """

    name: str
    path: str
    media_type: str
    size: int

    @property
    def is_image(self) -> bool:
        """Whether the model can be given it as a picture."""
        return self.media_type in IMAGES

    @property
    def unread_note(self) -> str:
        """What has to be said about a file that the agent can make nothing of; else empty."""
        kind = self.media_type.partition("/")[0]
        if self.is_image or kind not in _UNREAD:
            return ""
        return f"{_UNREAD[kind]}; {self.path} is kept."


@dataclass(frozen=True, slots=True)
class Spent:
    """What a turn cost, and how much of the model's window the conversation then filled."""

    cost_usd: float = 0.0
    context: int = 0
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message, as it stays. `turn` is set on what a turn of the agent brought forth.

    `is_cut_off` marks an answer that was interrupted or could not be finished. `footer` is a small
    line below it, such as how full the context is. `job` names the background run that said it.
    `in_fork` marks what was said in an interactive fork, by whomever; `occurrence` names the due
    moment of a job that it was said for. `refs` has the id that each surface gave to it.
    `untrusted` marks what the owner sent and did not write, and `is_typed` what the owner wrote.
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
    footer: str = ""
    card: Card | None = None
    job: str = ""
    in_fork: bool = False
    occurrence: str = ""
    refs: Mapping[str, str] = field(default_factory=dict)
    untrusted: Untrusted | None = None

    @property
    def is_typed(self) -> bool:
        """A button says what it was told to say, whoever presses it."""
        is_button = self.id.startswith((OF_CLICK, OF_SET_UP))
        return self.author is Author.OWNER and self.untrusted is None and not is_button


def numbered_id(now: datetime, chance: int) -> MessageId:
    """An id that is a number, in the order of time: for what may be replied to from elsewhere."""
    milliseconds = int(now.timestamp() * 1000)
    return MessageId(str((milliseconds << 20) | (chance & 0xFFFFF)))
