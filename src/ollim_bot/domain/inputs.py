"""The inputs of the conversation: owner's messages, commands, and turns that the program starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, NewType

from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId
from ollim_bot.domain.jobs import Chain, Job, JobKind
from ollim_bot.domain.lateness import late_since
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.taint import Untrusted

InputId = NewType("InputId", str)

_NO_CHAIN = Chain()


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The session that sent the message the owner replies to, and when it did.

    `is_expired` says that this is too long ago to fork from.
    """

    session: SessionId
    at: datetime
    is_expired: bool = False


@dataclass(frozen=True, slots=True)
class OwnerMessage:
    """`id` is also the id in the message log; `quote` is the text that is replied to.

    `button` is the label of a pressed button; the text is then the prompt behind it. `origin` is
    set if a fork or a background run sent the message that is replied to. `untrusted` is set if the
    owner did not write the text, `untrusted_quote` if the owner did not write the quote.
    """

    id: InputId
    surface: str
    at: datetime
    text: str
    reply_to: MessageId | None = None
    quote: str = ""
    attachments: tuple[Attachment, ...] = ()
    button: str = ""
    origin: ForkOrigin | None = None
    untrusted: Untrusted | None = None
    untrusted_quote: Untrusted | None = None

    wants_answer: ClassVar[bool] = True
    can_be_replaced: ClassVar[bool] = True

    @property
    def opens_fork(self) -> bool:
        """Whether it is answered in a branch of the session that it replies to."""
        return self.origin is not None and not self.origin.is_expired

    def as_message(self) -> ChatMessage:
        return ChatMessage(
            MessageId(self.id),
            self.at,
            Author.OWNER,
            self.button or self.text,
            reply_to=self.reply_to,
            attachments=self.attachments,
            footer=self.untrusted.source if self.untrusted else "",
            untrusted=self.untrusted,
        )


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A queued command: a slash command, or a request of a button or the agent."""

    id: InputId
    surface: str
    at: datetime
    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)


class ProgramTurnReason(StrEnum):
    """Why the program itself prompts the agent."""

    FORK_STARTED = "fork_started"
    FORK_IDLE = "fork_idle"
    FORK_REPORT = "fork_report"


@dataclass(frozen=True, slots=True)
class ProgramTurn:
    """A turn in `fork` that the program starts; `topic` is set when the fork begins."""

    id: InputId
    surface: str
    at: datetime
    occasion: ProgramTurnReason
    fork: str
    topic: str = ""

    @property
    def wants_answer(self) -> bool:
        """Whether the owner waits for the answer: only where the owner opened the fork."""
        return self.occasion is ProgramTurnReason.FORK_STARTED

    @property
    def can_be_replaced(self) -> bool:
        """Whether a newer message may stop its turn: not the report that ends a fork."""
        return self.occasion is not ProgramTurnReason.FORK_REPORT


@dataclass(frozen=True, slots=True)
class JobTurn:
    """A job that runs in the main conversation; `id` is that of its occurrence.

    `late_since` is its due moment, if that is long ago. `untrusted` is that of the job: the body is
    then data. One that `has_waited` for the end of the quiet is not late.
    """

    id: InputId
    surface: str
    at: datetime
    kind: JobKind
    job: str
    title: str
    body: str
    chain: Chain = _NO_CHAIN
    late_since: datetime | None = None
    untrusted: str = ""
    skills: tuple[str, ...] = ()
    has_waited: bool = False

    wants_answer: ClassVar[bool] = False
    can_be_replaced: ClassVar[bool] = False

    @classmethod
    def of(
        cls, job: Job, input_id: InputId, now: datetime, late_since: datetime | None = None
    ) -> JobTurn:
        """A copy of all that the turn needs, independent of later changes of the file."""
        spec = job.spec
        return cls(
            input_id,
            "",
            now,
            job.kind,
            spec.id,
            spec.title,
            spec.message,
            job.chain,
            late_since,
            spec.untrusted or "",
            spec.skills,
        )

    @property
    def waited_since(self) -> datetime | None:
        """Its due moment, if that was in the quiet."""
        return Occurrence.parse(self.id).scheduled_at if self.has_waited else None

    def as_of(self, now: datetime) -> JobTurn:
        """The turn as it begins: it may have become late while it waited."""
        if self.late_since is not None or self.has_waited:
            return self
        return replace(self, late_since=late_since(Occurrence.parse(self.id), now))


# The inputs that a turn of the agent answers.
TurnRequest = OwnerMessage | ProgramTurn | JobTurn
Input = TurnRequest | CommandCall
