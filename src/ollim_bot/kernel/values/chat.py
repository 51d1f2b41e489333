"""Messages between the owner and the bot: one log, which all surfaces show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.taint import Untrusted

# The id prefixes of messages that a button, or a command, sends in the owner's name.
OF_CLICK = "click-"
OF_SET_UP = "setup-"
OF_RETRY = "retry-"

# The id prefix of greetings.
OF_GREETING = "greeting-"

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

_UNREAD = {
    "audio": "I cannot hear voice messages and other recordings yet",
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
    """A file that came with a message; `path` is relative to the data directory.

    `media_type` is detected from the content, not taken from the sender.
    """

    name: str
    path: str
    media_type: str
    size: int

    @property
    def is_image(self) -> bool:
        """Whether the model can see it as a picture."""
        return self.media_type in IMAGES

    @property
    def unread_note(self) -> str:
        """The sentence about a file that the agent cannot use; empty for any other file."""
        kind = self.media_type.partition("/")[0]
        if self.is_image or kind not in _UNREAD:
            return ""
        return f"{_UNREAD[kind]}; {self.path} is kept."


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The cost of a turn, and how much of the model's window the conversation then filled."""

    cost_usd: float = 0.0
    context: int = 0
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of the log. `turn` is set on messages that a turn of the agent produced.

    `began` is when the first words of an answer came: it is shown above what arrived after them.
    `is_cut_off` marks an answer that was interrupted or could not be finished. `footer` is a small
    line below it, such as how full the context is. `job` names the background run that sent it.
    `in_fork` marks a message of an interactive fork. `occurrence` names the due moment of the job
    that it belongs to. `refs` has the id that each surface gave it. `untrusted` marks a text that
    the owner sent and did not write, or that a run wrote after it had read untrusted text. `pings`
    are the pings that a digest has as lines. `must` marks what the owner ordered to be delivered.
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
    spent: TurnCost | None = None
    footer: str = ""
    card: Card | None = None
    job: str = ""
    in_fork: bool = False
    occurrence: str = ""
    refs: Mapping[str, str] = field(default_factory=dict)
    untrusted: Untrusted | None = None
    began: datetime | None = None
    pings: tuple[MessageId, ...] = ()
    must: bool = False

    @property
    def is_typed(self) -> bool:
        """Whether the owner wrote the text. A pressed button sends a stored text."""
        is_button = self.id.startswith((OF_CLICK, OF_SET_UP, OF_RETRY))
        return self.author is Author.OWNER and self.untrusted is None and not is_button


def numbered_id(now: datetime, chance: int) -> MessageId:
    """A numeric id in order of time, for messages that other services may refer to."""
    milliseconds = int(now.timestamp() * 1000)
    return MessageId(str((milliseconds << 20) | (chance & 0xFFFFF)))


ON_ITS_WAY = "It is on its way; the service does not answer now."

_LARGEST = 2**63 - 1


def as_number(text: str) -> int | None:
    """The text as the number of a message, ours or a service's; None if it cannot be one."""
    is_short = len(text) <= len(str(_LARGEST))
    if not (is_short and text.isascii() and text.isdecimal()):
        return None
    return int(text) if int(text) <= _LARGEST else None
