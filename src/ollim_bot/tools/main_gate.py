"""The gate of the main session and its interactive forks: guards, then patterns, then the mode."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ollim_bot.agent import Gate, Refusal, ToolCall
from ollim_bot.domain.permissions import is_allowed
from ollim_bot.domain.taint import TaintedCall
from ollim_bot.domain.tool_policy import MAIN_TOOLS, Pattern
from ollim_bot.tools import texts
from ollim_bot.tools.addresses import LookedUpLater, Resolver, resolve
from ollim_bot.tools.guards import Guard, address_guard, state_dir_guard
from ollim_bot.tools.reach import Reach

Allowed = Callable[[], Sequence[Pattern]]

# Decides about a call that no pattern allows; the text is what to say if it is refused.
Undecided = Callable[[ToolCall, str], Awaitable[Refusal | None]]


async def _refused_as_tainted(_: ToolCall, tainted: TaintedCall) -> Refusal | None:
    return Refusal(tainted.refusal)


@dataclass(frozen=True, slots=True)
class TaintCheck:
    """Which calls, patterns or not, need the owner's word since untrusted text was read.

    `find` is asked at every call, in a thread; `decide` about those that it finds.
    """

    find: Callable[[ToolCall], TaintedCall | None] = lambda _: None
    decide: Callable[[ToolCall, TaintedCall], Awaitable[Refusal | None]] = _refused_as_tainted


_NO_TAINT = TaintCheck()


def main_tools() -> Sequence[Pattern]:
    """What is allowed where the owner has said nothing else."""
    return [Pattern.of(text) for text in MAIN_TOOLS]


async def _refused(_: ToolCall, objection: str) -> Refusal | None:
    return Refusal(objection)


def main_gate(
    reach: Reach,
    *,
    allowed: Allowed = main_tools,
    granted: Allowed = lambda: (),
    undecided: Undecided = _refused,
    taint: TaintCheck = _NO_TAINT,
    job_guard: Guard = lambda _: None,
    resolver: Resolver = resolve,
) -> Gate:
    """No pattern and no decision lets a call through that a guard objects to.

    `allowed` and `granted` are asked at every call, in a thread, so that a change counts at once.
    `job_guard` knows what may stand in job files. Calls of subagents are judged like all others.
    """

    def judge(call: ToolCall) -> tuple[str | None, str | TaintedCall | None]:
        """Why a guard refuses it; else the objection that there is to it; else neither."""
        # A look-up tells others of the name, so it waits until the call is known to be wanted.
        if reason := guarded(call, _looked_up_later):
            return reason, None
        if tainted := taint.find(call):
            return None, tainted
        if objection := _objection(call, (*allowed(), *granted()), reach):
            return None, objection
        return address_guard(call, resolver), None

    def guarded(call: ToolCall, look_up: Resolver) -> str | None:
        return state_dir_guard(call, reach) or job_guard(call) or address_guard(call, look_up)

    async def gate(call: ToolCall) -> Refusal | None:
        reason, objection = await asyncio.to_thread(judge, call)
        if objection is not None:
            refusal = await _decided(call, objection, undecided, taint)
            if refusal is not None:
                return refusal
            # Whoever decided may have taken minutes, in which a link can be made.
            reason = await asyncio.to_thread(guarded, call, resolver)
        return Refusal(reason) if reason else None

    return gate


async def _decided(
    call: ToolCall, objection: str | TaintedCall, undecided: Undecided, taint: TaintCheck
) -> Refusal | None:
    if isinstance(objection, TaintedCall):
        return await taint.decide(call, objection)
    return await undecided(call, objection)


def _looked_up_later(_: str) -> Sequence[str]:
    raise LookedUpLater


def _objection(call: ToolCall, allowed: Sequence[Pattern], reach: Reach) -> str | None:
    named = [pattern for pattern in allowed if pattern.names(call.tool)]
    if is_allowed(named, call.tool, call.arguments, *reach.roots):
        return None
    return texts.not_allowed(call.tool, [str(pattern) for pattern in named])
