"""The gate of the main session: a call is made if a pattern allows it and no guard objects."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ollim_bot.agent import Refusal, ToolCall
from ollim_bot.domain.tool_policy import MAIN_TOOLS, Pattern, matches
from ollim_bot.tools import texts
from ollim_bot.tools.addresses import Resolver, resolve
from ollim_bot.tools.guards import address_guard, state_dir_guard
from ollim_bot.tools.reach import Reach

Gate = Callable[[ToolCall], Awaitable[Refusal | None]]
Allowed = Callable[[], Sequence[Pattern]]


def main_tools() -> Sequence[Pattern]:
    """What is allowed where the owner has said nothing else."""
    return [Pattern.of(text) for text in MAIN_TOOLS]


def main_gate(reach: Reach, *, allowed: Allowed = main_tools, resolver: Resolver = resolve) -> Gate:
    """`allowed` is asked at every call, so that a change of the policy counts at once.

    Calls of subagents are judged like all others.
    """

    def judge(call: ToolCall) -> str | None:
        return (
            state_dir_guard(call, reach)
            or _objection(call, allowed(), reach.root)
            or address_guard(call, resolver)
        )

    async def gate(call: ToolCall) -> Refusal | None:
        reason = await asyncio.to_thread(judge, call)
        return Refusal(reason) if reason else None

    return gate


def _objection(call: ToolCall, allowed: Sequence[Pattern], root: Path) -> str | None:
    # The engine names files from where its folder really is.
    roots = (str(root), os.path.realpath(root))
    named = [pattern for pattern in allowed if pattern.names(call.tool)]
    if any(matches(each, call.tool, call.arguments, start) for each in named for start in roots):
        return None
    return texts.not_allowed(call.tool, [str(pattern) for pattern in named])
