"""The agent's tools in the main session and in interactive forks."""

from __future__ import annotations

from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.activity import tool_label
from ollim_bot.domain.inbox import ToolCalled
from ollim_bot.ports import Clock, Gate, Refusal, ToolCall, Toolset
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.toolset import toolset


def conversation_tools(
    context: ToolContext, gate: Gate, state: ConversationState, clock: Clock
) -> Toolset:
    """Each allowed call is committed before it is made, so that a crash does not repeat it."""

    async def recorded(call: ToolCall) -> Refusal | None:
        refusal = await gate(call)
        running = state.inbox.running
        if refusal is None and running is not None:
            label = tool_label(call.tool, call.arguments)
            await state.append(ToolCalled(clock.now(), running.turn, call.tool, label))
        return refusal

    return toolset(context, recorded)
