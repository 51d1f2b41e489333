"""What the agent may do in the conversation, in the main session and in a fork."""

from __future__ import annotations

from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.domain.activity import tool_label
from ollim_bot.domain.inbox import ToolCalled
from ollim_bot.ports import Clock, Gate, Refusal, ToolCall, Toolset
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.toolset import toolset


def conversation_tools(
    context: ToolContext, gate: Gate, inbox: DurableInbox, clock: Clock
) -> Toolset:
    """Each call that is let through is on disk before it is made: a crash must not repeat it."""

    async def recorded(call: ToolCall) -> Refusal | None:
        refusal = await gate(call)
        running = inbox.state.running
        if refusal is None and running is not None:
            label = tool_label(call.tool, call.arguments)
            await inbox.append(ToolCalled(clock.now(), running.turn, call.tool, label))
        return refusal

    return toolset(context, recorded)
