"""What the conversation takes in: messages, commands, and turns that nobody wrote a message for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, NewType

from ollim_bot.domain.chat import Attachment, MessageId
from ollim_bot.domain.jobs import Chain, Job, JobKind, Reminder, kind_of
from ollim_bot.domain.lateness import late_since
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.taint import Untrusted

InputId = NewType("InputId", str)

_NO_CHAIN = Chain()


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The session that had sent what the owner replies to, and when; too long ago if expired."""

    session: SessionId
    at: datetime
    is_expired: bool = False


@dataclass(frozen=True, slots=True)
class OwnerMessage:
    """`id` is also the id of the message in the message log; `quote` is what it replies to.

    `button` is the label of a button that was pressed; the text is then the prompt behind it.
    `origin` is set where a fork or a background run had sent what it replies to. `untrusted` is set
    where the owner did not write the text, and `untrusted_quote` where the quote is such a text.
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
        """Whether it is to be answered in a branch of the session that it replies to."""
        return self.origin is not None and not self.origin.is_expired


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A slash command, or what a button or the agent asks for, that waits its turn."""

    id: InputId
    surface: str
    at: datetime
    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)


class Occasion(StrEnum):
    """Why the program itself asks the agent something."""

    FORK_STARTED = "fork_started"
    FORK_IDLE = "fork_idle"
    FORK_REPORT = "fork_report"


@dataclass(frozen=True, slots=True)
class ProgramTurn:
    """A turn that nobody wrote a message for, in `fork`; `topic` is that of one that begins."""

    id: InputId
    surface: str
    at: datetime
    occasion: Occasion
    fork: str
    topic: str = ""

    @property
    def wants_answer(self) -> bool:
        """Whether somebody waits for one: nobody does when the program asks about a fork itself."""
        return self.occasion is Occasion.FORK_STARTED

    @property
    def can_be_replaced(self) -> bool:
        """Whether a newer message may stop its turn: not the report that a fork ends with."""
        return self.occasion is not Occasion.FORK_REPORT


@dataclass(frozen=True, slots=True)
class JobTurn:
    """A job that is done in the main conversation; `id` is that of its occurrence.

    `late_since` is when it should have been done, where that is long ago.
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

    wants_answer: ClassVar[bool] = False
    can_be_replaced: ClassVar[bool] = False

    @classmethod
    def of(
        cls, job: Job, input_id: InputId, now: datetime, late_since: datetime | None = None
    ) -> JobTurn:
        """With all that the turn needs, whatever becomes of the file meanwhile."""
        spec, chain = job.spec, job.chain if isinstance(job, Reminder) else _NO_CHAIN
        return cls(
            input_id, "", now, kind_of(job), spec.id, spec.title, spec.message, chain, late_since
        )

    def as_of(self, now: datetime) -> JobTurn:
        """As it is begun: it may have become late while it waited."""
        if self.late_since is not None:
            return self
        return replace(self, late_since=late_since(Occurrence.parse(self.id), now))


# What a turn of the agent can be about.
Asked = OwnerMessage | ProgramTurn | JobTurn
Input = Asked | CommandCall
