"""The seam to the owner: where messages come in, and the surfaces that show what happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

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


class LogChange(NamedTuple):
    """A message that was added or edited. `change` grows with every such change of the log."""

    message: ChatMessage
    change: int


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

    async def place_of(self, message_id: MessageId) -> int | None:
        """Where it stands in the order of the log; None if it is not there."""

    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        """The message that has this id on a surface; None if that is not known."""

    async def by_refs(self, surface: str, newest: int) -> Mapping[str, ChatMessage]:
        """The newest messages of the log that a surface shows, by their ids there."""

    async def caught_up(self, surface: str) -> None:
        """Returns when all that the surface has to deliver now has arrived, or never will."""

    async def last_change(self) -> int:
        """The number of the newest change of the log."""

    async def changes_since(self, change: int, limit: int) -> Sequence[LogChange] | None:
        """What was added or edited after that change, in the order of the changes.

        None if that is more than `limit`, or if the log never had that change.
        """

    async def trouble(self, sentence: str) -> None:
        """Show on the other surfaces, while it lasts, what does not work on this one.

        Empty when it works again: then what has waited for it goes on at once. What the owner has
        to be told for good is told apart from this.
        """

    @property
    def commands(self) -> Sequence[CommandSpec]: ...

    @property
    def status(self) -> Status: ...


class Surface(Protocol):
    """Where the owner and the bot meet.

    `present` and `changed` must not wait for the outside world longer than a moment and must not
    raise: what cannot be shown now is the surface's own to show later.
    """

    name: str

    async def run(self, reception: Reception) -> None:
        """Serve until cancelled. When it raises, it is started again after a pause."""

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        """Show a turn while it runs. The events end with a `TurnEnded`."""

    async def changed(self, status: Status) -> None:
        """The status is another one now."""


class ChatSurface(Surface, Protocol):
    """A surface of our own: it follows the log and confirms nothing."""

    async def post(self, message: ChatMessage, change: int = 0) -> None:
        """Show a message of the log, new or edited, under the same terms as `present`.

        The answer of a turn that was presented comes here too, with its `turn`, and takes the
        place of what was shown of it. `change` is 0 while the log has no room for the message.
        """


@dataclass(frozen=True, slots=True)
class MessagePart:
    """The part of a message that a channel is given; `index` counts from 0.

    The nonce, of 24 characters, is the same whenever the same part is handed over again, so that a
    service that remembers it answers with what it has.
    """

    content: ChatMessage
    index: int
    nonce: str


class Channel(Surface, Protocol):
    """A surface that is a service of others, which confirms each message with an id.

    Each call should end within a minute; one that takes longer is cancelled. `deliver`, `find` and
    `edit` raise `Unreachable` where the service certainly did nothing but may do it later, and
    `Unsure` where it is not known what it did. `deliver` and `edit` raise `NotSent`, with the
    reason, where the service refuses for good.
    """

    async def connected(self) -> str:
        """Returns when the service was reached for the first time: the account there."""

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        """The message as the service can take it, at least one; the same each time it is asked."""

    async def take_drafts(
        self, message: ChatMessage, parts: Sequence[ChatMessage]
    ) -> Sequence[str]:
        """The ids of the messages that already stand there as drafts of the first parts.

        They are drawn no more, and will be edited to show the parts. Asked again, it answers the
        same until `ended` is called.
        """

    async def deliver(self, part: MessagePart) -> str:
        """Hand it over; returns the id that it has over there."""

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        """Read back whether it has arrived; returns its id over there.

        None if it is certainly not there. `since` is when it may have been sent at the earliest, by
        our clock: if that is wrong by hours, the newest messages must be looked at nevertheless.
        `others` are ids of other messages, which may say the same.
        """

    async def edit(self, ref: str, content: ChatMessage) -> None:
        """Let the message with this id show the part `content`; its files stay as they are."""

    def discard(self, refs: Sequence[str]) -> None:
        """Remove these drafts, soon: they could not be edited. Does not raise."""

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        """The delivery has ended, with all that arrived of it under `refs`. Does not raise."""


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
