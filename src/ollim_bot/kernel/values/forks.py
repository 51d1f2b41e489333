"""Interactive forks, and the messages that lead back to a fork's session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.moments import elapsed
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.updates import PendingUpdates

_DAY = 86400
LIVE_FOR = 7 * _DAY
REMEMBERED_FOR = LIVE_FOR + 30 * _DAY
REPORT_LENGTH = 500
TOPIC = "Topic: "
_ENTRY = "fork-"
_END = "fork-end-"


@dataclass(frozen=True, slots=True)
class ForkMessage:
    message_id: int
    fork_session_id: SessionId
    parent_session_id: SessionId | None
    ts: float


def entry_id(fork_id: str) -> MessageId:
    return MessageId(f"{_ENTRY}{fork_id}")


def end_id(fork_id: str) -> MessageId:
    return MessageId(f"{_END}{fork_id}")


def fork_of(message_id: MessageId) -> str:
    """The id of the fork whose entry card has this message id; empty for any other message."""
    is_entry = message_id.startswith(_ENTRY) and not message_id.startswith(_END)
    return message_id.removeprefix(_ENTRY) if is_entry else ""


class ForkStatus(StrEnum):
    LIVE = "live"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ForkLookup:
    """`record` is None exactly when the message is unknown."""

    status: ForkStatus
    record: ForkMessage | None = None


def lookup_fork_session(records: Iterable[ForkMessage], message_id: int, now: float) -> ForkLookup:
    """The record of a message and its state; the last of several records counts."""
    found = {record.message_id: record for record in records}.get(message_id)
    if found is None or now - found.ts >= REMEMBERED_FOR:
        return ForkLookup(ForkStatus.UNKNOWN)
    status = ForkStatus.LIVE if now - found.ts < LIVE_FOR else ForkStatus.EXPIRED
    return ForkLookup(status, found)


def with_fork_message(
    records: Iterable[ForkMessage], sent: ForkMessage, now: float
) -> tuple[ForkMessage, ...]:
    """With `sent` in place of an earlier record of its message, and without old records."""
    kept = (
        record
        for record in records
        if now - record.ts < REMEMBERED_FOR and record.message_id != sent.message_id
    )
    return (*kept, sent)


class IdleAction(Enum):
    """What to do about a fork in which the owner has been silent."""

    KEEP = "keep"
    PROMPT = "prompt"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Fork:
    """The open fork; `id` is that of the input that opened it.

    `main` is the main session at the time of branching, None if there was none. `resumed_from` is
    the other session that the fork continues, if any, and `resumed_at` is when that session sent
    what the owner replied to. `session` is None until the engine has named it. `model` replaces a
    model whose window is too small. `seen` names the pending updates that the fork was shown.
    """

    id: str
    session: SessionId | None
    main: SessionId | None
    topic: str
    idle_limit: timedelta
    last_activity: datetime
    began: datetime
    resumed_from: SessionId | None = None
    is_prompted: bool = False
    has_answered: bool = False
    last_answer: str = ""
    resumed_at: datetime | None = None
    model: str | None = None
    seen: tuple[str, ...] = ()

    @property
    def parent(self) -> SessionId | None:
        """The session that the fork branched off from."""
        return self.resumed_from or self.main

    def touched(self, now: datetime) -> Fork:
        """The fork after an action of the owner."""
        return replace(self, last_activity=now, is_prompted=False)

    def rested(self, now: datetime) -> Fork:
        """The fork after the end of a turn: it is idle from `now` on."""
        return replace(self, last_activity=now)

    def prompted(self, now: datetime) -> Fork:
        """The fork after the agent was told that it is idle; the limit starts again."""
        return replace(self, last_activity=now, is_prompted=True)

    def answered(self, text: str) -> Fork:
        return replace(self, has_answered=True, last_answer=text[:REPORT_LENGTH])

    def named(self, session: SessionId) -> Fork:
        return replace(self, session=session)

    def unseen(self, pending: PendingUpdates) -> PendingUpdates:
        """The updates that the fork has not been shown yet."""
        new = tuple(entry for entry in pending.entries if entry.name not in self.seen)
        return PendingUpdates(new, 0 if self.seen else pending.omitted)

    def having_seen(self, shown: PendingUpdates) -> Fork:
        names = (entry.name for entry in shown.entries)
        return replace(self, seen=(*self.seen, *(name for name in names if name not in self.seen)))

    def remaining(self, now: datetime) -> timedelta:
        """How long the fork may still be idle; setting the clock back does not extend that."""
        left = self.idle_limit - elapsed(self.last_activity, now)
        return min(max(left, timedelta()), self.idle_limit)

    def verdict(self, now: datetime) -> IdleAction:
        if self.remaining(now):
            return IdleAction.KEEP
        return IdleAction.CLOSE if self.is_prompted else IdleAction.PROMPT

    @property
    def may_become_main(self) -> bool:
        """Whether it branched off from the main session, so that it can take its place."""
        return self.resumed_from is None or self.resumed_from == self.main

    def obstacle_to_saving(self, main: SessionId | None) -> str:
        """Why the fork cannot become the main session; empty if it can."""
        if self.session is None or not self.has_answered:
            return "nothing has been answered in it yet"
        return self.lasting_obstacle(main)

    def lasting_obstacle(self, main: SessionId | None) -> str:
        """Why no further answer makes it possible to save the fork; empty if one may."""
        if self.resumed_from is not None and self.resumed_from != main:
            return "it goes on from another conversation than today's main one"
        if main != self.main:
            return "the main conversation has gone on since it branched off"
        return ""

    @property
    def summary(self) -> str:
        """The summary for the main session, used if the agent has left none."""
        about = f" about “{self.topic}”" if self.topic else ""
        ended = f"A side conversation{about} ended"
        if not self.last_answer:
            return f"{ended}; nothing was answered in it."
        return f"{ended}. Its last answer began: {self.last_answer}"


@dataclass(frozen=True, slots=True)
class Save:
    """The fork becomes the main session."""


@dataclass(frozen=True, slots=True)
class Report:
    """Only a summary returns to the main session; `untrusted` is what its writer had read."""

    summary: str
    untrusted: str = ""


@dataclass(frozen=True, slots=True)
class Discard:
    pass


ForkExit = Save | Report | Discard
ENDINGS = {Save: "all of it kept", Report: "summary kept", Discard: "nothing kept"}
# As earlier versions said it, in the log.
_LEFT = "left"
_ENDED = "Side conversation ended — "


def end_title(how: ForkExit) -> str:
    return f"{_ENDED}{ENDINGS[type(how)]}"


@dataclass(frozen=True, slots=True)
class ForkStory:
    """What a fork was about, and how it ended; `end` is empty while it is open."""

    topic: str
    end: str

    @classmethod
    def of(cls, entry: Card, end: Card | None, said: str, *, is_open: bool) -> ForkStory:
        """Of the cards with which it began and ended; without the last, it was left by the way.

        Without a topic, it is called by what the owner said first in it.
        """
        first = entry.description.partition("\n")[0]
        topic = first.removeprefix(TOPIC) if first.startswith(TOPIC) else said
        how = end.title.removeprefix(_ENDED) if end else _LEFT
        how = ENDINGS[Discard] if how == _LEFT else how
        return cls(" ".join(topic.split()), "" if is_open else how)

    @property
    def is_left(self) -> bool:
        return self.end == ENDINGS[Discard]

    @property
    def is_kept_whole(self) -> bool:
        return self.end == ENDINGS[Save]
