"""The inputs of the conversation, and the inbox that keeps them in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count, takewhile
from typing import ClassVar, NewType

from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.chat import OF_RETRY, Attachment, Author, ChatMessage
from ollim_bot.kernel.values.events import FailureKind, TurnFailure
from ollim_bot.kernel.values.jobs import Chain, Job
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.schedule import late_since
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.kernel.values.updates import PendingUpdates

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

    `button` is the label of a pressed button; the text is then the prompt behind it, which may be
    the program's own about a `subject`, whose words `untrusted_quote` is then about. `origin` is
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
    subject: str = ""

    wants_answer: ClassVar[bool] = True
    can_be_replaced: ClassVar[bool] = True

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
MOST_ATTEMPTS = 2
MOST_FAILED = 50

_NO_UPDATES = PendingUpdates()


class InputEnd(StrEnum):
    ANSWERED = "answered"
    SUPERSEDED = "superseded"
    STOPPED = "stopped"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"
    SET_ASIDE = "set_aside"


@dataclass(frozen=True, slots=True)
class Accepted:
    at: datetime
    input: Input


@dataclass(frozen=True, slots=True)
class Edited:
    """An input was edited before it was taken."""

    at: datetime
    input: InputId
    text: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn begins. `claim` holds the pending updates that its prompt shows.

    Written before the engine is asked. If the engine takes the prompt, its own record of `session`
    has it under the id `prompt`. In a fork the updates stay pending for the main session.
    """

    at: datetime
    turn: TurnId
    inputs: tuple[InputId, ...]
    attempt: int = 1
    prompt: str = ""
    session: SessionId | None = None
    claim: PendingUpdates = _NO_UPDATES
    in_fork: bool = False


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Written before the tool runs, so that the call is not repeated after a crash."""

    at: datetime
    turn: TurnId
    tool: str
    summary: str


@dataclass(frozen=True, slots=True)
class Released:
    """A turn was stopped before the engine knew of it: its inputs wait again."""

    at: datetime
    turn: TurnId


@dataclass(frozen=True, slots=True)
class Ended:
    at: datetime
    inputs: tuple[InputId, ...]
    end: InputEnd


@dataclass(frozen=True, slots=True)
class FailedTurn:
    """Messages that got no whole answer, and can be asked again once.

    With `for_login` they are asked again by themselves when the login works again.
    """

    turn: TurnId
    at: datetime
    asked: tuple[OwnerMessage, ...]
    for_login: bool = False

    @classmethod
    def of(
        cls, turn: TurnId, now: datetime, asked: Sequence[TurnRequest], failure: TurnFailure | None
    ) -> FailedTurn | None:
        """None for a turn without a failure or of another than the owner, or a declined one."""
        messages = tuple(each for each in asked if isinstance(each, OwnerMessage))
        if failure is None or failure.kind is FailureKind.REFUSED or len(messages) < len(asked):
            return None
        return cls(turn, now, messages, for_login=failure.kind is FailureKind.LOGIN)

    def again(self, now: datetime) -> tuple[Accepted, ...]:
        """The messages as new inputs, with the same ids each time."""
        ids = (InputId(f"{OF_RETRY}{self.turn}-{number}") for number in count(1))
        return tuple(
            Accepted(now, replace(each, id=input_id, at=now))
            for each, input_id in zip(self.asked, ids, strict=False)
        )


@dataclass(frozen=True, slots=True)
class FailedTurns:
    """The newest failed turns that were not asked again, the newest as the last."""

    turns: tuple[FailedTurn, ...] = ()

    def with_turn(self, failed: FailedTurn) -> FailedTurns:
        return FailedTurns((*self.turns, failed)[-MOST_FAILED:])

    def for_login(self, now: datetime) -> tuple[FailedTurn, ...]:
        """Those that wait for the login, and not for so long that an answer would surprise."""
        day = timedelta(days=1)
        return tuple(each for each in self.turns if each.for_login and now - each.at < day)

    def answered(self) -> FailedTurns:
        """After an answer to the owner none waits for the login: it may have been said again."""
        return FailedTurns(tuple(replace(each, for_login=False) for each in self.turns))

    def taken(self, turn: TurnId) -> tuple[FailedTurns, FailedTurn | None]:
        """The turns without that one, and that one unless it was taken before."""
        found = next((each for each in self.turns if each.turn == turn), None)
        return FailedTurns(tuple(each for each in self.turns if each is not found)), found


InboxRow = Accepted | Edited | Taken | ToolCalled | Released | Ended


@dataclass(frozen=True, slots=True)
class Inbox:
    """The inputs without an end, in the order in which they were accepted.

    `running` is the turn that has begun and not ended, if there is one. It names the inputs that it
    has taken; all others wait. `tools` are the calls of all its attempts.
    """

    accepted: tuple[Input, ...] = ()
    running: Taken | None = None
    tools: tuple[ToolCalled, ...] = ()
    seen: frozenset[InputId] = frozenset()

    @property
    def waiting(self) -> tuple[Input, ...]:
        return tuple(each for each in self.accepted if not self._takes(each.id))

    @property
    def taken(self) -> tuple[Input, ...]:
        return tuple(each for each in self.accepted if self._takes(each.id))

    @property
    def is_busy(self) -> bool:
        """Whether a message of the owner waits or is being answered."""
        return any(isinstance(each, OwnerMessage) for each in self.accepted)

    def after(self, row: InboxRow) -> Inbox:
        """The inbox after a row. A row that does not fit changes nothing: its cause may be lost."""
        match row:
            case Accepted(input=new):
                is_new = new.id not in self.seen
                accepted, seen = (*self.accepted, new), self.seen | {new.id}
                return replace(self, accepted=accepted, seen=seen) if is_new else self
            case Edited(input=input_id, text=text):
                if self._takes(input_id):
                    return self
                edited = (
                    replace(each, text=text)
                    if isinstance(each, OwnerMessage) and each.id == input_id
                    else each
                    for each in self.accepted
                )
                return replace(self, accepted=tuple(edited))
            case Taken():
                # Another attempt takes the same inputs and keeps the recorded tool calls. Inputs of
                # the previous turn that this one does not take wait again.
                running = _narrowed(row, self.accepted)
                if running is None:
                    return self
                before = self.running.inputs if self.running is not None else ()
                is_further = any(each in before for each in running.inputs)
                return replace(self, running=running, tools=self.tools if is_further else ())
            case ToolCalled(turn=turn):
                return replace(self, tools=(*self.tools, row)) if self._runs(turn) else self
            case Released(turn=turn):
                return replace(self, running=None, tools=()) if self._runs(turn) else self
            case Ended(inputs=ended):
                gone = frozenset(ended)
                left = tuple(each for each in self.accepted if each.id not in gone)
                going = self.running and _narrowed(self.running, left)
                tools = self.tools if going else ()
                return replace(self, accepted=left, running=going, tools=tools)

    def has(self, input_id: InputId) -> bool:
        """Whether the input was accepted before, so that a repeated send does nothing."""
        return input_id in self.seen

    def waits(self, input_id: InputId) -> bool:
        return any(each.id == input_id for each in self.waiting)

    def next_batch(self, *, in_fork: bool = False) -> tuple[Input, ...]:
        """The inputs of the next turn: all waiting messages together, or one other input.

        A job belongs to the main conversation, and waits until no fork is open.
        """
        waiting = [each for each in self.waiting if not (in_fork and isinstance(each, JobTurn))]

        def is_plain(each: Input) -> bool:
            # A reply to what another session sent is answered in a branch of that session.
            if not isinstance(each, OwnerMessage) or each.button:
                return False
            return each.origin is None or each.origin.is_expired

        return tuple(takewhile(is_plain, waiting)) or tuple(waiting[:1])

    def _runs(self, turn: TurnId) -> bool:
        return self.running is not None and self.running.turn == turn

    def _takes(self, input_id: InputId) -> bool:
        return self.running is not None and input_id in self.running.inputs


def _narrowed(turn: Taken, accepted: tuple[Input, ...]) -> Taken | None:
    """The turn with only its inputs that have no end; None if none is left."""
    left = {each.id for each in accepted}
    inputs = tuple(each for each in turn.inputs if each in left)
    return replace(turn, inputs=inputs) if inputs else None
