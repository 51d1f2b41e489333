"""The seam to the owner: where messages come in, and the surfaces that show what happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from ollim_bot.domain.chat import Attachment, ChatMessage, MessageId, TurnId
from ollim_bot.domain.commands import CommandAnswer, CommandSpec
from ollim_bot.domain.events import AgentEvent
from ollim_bot.domain.inputs import InputId
from ollim_bot.domain.provider import Price
from ollim_bot.domain.taint import Untrusted

# Raises `OSError` or `ValueError` for what is gone, or not the owner's to see.
OpenAttachment = Callable[[Attachment], BinaryIO]


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file that a surface has fetched. The reception takes it over and moves it away."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as a surface got it.

    `id` is made by the sender, so that a repeated send is known for what it is. `quote` is the text
    of the message that it replies to, where only the surface knows that. `button` is the label of
    the button that was pressed, where the text is the prompt that was stored behind it.
    `untrusted` is set where the owner sends the text without having written it, and
    `untrusted_quote` where that is so of the quote.
    """

    id: InputId
    surface: str
    text: str
    reply_to: MessageId | None = None
    quote: str = ""
    files: tuple[IncomingFile, ...] = ()
    button: str = ""
    refs: Mapping[str, str] = field(default_factory=dict)
    untrusted: Untrusted | None = None
    untrusted_quote: Untrusted | None = None


@dataclass(frozen=True, slots=True)
class OpenFork:
    """The fork that the owner is in. `card` is the message whose buttons lead out of it."""

    topic: str
    card: MessageId


@dataclass(frozen=True, slots=True)
class Status:
    """What a surface shows about the bot itself. `provider` is in words: `offline model`.

    `trouble` is a sentence about another surface that does not work now.
    """

    provider: str
    is_offline: bool
    model: str
    is_busy: bool
    user_name: str
    bot_name: str
    version: str
    fork: OpenFork | None = None
    trouble: str = ""
    price: Price = Price.LISTED


@dataclass(frozen=True, slots=True)
class TurnStart:
    """A turn that begins to run, and the inputs that it is about."""

    turn: TurnId
    at: datetime
    inputs: tuple[InputId, ...]


class Reception(Protocol):
    """What a surface asks of the core."""

    async def receive(self, message: Incoming) -> ChatMessage:
        """When it returns, the message is on disk and will be answered; so it may be acknowledged.

        Sending the same id again changes nothing. Raises `OllimError` if it cannot be kept.
        """

    async def edit(self, input_id: InputId, text: str) -> bool:
        """True if the message was not taken yet, so that it will be taken as edited."""

    async def withdraw(self, input_id: InputId) -> bool:
        """True if the message was not taken yet, so that it will not be answered."""

    async def command(self, surface: str, line: str) -> CommandAnswer:
        """`/model sonnet` as it was typed. Returns when it is done; never raises `OllimError`."""

    async def click(self, surface: str, message_id: MessageId, custom_id: str) -> CommandAnswer:
        """A button of a card, by its `custom_id`. Returns when the click is on disk or done.

        A button that was used or has expired answers with a sentence and does nothing.
        """

    async def interrupt(self) -> bool:
        """Stop the turn that runs and drop nothing else. True if there was one."""

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        """Values that begin with, or else contain, what was typed; at most 25."""

    async def history(self, limit: int, before: MessageId | None = None) -> Sequence[ChatMessage]:
        """The newest messages, oldest first; with `before`, those that came before that one."""

    async def message(self, message_id: MessageId) -> ChatMessage | None:
        """One message of the log, however old; None if there is none."""

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        """The message that bears this id on a surface; None if that is not known."""

    async def missed_since(self, last: MessageId) -> Sequence[ChatMessage] | None:
        """What came after `last`, oldest first; None if that is too long ago to tell."""

    async def trouble(self, sentence: str) -> None:
        """Show on the other surfaces, while it lasts, what does not work on this one.

        Empty when it works again: then what has waited for it goes on at once. What the owner has
        to be told for good is told apart from this.
        """

    @property
    def commands(self) -> Sequence[CommandSpec]: ...

    @property
    def status(self) -> Status: ...


class ChatSurface(Protocol):
    """Where the owner and the bot meet.

    `post` and `present` must not wait for the outside world longer than a moment and must not
    raise: what cannot be shown now is the surface's own to show later.
    """

    name: str

    async def run(self, reception: Reception) -> None:
        """Serve until cancelled. When it raises, it is started again after a pause."""

    async def post(self, message: ChatMessage) -> None:
        """Show a message that is final and on disk.

        The answer of a turn that was presented comes here too, with its `turn`, and takes the
        place of what was shown of it.
        """

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Show a turn while it runs. The events end with a `TurnEnded`."""

    async def changed(self, status: Status) -> None:
        """The status is another one now."""


class Courier(Protocol):
    """A surface where a message is delivered when somebody else has confirmed it with an id.

    What the bot sends by itself is given to `deliver`, and to `ChatSurface.post` as well, which
    must not send it again. There it is known by its `refs`: the one under the name of the courier
    is empty while it is on its way, and then holds its ids over there, with spaces between them.

    Both calls should end within a minute; what takes longer is cancelled.
    """

    name: str

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        """The message as the service can take it, at least one; the same each time it is asked."""

    async def deliver(self, part: ChatMessage, nonce: str) -> str:
        """Hand it over; gives the id that it has over there.

        The nonce, of 24 characters, is the same whenever the same part is handed over again, so
        that a service that remembers it answers with what it has. Raises `NotSent` with the reason
        where the service refused it for good, `Unreachable` where it certainly did not get through
        but may do so later, `Unsure` where the answer was lost.
        """

    async def find(
        self, part: ChatMessage, nonce: str, since: datetime, others: Collection[str]
    ) -> str | None:
        """Read back whether it has arrived; gives its id over there.

        None if it is certainly not there. `since` is when it may have been sent at the earliest, by
        our clock: if that is wrong by hours, the newest messages must be looked at nevertheless.
        `others` are ids of other messages, which may say the same. Raises `Unreachable` where the
        service does not answer now, `Unsure` where it does and that cannot be seen.
        """


class AttachmentKeeper(Protocol):
    """Files that came with messages, by content: images apart from all others."""

    def keep(self, input_id: InputId, file: IncomingFile) -> Attachment:
        """Move it to its place for good; raises `WrongInput` with what is wrong with it."""

    async def image(self, attachment: Attachment) -> tuple[str, bytes]:
        """Media type and bytes of an image as the model takes it; raises `WrongInput`.

        It takes seconds at most, whatever the image is, and ends at once when it is cancelled.
        """

    def clean(self, now: datetime) -> int:
        """Remove what is older than 30 days; gives how many files."""


class RemoteSurface(ChatSurface, Courier, Protocol):
    """A surface that is somebody else's service."""

    async def connected(self) -> None:
        """Returns when it has been reached for the first time."""
