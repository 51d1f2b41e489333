"""The bot's own tools, put together for one session."""

from __future__ import annotations

from collections.abc import Sequence

from ollim_bot.ports import Gate, Refusal, Tool, ToolCall, Toolset
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.docs import docs_tools
from ollim_bot.tools.embed import discord_embed
from ollim_bot.tools.forks import enter_fork, exit_fork, report_updates, save_context
from ollim_bot.tools.messages import ping_user, send_file
from ollim_bot.tools.names import update_names
from ollim_bot.tools.reminders import add_reminder, cancel_reminder, follow_up_chain, list_reminders

BUILTIN = ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch", "WebSearch")
MOST_SENT_BACK = 2

# These decide for themselves, call by call, so that no list has to name them.
_SELF_GATED = frozenset(
    f"mcp__discord__{name}"
    for name in ("ping_user", "discord_embed", "send_file", "report_updates", "follow_up_chain")
)
_OWES_A_REPORT = (
    "You must call `report_updates` before you end: say in one or two sentences what the main "
    "session should know."
)


def discord_tools(bench: ToolContext) -> Sequence[Tool]:
    """The same list in every mode, so that a forked history keeps its prompt cache."""
    makers = (
        discord_embed,
        ping_user,
        send_file,
        report_updates,
        enter_fork,
        exit_fork,
        save_context,
        follow_up_chain,
        add_reminder,
        list_reminders,
        cancel_reminder,
        update_names,
    )
    return [make(bench) for make in makers]


def toolset(bench: ToolContext, gate: Gate) -> Toolset:
    """`gate` judges what is not ours to judge: files, commands, addresses."""

    async def noted(call: ToolCall) -> Refusal | None:
        refusal = None if _decides_itself(bench, call) else await gate(call)
        if refusal is None:
            bench.run.tools_used.append(call.tool)
        return refusal

    async def may_end() -> str | None:
        run = bench.run
        if not run.owes_report or run.times_sent_back >= MOST_SENT_BACK:
            return None
        run.times_sent_back += 1
        return _OWES_A_REPORT

    servers = {"discord": discord_tools(bench), "docs": docs_tools()}
    return Toolset(servers, BUILTIN, noted, may_end)


def _decides_itself(bench: ToolContext, call: ToolCall) -> bool:
    return bench.run.policy.kind.is_background and call.tool in _SELF_GATED
