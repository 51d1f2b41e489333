"""What the agent may do in the main session."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.agent import Refusal, ToolCall, Toolset
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.domain.inputs import ToolCalled
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.tool_labels import tool_label
from ollim_bot.domain.tool_policy import MAIN_TOOLS
from ollim_bot.ports import Clock
from ollim_bot.tools.server.bench import Workbench
from ollim_bot.tools.server.toolset import Gate, toolset

_POLICY = RunPolicy(RunKind.MAIN, MAIN_TOOLS)

# In the list all the same, which must not differ from that of a fork; but nobody would open one.
_NOT_YET = Refusal("Forks are not part of this version yet. Go on in this conversation.")
_ENTER_FORK = "mcp__discord__enter_fork"


def main_run(now: datetime, session: SessionId | None = None) -> Run:
    """Each turn of the main session is a run of its own."""
    return Run(_POLICY, now, session=session)


def main_toolset(bench: Workbench, gate: Gate, inbox: DurableInbox, clock: Clock) -> Toolset:
    """Each call that is let through is on disk before it is made: a crash must not repeat it."""

    async def recorded(call: ToolCall) -> Refusal | None:
        refusal = _NOT_YET if call.tool == _ENTER_FORK else await gate(call)
        running = inbox.state.running
        if refusal is None and running is not None:
            label = tool_label(call.tool, call.arguments)
            await inbox.append(ToolCalled(clock.now(), running.turn, call.tool, label))
        return refusal

    return toolset(bench, recorded)
