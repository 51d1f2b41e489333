"""What the owner sends in, and the inbox where it stays until it has an end.

The inbox is a log of rows; `Inbox` is what they amount to. Each input is accepted once, is taken by
one turn at a time and ends once. A process that dies in between leaves rows that tell how far it
had come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NewType

from ollim_bot.domain.chat import Attachment, MessageId, TurnId
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdates

InputId = NewType("InputId", str)

MOST_ATTEMPTS = 2

_NO_UPDATES = PendingUpdates()


@dataclass(frozen=True, slots=True)
class OwnerMessage:
    """`id` is also the id of the message in the message log; `quote` is what it replies to."""

    id: InputId
    surface: str
    at: datetime
    text: str
    reply_to: MessageId | None = None
    quote: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A slash command that waits its turn; `name` is without the slash."""

    id: InputId
    surface: str
    at: datetime
    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)


Input = OwnerMessage | CommandCall


class InputEnd(StrEnum):
    ANSWERED = "answered"
    SUPERSEDED = "superseded"
    STOPPED = "stopped"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    SET_ASIDE = "set_aside"


@dataclass(frozen=True, slots=True)
class Accepted:
    at: datetime
    input: Input


@dataclass(frozen=True, slots=True)
class Edited:
    """Of an input that was not taken yet."""

    at: datetime
    input: InputId
    text: str


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn begins. `claim` holds the pending updates that its prompt shows.

    Written before anything is asked of the engine; `prompt` is the id under which the engine's own
    record of `session` has the prompt, if it was taken.
    """

    at: datetime
    turn: TurnId
    inputs: tuple[InputId, ...]
    attempt: int = 1
    prompt: str = ""
    session: SessionId | None = None
    claim: PendingUpdates = _NO_UPDATES


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Written before the tool runs, so that nobody runs it again after a crash."""

    at: datetime
    turn: TurnId
    tool: str
    summary: str


@dataclass(frozen=True, slots=True)
class Ended:
    at: datetime
    inputs: tuple[InputId, ...]
    end: InputEnd


InboxRow = Accepted | Edited | Taken | ToolCalled | Ended


@dataclass(frozen=True, slots=True)
class Inbox:
    """What waits, in order, and the turn that was begun and has no end yet, if there is one."""

    waiting: tuple[Input, ...] = ()
    running: Taken | None = None
    taken: tuple[Input, ...] = ()
    tools: tuple[ToolCalled, ...] = ()
    seen: frozenset[InputId] = frozenset()

    @classmethod
    def of(cls, rows: Iterable[InboxRow]) -> Inbox:
        inbox = cls()
        for row in rows:
            inbox = inbox.after(row)
        return inbox

    def after(self, row: InboxRow) -> Inbox:
        """Rows that fit nothing change nothing: a torn line may have swallowed their cause."""
        match row:
            case Accepted(input=new):
                return self._accepted(new)
            case Edited(input=input_id, text=text):
                waiting = tuple(_edited(each, input_id, text) for each in self.waiting)
                return replace(self, waiting=waiting)
            case Taken():
                return self._taken(row)
            case ToolCalled(turn=turn):
                fits = self.running is not None and self.running.turn == turn
                return replace(self, tools=(*self.tools, row)) if fits else self
            case Ended(inputs=ended):
                return self._ended(frozenset(ended))

    def has(self, input_id: InputId) -> bool:
        """Whether it was accepted before, so that a repeated send does nothing."""
        return input_id in self.seen

    def waits(self, input_id: InputId) -> bool:
        return any(each.id == input_id for each in self.waiting)

    def next_batch(self) -> tuple[Input, ...]:
        """Messages that wait together are one prompt; a command is alone."""
        if not self.waiting:
            return ()
        if isinstance(self.waiting[0], CommandCall):
            return self.waiting[:1]
        messages = []
        for each in self.waiting:
            if isinstance(each, CommandCall):
                break
            messages.append(each)
        return tuple(messages)

    def rows(self) -> tuple[InboxRow, ...]:
        """The fewest rows that amount to this, for when the log is made short."""
        accepted = (Accepted(each.at, each) for each in (*self.taken, *self.waiting))
        running = (self.running,) if self.running else ()
        return (*accepted, *running, *self.tools)

    def _accepted(self, new: Input) -> Inbox:
        if self.has(new.id):
            return self
        return replace(self, waiting=(*self.waiting, new), seen=self.seen | {new.id})

    def _taken(self, row: Taken) -> Inbox:
        """A further attempt takes what is taken already, and keeps what its tools have done."""
        wanted = frozenset(row.inputs)
        fresh = tuple(each for each in self.waiting if each.id in wanted)
        again = tuple(each for each in self.taken if each.id in wanted)
        if not fresh and not again:
            return self
        return replace(
            self,
            running=row,
            taken=(*again, *fresh),
            waiting=tuple(each for each in self.waiting if each.id not in wanted),
            tools=self.tools if again else (),
        )

    def _ended(self, ended: frozenset[InputId]) -> Inbox:
        taken = tuple(each for each in self.taken if each.id not in ended)
        over = not taken
        return replace(
            self,
            taken=taken,
            waiting=tuple(each for each in self.waiting if each.id not in ended),
            running=None if over else self.running,
            tools=() if over else self.tools,
        )


def _edited(each: Input, input_id: InputId, text: str) -> Input:
    if isinstance(each, OwnerMessage) and each.id == input_id:
        return replace(each, text=text)
    return each
