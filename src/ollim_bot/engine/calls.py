"""The calls of tools in a turn, and the subagents that some of them start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from claude_agent_sdk import TaskProgressMessage, TaskStartedMessage, ToolResultBlock, ToolUseBlock

from ollim_bot.domain.events import (
    AgentEvent,
    SubagentProgressed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
)

_SUBAGENT = "local_agent"


@dataclass(frozen=True, slots=True)
class _Subagent:
    call_id: str | None
    description: str


class Calls:
    """`refused` has the reasons of the calls that were not let through, by their ids."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        self._refused = refused
        self._tools: dict[str, str] = {}
        self._subagents: dict[str, _Subagent] = {}

    def started(self, block: ToolUseBlock) -> Iterator[AgentEvent]:
        self._tools[block.id] = block.name
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

    def subagent_started(self, task: TaskStartedMessage) -> Iterator[AgentEvent]:
        if task.task_type == _SUBAGENT:
            # A subagent in the background is not over when its call is.
            in_background = task.data.get("is_backgrounded") is True
            call_id = None if in_background else task.tool_use_id
            self._subagents[task.task_id] = _Subagent(call_id, task.description)
            yield SubagentProgressed(task.task_id, task.description)

    def subagent_progressed(self, task: TaskProgressMessage) -> Iterator[AgentEvent]:
        if task.task_id in self._subagents:
            yield SubagentProgressed(task.task_id, task.description)

    def subagent_over(self, task_id: str) -> Iterator[AgentEvent]:
        agent = self._subagents.pop(task_id, None)
        if agent is not None:
            yield SubagentProgressed(task_id, agent.description, is_over=True)


def _text(block: ToolResultBlock) -> str:
    if isinstance(block.content, str):
        return block.content
    parts: Sequence[Mapping[str, object]] = block.content or ()
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text")
