"""Classifies the failures of a turn, and words them for the owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from claude_agent_sdk import (
    TERMINAL_TASK_STATUSES,
    AssistantMessage,
    ConversationResetMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.values.events import (
    AgentEvent,
    Compacted,
    CompactionStarted,
    EndCause,
    FailureKind,
    Retrying,
    SessionNamed,
    SubagentProgressed,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ThinkingStreamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnFailure,
    UsageReported,
)
from ollim_bot.kernel.values.provider import CLAUDE, ModelAccess, Provider
from ollim_bot.kernel.values.runs import NAME_ARGUMENT, STARTING
from ollim_bot.kernel.values.usage import ModelCost, Usage

_LONGEST_DETAIL = 200

SENTENCES: Mapping[FailureKind, str] = {
    FailureKind.LOGIN: (
        "Claude refused the login of your account. Run `ollim-bot auth login`; then it goes on by "
        "itself. With `OLLIM_MODEL=offline` the built-in model answers."
    ),
    FailureKind.BILLING: "The Claude account has no credit left. Add some, then try again.",
    FailureKind.OVERLOADED: "Claude is overloaded. Try again in a few minutes.",
    FailureKind.UNREACHABLE: "Claude could not be reached. Check the connection, then try again.",
    FailureKind.MODEL_UNKNOWN: (
        "This account cannot use the chosen model. Choose another one with `/model`."
    ),
    FailureKind.TOO_LONG: (
        "The conversation is too long for the model. Make room with `/compact`, or begin anew "
        "with `/clear`."
    ),
    FailureKind.REFUSED: "The model declined to answer this. Say it in other words.",
    FailureKind.LIMIT: "The usage limit is reached. Try again later.",
    FailureKind.ENGINE_DIED: "The engine stopped before the answer was complete. Send it again.",
    FailureKind.SESSION_LOST: "The earlier conversation could not be found. Begin a new one.",
    FailureKind.OTHER: "The answer failed. Try again.",
}

_BY_ACCESS: Mapping[tuple[ModelAccess, FailureKind], str] = {
    (ModelAccess.KEY, FailureKind.LOGIN): (
        "Claude refused the login with the key in `{key}`. Set one that is valid, then start the "
        "bot again. With `OLLIM_MODEL=offline` the built-in model answers."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.LOGIN): (
        "{name} refused the login. Look at `{key}` and `ANTHROPIC_BASE_URL`, then start the bot "
        "again. With `OLLIM_MODEL=offline` the built-in model answers."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.BILLING): (
        "{name} says that the account has no credit left. Add some, then try again."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.OVERLOADED): (
        "{name} is overloaded. Try again in a few minutes."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.UNREACHABLE): (
        "{name} could not be reached. See whether it runs and `ANTHROPIC_BASE_URL` is right, then "
        "try again."
    ),
    (ModelAccess.OWN_SERVER, FailureKind.MODEL_UNKNOWN): (
        "{name} cannot use the chosen model. Choose another one with `/model`."
    ),
    (ModelAccess.BUILT_IN, FailureKind.OVERLOADED): (
        "The offline model could not answer. Try again, or use `/restart`."
    ),
    (ModelAccess.BUILT_IN, FailureKind.UNREACHABLE): (
        "The offline model could not be reached. Try again, or use `/restart`."
    ),
}

TAKEN_BEFORE = TurnFailure(
    FailureKind.OTHER, "This was asked before, so it was not asked again. Say it in other words."
)

_BY_TERMINAL_REASON = {
    "prompt_too_long": FailureKind.TOO_LONG,
    "blocking_limit": FailureKind.TOO_LONG,
    "max_turns": FailureKind.LIMIT,
    "budget_exhausted": FailureKind.LIMIT,
}
_BY_ERROR = {
    "authentication_failed": FailureKind.LOGIN,
    "billing_error": FailureKind.BILLING,
    "rate_limit": FailureKind.LIMIT,
    "overloaded": FailureKind.OVERLOADED,
    "model_not_found": FailureKind.MODEL_UNKNOWN,
}


def failure(kind: FailureKind) -> TurnFailure:
    return TurnFailure(kind, SENTENCES[kind])


def failure_of(result: ResultMessage, error: str | None, provider: Provider) -> TurnFailure:
    """`error` is the failure code in the last message of the turn, if it had one."""
    kind = _kind(result, error)
    lines = "\n".join([result.result or "", *(result.errors or [])]).split("\n")
    detail = shortened(next(filter(None, map(str.strip, lines)), ""), _LONGEST_DETAIL)
    if kind is FailureKind.OTHER and detail:
        return TurnFailure(kind, f"The answer failed: {detail}")
    told = _BY_ACCESS.get((provider.access, kind), SENTENCES[kind])
    return TurnFailure(kind, told.format(name=provider.name, key=provider.key_name))


def _kind(result: ResultMessage, error: str | None) -> FailureKind:
    if result.stop_reason == "refusal":
        return FailureKind.REFUSED
    if error == "server_error":
        return FailureKind.OVERLOADED if result.api_error_status else FailureKind.UNREACHABLE
    by_reason = _BY_TERMINAL_REASON.get(result.terminal_reason or "")
    return by_reason or _BY_ERROR.get(error or "", FailureKind.OTHER)


_SUBAGENT = "local_agent"
_NOTHING_USED = Usage()
_INTERRUPTED = ("aborted_streaming", "aborted_tools")


@dataclass(frozen=True, slots=True)
class CostCounter:
    """Counts what a session has cost since it was opened.

    `before` is the cost of its earlier processes. A process goes on counting from `restored`, the
    cost of the session that it resumes or branches off from.
    """

    before: Usage = _NOTHING_USED
    restored: Usage = _NOTHING_USED

    def counted(self, total: float, models: Mapping[str, Any]) -> Mapping[str, Any]:
        """The cost, and the part of each model in it, if the engine says it."""
        restored = self.restored if total >= self.restored.cost_usd else _NOTHING_USED
        of_restored, costs = dict(restored.by_model), dict(self.before.by_model)
        for model, counted in models.items():
            own = (counted.get("costUSD") or 0.0) - of_restored.get(model, 0.0)
            costs[model] = costs.get(model, 0.0) + max(0.0, own)
        by_model = tuple(ModelCost(model, cost) for model, cost in costs.items() if cost)
        cost = self.before.cost_usd + (total - restored.cost_usd)
        return {"cost_usd": cost, "by_model": by_model}


_NEW_SESSION = CostCounter()


class TurnReader:
    """The state of one turn. It is over when a result has come and the engine is idle again.

    There may be several results: when background work ends, the engine goes on by itself.
    """

    def __init__(
        self,
        refused: Mapping[str, str],
        usage: Usage = _NOTHING_USED,
        cost: CostCounter = _NEW_SESSION,
        provider: Provider = CLAUDE,
    ) -> None:
        self.is_over = False
        self.usage = usage._replace(price=provider.price)
        self._cost = cost
        self._provider = provider
        self._text = StreamedText()
        self._calls = ToolCallTracker(refused)
        self._session: str | None = None
        self._model = ""
        self._error: str | None = None
        self._result: ResultMessage | None = None
        self._has_begun = False
        self._is_running = True

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """The events of a message.

        The words of subagents are for the agent, and are skipped; of their calls, refusals count.
        """
        match message:
            case StreamEvent(parent_tool_use_id=None):
                yield from self._streamed(message.event)
            case AssistantMessage(parent_tool_use_id=None):
                yield from self._said(message)
            case UserMessage(parent_tool_use_id=None):
                for block in message.content:
                    if isinstance(block, ToolResultBlock):
                        yield from self._calls.ended(block)
            case AssistantMessage() | UserMessage():
                yield from self._calls.of_subagent(message)
            case SystemMessage():
                yield from self._noted(message)
            case ConversationResetMessage():
                yield from self._named(message.new_conversation_id)
            case ResultMessage():
                self._result = message
        if self._result is not None and not self._is_running:
            yield from self._end(self._result)

    def died(self, *, interrupted: bool) -> Iterator[AgentEvent]:
        """The end of a turn whose engine is gone."""
        self.is_over = True
        if interrupted:
            yield TurnEnded(EndCause.INTERRUPTED, usage=self.usage)
            return
        yield from self._text.withdrawn()
        yield TurnEnded(EndCause.FAILED, failure=failure(FailureKind.ENGINE_DIED), usage=self.usage)

    def _streamed(self, event: Mapping[str, Any]) -> Iterator[AgentEvent]:
        match event:
            case {"type": "message_start"}:
                yield from self._text.withdrawn()
            case {"delta": {"type": "text_delta", "text": str(text)}}:
                yield from self._text.more(text)
            case {"delta": {"type": "thinking_delta", "thinking": str(text)}}:
                yield ThinkingStreamed(text)
            case {"type": "message_delta", "usage": {"output_tokens": int(output)}}:
                self.usage = self.usage._replace(output=output)
                yield UsageReported(self.usage)

    def _said(self, message: AssistantMessage) -> Iterator[AgentEvent]:
        self._error = message.error
        if message.error is not None:
            return
        usage = message.usage or {}
        context = sum(
            usage.get(name) or 0
            for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        )
        if context:
            self._model = message.model
            self.usage = self.usage._replace(
                context=context, output=usage.get("output_tokens") or 0, model=message.model
            )
        for block in message.content:
            if isinstance(block, TextBlock):
                yield from self._text.whole(block.text)
            elif isinstance(block, ToolUseBlock):
                yield from self._calls.started(block)

    def _noted(self, message: SystemMessage) -> Iterator[AgentEvent]:
        match message:
            case TaskStartedMessage():
                yield from self._calls.subagent_started(message)
            case TaskProgressMessage():
                yield from self._calls.subagent_progressed(message)
            case TaskNotificationMessage() | TaskUpdatedMessage():
                if message.status in TERMINAL_TASK_STATUSES:
                    yield from self._calls.subagent_over(message.task_id)
            case _:
                yield from self._announced(message.data)

    def _announced(self, data: Mapping[str, Any]) -> Iterator[AgentEvent]:
        match data:
            case {"subtype": "session_state_changed", "state": "idle"} if (
                not self._has_begun and self._result is None
            ):
                # Fail the turn: the engine ignores a prompt that it has taken before.
                self.is_over = True
                yield TurnEnded(EndCause.FAILED, failure=TAKEN_BEFORE, usage=self.usage)
            case {"subtype": "session_state_changed", "state": str(state)}:
                self._has_begun = True
                self._is_running = state != "idle"
            case {"subtype": "init", "session_id": str(session)}:
                yield from self._named(session)
            case {"subtype": "status", "status": "compacting"}:
                yield CompactionStarted()
            case {"subtype": "compact_boundary", "session_id": str(session)}:
                yield Compacted(
                    SessionId(session), (data.get("compact_metadata") or {}).get("pre_tokens")
                )
            case {"subtype": "api_retry"}:
                yield from self._text.withdrawn()
                yield Retrying(
                    attempt=data.get("attempt", 1),
                    attempts=data.get("max_retries", 1),
                    reason=str(data.get("error") or "unknown"),
                    pause=timedelta(milliseconds=data.get("retry_delay_ms", 0)),
                )

    def _named(self, session: str) -> Iterator[AgentEvent]:
        if session != self._session:
            self._session = session
            yield SessionNamed(SessionId(session))

    def _end(self, result: ResultMessage) -> Iterator[AgentEvent]:
        self.is_over = True
        usage: Mapping[str, Any] = (result.model_usage or {}).get(self._model) or {}
        window = usage.get("contextWindow") or self.usage.window
        models = [*(result.model_usage or {})] or [name for name in [self._model] if name]
        self.usage = self.usage._replace(price=self._provider.price_of(models), window=window)
        total = result.total_cost_usd
        if not self.usage.price.is_listed:
            self.usage = self.usage._replace(cost_usd=0.0, by_model=())
        elif total is not None:
            counted = self._cost.counted(total, result.model_usage or {})
            self.usage = self.usage._replace(**counted)
        if result.terminal_reason in _INTERRUPTED:
            yield TurnEnded(EndCause.INTERRUPTED, usage=self.usage)
        elif result.is_error:
            yield from self._text.withdrawn()
            told = failure_of(result, self._error, self._provider)
            yield TurnEnded(EndCause.FAILED, failure=told, usage=self.usage)
        else:
            yield TurnEnded(EndCause.COMPLETED, result.result or "", usage=self.usage)


class StreamedText:
    """The text streamed since the last whole piece. Only a whole piece is final."""

    def __init__(self) -> None:
        self._shown = ""

    def more(self, text: str) -> Iterator[AgentEvent]:
        self._shown += text
        yield TextStreamed(text)

    def whole(self, text: str) -> Iterator[AgentEvent]:
        if self._shown != text:
            yield from self.withdrawn()
        self._shown = ""
        yield TextCompleted(text)

    def withdrawn(self) -> Iterator[AgentEvent]:
        if self._shown:
            self._shown = ""
            yield TextWithdrawn()


@dataclass(frozen=True, slots=True)
class _Subagent:
    call_id: str | None
    name: str
    description: str

    def does(self, what: str) -> str:
        return f"{self.name}: {what}" if self.name else what


class ToolCallTracker:
    """`refused` has the reasons of refused calls, by their ids."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        self._refused = refused
        self._tools: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._subagents: dict[str, _Subagent] = {}

    def started(self, block: ToolUseBlock) -> Iterator[AgentEvent]:
        self._tools[block.id] = block.name
        if block.name in STARTING:
            self._names[block.id] = str(block.input.get(NAME_ARGUMENT, ""))
        yield ToolStarted(block.id, block.name, block.input)

    def ended(self, block: ToolResultBlock) -> Iterator[AgentEvent]:
        call_id = block.tool_use_id
        tool = self._tools.pop(call_id, "")
        for task_id in [key for key, agent in self._subagents.items() if agent.call_id == call_id]:
            yield from self.subagent_over(task_id)
        if call_id in self._refused:
            yield ToolRefused(call_id, tool, self._refused[call_id])
        elif block.is_error:
            yield ToolFailed(call_id, _text(block))
        else:
            yield ToolEnded(call_id)

    def of_subagent(self, message: AssistantMessage | UserMessage) -> Iterator[AgentEvent]:
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                self._tools[block.id] = block.name
            elif isinstance(block, ToolResultBlock):
                tool = self._tools.pop(block.tool_use_id, "")
                if block.tool_use_id in self._refused:
                    reason = self._refused[block.tool_use_id]
                    yield ToolRefused(block.tool_use_id, tool, reason)

    def subagent_started(self, task: TaskStartedMessage) -> Iterator[AgentEvent]:
        if task.task_type == _SUBAGENT:
            # A background subagent goes on after its call has ended.
            in_background = task.data.get("is_backgrounded") is True
            call_id = None if in_background else task.tool_use_id
            agent = _Subagent(
                call_id, self._names.get(task.tool_use_id or "", ""), task.description
            )
            self._subagents[task.task_id] = agent
            yield SubagentProgressed(task.task_id, agent.does(task.description))

    def subagent_progressed(self, task: TaskProgressMessage) -> Iterator[AgentEvent]:
        agent = self._subagents.get(task.task_id)
        if agent is not None:
            yield SubagentProgressed(task.task_id, agent.does(task.description))

    def subagent_over(self, task_id: str) -> Iterator[AgentEvent]:
        agent = self._subagents.pop(task_id, None)
        if agent is not None:
            yield SubagentProgressed(task_id, agent.does(agent.description), is_over=True)


def _text(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    parts: Sequence[Mapping[str, object]] = block.content or ()
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text")
