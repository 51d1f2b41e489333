"""The events of a turn of the agent, which surfaces render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from ollim_bot.domain.ids import MessageId, SessionId
from ollim_bot.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class SessionNamed:
    """The engine names the session; the first event of a turn."""

    session_id: SessionId


@dataclass(frozen=True, slots=True)
class TextStreamed:
    text: str


@dataclass(frozen=True, slots=True)
class TextWithdrawn:
    """The text streamed since the last `TextCompleted` belongs to a failed attempt."""


@dataclass(frozen=True, slots=True)
class TextCompleted:
    """A whole piece of the answer, whether or not it was streamed."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingStreamed:
    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    call_id: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolEnded:
    call_id: str


@dataclass(frozen=True, slots=True)
class ToolRefused:
    call_id: str
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolFailed:
    call_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A remark of the program about the turn, for example that the agent catches up on updates."""

    text: str


@dataclass(frozen=True, slots=True)
class SubagentProgressed:
    task_id: str
    description: str
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class CompactionStarted:
    pass


@dataclass(frozen=True, slots=True)
class Compacted:
    """The engine compacted its history and continues, in the same session or another."""

    session_id: SessionId
    tokens_before: int | None = None


@dataclass(frozen=True, slots=True)
class Retrying:
    attempt: int
    attempts: int
    reason: str
    pause: timedelta


@dataclass(frozen=True, slots=True)
class UsageReported:
    usage: Usage


class EndCause(StrEnum):
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class FailureKind(StrEnum):
    """Why a turn failed, by what can be done about it."""

    LOGIN = "login"
    BILLING = "billing"
    OVERLOADED = "overloaded"
    UNREACHABLE = "unreachable"
    MODEL_UNKNOWN = "model_unknown"
    TOO_LONG = "too_long"
    REFUSED = "refused"
    LIMIT = "limit"
    ENGINE_DIED = "engine_died"
    SESSION_LOST = "session_lost"
    OTHER = "other"

    @property
    def is_outage(self) -> bool:
        """Whether the model answers no request at all, so that all jobs fail for one cause."""
        return self in _OUTAGES

    @property
    def is_lasting(self) -> bool:
        """Whether the same request would fail again until a person changes something."""
        return self in _LASTING


_OUTAGES = frozenset(
    {
        FailureKind.LOGIN,
        FailureKind.BILLING,
        FailureKind.OVERLOADED,
        FailureKind.UNREACHABLE,
        FailureKind.LIMIT,
    }
)


_LASTING = frozenset(
    {FailureKind.LOGIN, FailureKind.BILLING, FailureKind.MODEL_UNKNOWN, FailureKind.TOO_LONG}
)


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """`sentence` tells the owner what happened, then what to do."""

    kind: FailureKind
    sentence: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Always the last event. `text` is the engine's final text, used if no other text came.

    `messages` names for the surfaces what the turn has added to the log.
    """

    cause: EndCause
    text: str = ""
    failure: TurnFailure | None = None
    usage: Usage = field(default_factory=Usage)
    messages: tuple[MessageId, ...] = ()


AgentEvent = (
    SessionNamed
    | TextStreamed
    | TextWithdrawn
    | TextCompleted
    | ThinkingStreamed
    | ToolStarted
    | ToolEnded
    | ToolRefused
    | ToolFailed
    | Noted
    | SubagentProgressed
    | CompactionStarted
    | Compacted
    | Retrying
    | UsageReported
    | TurnEnded
)
