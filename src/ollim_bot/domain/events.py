"""What happens in a turn of the agent: the only thing that a surface renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.provider import Price
from ollim_bot.domain.sessions import SessionId


@dataclass(frozen=True, slots=True)
class SessionNamed:
    """The engine says which session this is; comes before anything else of a turn."""

    session_id: SessionId


@dataclass(frozen=True, slots=True)
class TextStreamed:
    text: str


@dataclass(frozen=True, slots=True)
class TextWithdrawn:
    """All text streamed since the last `TextCompleted` was of an attempt that failed."""


@dataclass(frozen=True, slots=True)
class TextCompleted:
    """A whole piece of the answer, also where nothing of it was streamed."""

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
    """A small remark of the program about the turn, such as that it catches up on updates."""

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
    """The engine made room in its history and goes on by itself, in the same session or another."""

    session_id: SessionId
    tokens_before: int | None = None


@dataclass(frozen=True, slots=True)
class Retrying:
    attempt: int
    attempts: int
    reason: str
    pause: timedelta


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the last request, cached ones included in `context`; cost since it was opened.

    `window` is how many tokens the model takes; None until a turn has ended. The cost is 0 where
    `price` is not a listed one.
    """

    context: int = 0
    output: int = 0
    cost_usd: float = 0.0
    window: int | None = None
    price: Price = Price.LISTED


@dataclass(frozen=True, slots=True)
class UsageReported:
    usage: Usage


class EndCause(StrEnum):
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class FailureKind(StrEnum):
    """Why a turn failed, as far as somebody could do something about it."""

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


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """`sentence` is what the owner is told: what happened, then what to do."""

    kind: FailureKind
    sentence: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Always the last event. `text` is the engine's own final text, for where no other came.

    A surface is told by `messages` what the turn has added to the log.
    """

    cause: EndCause
    text: str = ""
    failure: TurnFailure | None = None
    usage: Usage = Usage()
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
