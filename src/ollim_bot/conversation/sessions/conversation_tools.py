"""The agent's tools in the main session and in interactive forks."""

from __future__ import annotations

from dataclasses import replace

from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.activity import tool_label
from ollim_bot.domain.inbox import ToolCalled
from ollim_bot.ports import Clock, Gate, Refusal, ToolCall, Toolset
from ollim_bot.store.steps import note_taint
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.toolset import toolset


def conversation_tools(
    context: ToolContext, gate: Gate, state: ConversationState, clock: Clock
) -> Toolset:
    """Each allowed call is committed before it is made, so that a crash does not repeat it.

    Untrusted text that a call reads is committed before the agent sees it, so that a restart does
    not end the taint.
    """

    async def recorded(call: ToolCall) -> Refusal | None:
        refusal = await gate(call)
        running = state.inbox.running
        if refusal is None and running is not None:
            label = tool_label(call.tool, call.arguments)
            await state.append(ToolCalled(clock.now(), running.turn, call.tool, label))
        return refusal

    tools = toolset(context, recorded)

    async def noted(call: ToolCall, result: str) -> None:
        run, before = context.run, context.run.taint
        await tools.after_call(call, result)
        if run.taint is not before:
            await state.transact(lambda tx: note_taint(tx, run.taint))

    return replace(tools, after_call=noted)
