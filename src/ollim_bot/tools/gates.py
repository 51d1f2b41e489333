"""Decides about each tool call, in the conversation and in background runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.agent import Gate, Refusal, ToolCall
from ollim_bot.domain.initiative import Setter, setter_of
from ollim_bot.domain.jobs import Job, JobSpec
from ollim_bot.domain.permissions import is_allowed
from ollim_bot.domain.runs import Run
from ollim_bot.domain.shared_files import SKILL_FILE, JobFolder
from ollim_bot.domain.taint import Taint, TaintedCall, tainted_call
from ollim_bot.domain.tool_policy import (
    FILE_ARGUMENTS,
    WRITING,
    Pattern,
    relative,
    text_argument,
)
from ollim_bot.tools import texts
from ollim_bot.tools.addresses import LookedUpLater, Resolver, resolve
from ollim_bot.tools.guards import Guard, address_guard, state_dir_guard
from ollim_bot.tools.job_validator import written_jobs
from ollim_bot.tools.path_rules import PathPolicy, is_within, job_files
from ollim_bot.tools.registry import MAIN_TOOLS, TAINTED_CHANGES

_PROFILE = ("IDENTITY.md", "USER.md")


class TaintGuard:
    """`taint` is what the turn that runs now has read; None where that was the owner's words."""

    def __init__(self, root: Path, taint: Callable[[], Taint | None]) -> None:
        self._root = root
        self._taint = taint

    def __call__(self, call: ToolCall) -> TaintedCall | None:
        taint = self._taint()
        if taint is None:
            return None
        changed = self._changed(call)
        return tainted_call(taint, call.tool, call.arguments, changed, TAINTED_CHANGES)

    def _changed(self, call: ToolCall) -> Iterator[str]:
        """Every name below the data directory of what a tool would write, links followed."""
        if call.tool not in WRITING:
            return
        path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        whole = os.path.join(self._root, path)
        real, home = os.path.realpath(whole), os.path.realpath(self._root)
        yield relative(path, str(self._root)).removeprefix("./")
        yield relative(path, home).removeprefix("./")
        if is_within(real, home):
            yield os.path.relpath(real, home)
        yield from map(str, job_files(self._root, path))
        yield from (name for name in _PROFILE if os.path.realpath(self._root / name) == real)


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
    reach: PathPolicy,
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


def _objection(call: ToolCall, allowed: Sequence[Pattern], reach: PathPolicy) -> str | None:
    named = [pattern for pattern in allowed if pattern.names(call.tool)]
    if is_allowed(named, call.tool, call.arguments, *reach.roots):
        return None
    return texts.not_allowed(call.tool, [str(pattern) for pattern in named])


# Gives a reason to refuse a call of the background run.
JobGuard = Callable[[ToolCall, Setter | None], str | None]


class BackgroundTools:
    """What background runs may use: what the owner's policy says, and what their jobs add to it.

    `usual` gives the patterns of the policy as they are now; `job_guard` knows what may stand in
    job files; `count` notes that a run sets one more, and says why it may not.
    """

    def __init__(
        self,
        reach: PathPolicy,
        usual: Callable[[], Sequence[str]],
        *,
        job_guard: JobGuard = lambda _, __: None,
        count: Callable[[Setter], str] = lambda _: "",
        resolver: Resolver = resolve,
    ) -> None:
        self._reach = reach
        self._usual = usual
        self._job_guard = job_guard
        self._count = count
        self._resolver = resolver

    async def of(self, job: Job) -> tuple[str, ...]:
        """The patterns for a run that begins now."""
        return (*await asyncio.to_thread(self._usual), *own_tools(job.spec))

    async def missing_skills(self, job: Job) -> Sequence[str]:
        """Those that the job names and nobody could load."""
        return await asyncio.to_thread(self._missing, job.spec.skills)

    def gate(self, run: Run) -> Gate:
        """A call has to be allowed by what the run began with, and by the policy as it is now.

        So what the owner takes away is gone at once, and what the owner adds is for the next run.
        """
        at_start = _patterns(run.policy.tools)
        own = _patterns(own_tools(run.job.spec)) if run.job is not None else ()
        setter = setter_of(run)

        def judge(call: ToolCall) -> str | None:
            now = (*_patterns(self._usual()), *own)
            named = [one for one in at_start if one.names(call.tool)]
            if not named or not any(one.names(call.tool) for one in now):
                return texts.not_in_background(call.tool)
            if reason := state_dir_guard(call, self._reach) or self._job_guard(call, setter):
                return reason
            if not (self._allows(named, call) and self._allows(now, call)):
                return texts.not_so_in_background(call.tool, [str(one) for one in named])
            return self._one_more(call, setter) or address_guard(call, self._resolver)

        async def gate(call: ToolCall) -> Refusal | None:
            reason = await asyncio.to_thread(judge, call)
            return Refusal(reason) if reason else None

        return gate

    def _one_more(self, call: ToolCall, setter: Setter | None) -> str | None:
        """A job that is written counts, also if it was there before; a skill does not."""
        jobs = (file for file in written_jobs(self._reach.root, call) if not file.is_skill)
        return None if setter is None or not any(jobs) else self._count(setter) or None

    def _allows(self, patterns: Sequence[Pattern], call: ToolCall) -> bool:
        return is_allowed(patterns, call.tool, call.arguments, *self._reach.roots)

    def _missing(self, names: Sequence[str]) -> Sequence[str]:
        folder = self._reach.root / JobFolder.SKILLS
        return [
            name
            for name in names
            if not _is_plain_name(name) or not (folder / name / SKILL_FILE).is_file()
        ]


def own_tools(spec: JobSpec) -> tuple[str, ...]:
    """The patterns that a job brings along."""
    return (*spec.allowed_tools, *(f"Skill({name} *)" for name in spec.skills))


def _patterns(written: Sequence[str]) -> tuple[Pattern, ...]:
    return tuple(Pattern.of(text) for text in written)


def _is_plain_name(name: str) -> bool:
    """Whether it can only be the name of one folder, also in a pattern."""
    return name.replace("-", "").replace("_", "").isalnum()
