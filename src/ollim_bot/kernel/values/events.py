"""The events of a turn of the agent, which surfaces render."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.values.tool_patterns import server_of
from ollim_bot.kernel.values.usage import Usage


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

_NOTHING: Mapping[str, object] = {}
THINKING = "Thinking…"
COMPACTING = "Compacting…"
# A turn may call tools for hours; a surface shows only the last ones.
_MOST_TOOLS = 50
_MOST_NAMED = 3


class ToolState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ToolLine:
    id: str
    label: str
    state: ToolState = ToolState.RUNNING
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Activity:
    """The lines below the answer of a running turn: its phase, its tools, and notes."""

    phase: str = THINKING
    tools: tuple[ToolLine, ...] = ()
    notes: tuple[str, ...] = ()

    def after(self, event: AgentEvent) -> Activity:
        match event:
            case TextStreamed() | TextCompleted():
                return replace(self, phase="")
            case ThinkingStreamed() | Compacted() | TextWithdrawn():
                return replace(self, phase=THINKING)
            case CompactionStarted():
                return replace(self, phase=COMPACTING)
            case Retrying(attempt=attempt, attempts=attempts):
                return replace(self, phase=f"Retrying ({attempt} of {attempts})…")
            case Noted(text=text):
                return replace(self, notes=(*self.notes, text)[-20:])
            case _:
                return self._after_tool(event)

    def _after_tool(self, event: AgentEvent) -> Activity:
        match event:
            case ToolStarted(call_id=call, tool=tool, arguments=arguments):
                return self._with(ToolLine(call, tool_label(tool, arguments)))
            case ToolEnded(call_id=call):
                return self._ended(call, ToolState.DONE)
            case ToolFailed(call_id=call, reason=reason):
                return self._ended(call, ToolState.FAILED, reason)
            case ToolRefused(call_id=call, tool=tool, reason=reason):
                is_known = any(line.id == call for line in self.tools)
                known = self if is_known else self._with(ToolLine(call, tool_label(tool)))
                return known._ended(call, ToolState.REFUSED, reason)
            case SubagentProgressed(task_id=task, description=about, is_over=is_over):
                shown = self._with(ToolLine(task, _short(about, 112)))
                return shown._ended(task, ToolState.DONE) if is_over else shown
            case _:
                return self

    @property
    def refused(self) -> str:
        """The sentence that names the refused calls; empty if there are none."""
        calls = [line.label for line in self.tools if line.state is ToolState.REFUSED]
        if not calls:
            return ""
        rest = len(calls) - _MOST_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        return f"Refused: {', '.join(calls[:_MOST_NAMED])}{more}."

    def _with(self, line: ToolLine) -> Activity:
        others = (each for each in self.tools if each.id != line.id)
        return replace(self, phase="", tools=(*others, line)[-_MOST_TOOLS:])

    def _ended(self, line_id: str, state: ToolState, reason: str = "") -> Activity:
        tools = tuple(
            replace(line, state=state, reason=reason[:300])
            if line.id == line_id and line.state is not ToolState.REFUSED
            else line
            for line in self.tools
        )
        is_idle = all(line.state is not ToolState.RUNNING for line in tools)
        return replace(self, tools=tools, phase=THINKING if is_idle else self.phase)


def tool_label(tool: str, arguments: Mapping[str, object] = _NOTHING) -> str:
    """One line for any arguments, of at most 112 characters.

    A query is shown whole, since it reaches the search provider: 262 characters at most.
    """
    name = _short(_without_server(tool), 60)
    for argument, shown in _SHOWN.items():
        value = arguments.get(argument)
        longest = 200 if argument == "query" else 50
        if isinstance(value, str) and (text := _short(shown(value), longest)):
            return f"{name}({text})"
    return name


def _without_server(tool: str) -> str:
    """`mcp__discord__ping_user` becomes `ping_user`, of an owner's server `notes: search`."""
    if not tool.startswith("mcp__"):
        return tool
    own_name = tool.removeprefix("mcp__").partition("__")[2] or tool
    server = server_of(tool)
    return own_name if server is None else f"{server}: {own_name}"


def _last_two_parts(path: str) -> str:
    return "/".join([part for part in path.split("/") if part][-2:]) or path


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _short(text: str, longest: int) -> str:
    printable = "".join(each if each.isprintable() else " " for each in text[: 4 * longest])
    return shortened(" ".join(printable.split()), longest)


# Ordered by how much each says about a call: a label shows the first that the call has.
_SHOWN: Mapping[str, Callable[[str], str]] = {
    "file_path": _last_two_parts,
    "notebook_path": _last_two_parts,
    "command": _first_line,
    "pattern": _first_line,
    "url": _first_line,
    "query": _first_line,
    "path": _last_two_parts,
    "subagent_type": _first_line,
    "description": _first_line,
    "skill": _first_line,
}

NO_RESPONSE = "no response — try again."


@dataclass(slots=True)
class AnswerText:
    """Collects the answer. A complete piece replaces the streamed text that it repeats."""

    _pieces: list[str] = field(default_factory=list)
    _streamed: str = ""
    _withdrawn: str = ""

    def add(self, event: AgentEvent) -> None:
        match event:
            case TextStreamed(text):
                self._streamed += text
            case TextWithdrawn():
                self._withdrawn, self._streamed = self._streamed or self._withdrawn, ""
            case TextCompleted(text):
                self._withdrawn = self._streamed = ""
                self._pieces.append(text)

    @property
    def so_far(self) -> str:
        pieces = (piece.strip() for piece in (*self._pieces, self._streamed))
        return "\n\n".join(filter(None, pieces))

    @property
    def broken_off(self) -> str:
        """As `so_far`, with the words of a broken stream that no other words have replaced."""
        last = self._streamed or self._withdrawn
        return "\n\n".join(filter(None, (piece.strip() for piece in (*self._pieces, last))))

    def whole(self, end: TurnEnded) -> str:
        """The collected text, else the engine's final text, else `NO_RESPONSE`."""
        return self.so_far or end.text.strip() or NO_RESPONSE
