"""Finds the calls that untrusted text may have caused, and decides about every call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.domain.initiative import Setter, setter_of
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.permissions import (
    FILE_ARGUMENTS,
    Pattern,
    beyond_main,
    is_allowed,
    relative,
    text_argument,
)
from ollim_bot.domain.runs import STARTING, Run, Subagents
from ollim_bot.domain.skills import SkillSet, skill_patterns
from ollim_bot.domain.taint import (
    Taint,
    TaintedCall,
    tainted_call,
    tainted_in_background,
)
from ollim_bot.domain.tool_patterns import WRITING, problems
from ollim_bot.ports import Gate, Refusal, Tool, ToolCall
from ollim_bot.tools import texts
from ollim_bot.tools.guards import (
    Guard,
    SubagentGuard,
    address_guard,
    sets_reminder,
    state_dir_guard,
    written_jobs,
)
from ollim_bot.tools.path_rules import (
    LookupDeferred,
    PathPolicy,
    Resolver,
    is_within,
    job_files,
    resolve,
)
from ollim_bot.tools.registry import (
    MAIN_TOOLS,
    TAINTED_CHANGES,
    WITHOUT_PATTERN,
)

_PROFILE = ("IDENTITY.md", "USER.md")


def refused_in_background(taint: Taint, call: ToolCall, allowed: Sequence[Pattern]) -> str | None:
    """Why a background run with this taint may not make the call; None if it may."""
    found = tainted_in_background(taint, call.tool, call.arguments, allowed, TAINTED_CHANGES)
    return found.refusal if found else None


class TaintGuard:
    """Finds calls of the conversation that need the owner's approval; `taint` gives the current."""

    def __init__(self, root: Path, taint: Callable[[], Taint]) -> None:
        self._root = root
        self._taint = taint

    def __call__(self, call: ToolCall) -> TaintedCall | None:
        taint, changed = self._taint(), self._changed(call)
        return tainted_call(taint, call.tool, call.arguments, changed, TAINTED_CHANGES)

    def _changed(self, call: ToolCall) -> Iterator[str]:
        """Every name below the data directory of the file that the call writes, links followed."""
        if call.tool not in WRITING:
            return
        path = text_argument(call.arguments, FILE_ARGUMENTS[call.tool])
        yield from _names(self._root, path)
        yield from map(str, job_files(self._root, path))
        real = os.path.realpath(os.path.join(self._root, path))
        yield from (name for name in _PROFILE if os.path.realpath(self._root / name) == real)


async def _refused_as_tainted(_: ToolCall, tainted: TaintedCall) -> Refusal | None:
    return Refusal(tainted.refusal)


@dataclass(frozen=True, slots=True)
class TaintCheck:
    """Which calls need the owner's decision since untrusted text was read.

    `find` is called for every call, in a thread; `decide` for the calls that it finds, whether a
    pattern allows them or not. `count` counts, in a thread, a reminder that such a call sets, and
    returns why it may not. `current` gives the taint of the turn.
    """

    find: Callable[[ToolCall], TaintedCall | None] = lambda _: None
    decide: Callable[[ToolCall, TaintedCall], Awaitable[Refusal | None]] = _refused_as_tainted
    count: Callable[[], str] = lambda: ""
    current: Callable[[], Taint] = Taint


def _names(root: Path, path: str) -> Iterator[str]:
    """The path relative to the data directory, as written and with links followed."""
    real, home = os.path.realpath(os.path.join(root, path)), os.path.realpath(root)
    yield relative(path, str(root)).removeprefix("./")
    yield relative(path, home).removeprefix("./")
    if is_within(real, home):
        yield os.path.relpath(real, home)


Allowed = Callable[[], Sequence[Pattern]]
# Decides about a call that no pattern allows; the text is the reason of a refusal.
Undecided = Callable[[ToolCall, str], Awaitable[Refusal | None]]
# Returns a reason to refuse a call of the background run, or None.
JobGuard = Callable[[ToolCall, Setter | None], str | None]


_NO_TAINT = TaintCheck()
_NO_SUBAGENTS = SubagentGuard()


def main_tools() -> Sequence[Pattern]:
    """The patterns of the conversation without a policy of the owner."""
    return [Pattern.of(text) for text in MAIN_TOOLS]


async def _refused(_: ToolCall, objection: str) -> Refusal | None:
    return Refusal(objection)


def main_gate(
    policy: PathPolicy,
    *,
    allowed: Allowed = main_tools,
    granted: Allowed = lambda: (),
    undecided: Undecided = _refused,
    taint: TaintCheck = _NO_TAINT,
    job_guard: Guard = lambda _: None,
    subagents: SubagentGuard = _NO_SUBAGENTS,
    resolver: Resolver = resolve,
) -> Gate:
    """The gate of the conversation. No pattern and no decision overrules a guard.

    `allowed` and `granted` are called for every call, in a thread, so that a change counts at once.
    `job_guard` checks the content of job files. Calls of subagents are judged like all others, and
    by `subagents` too.
    """

    def judge(call: ToolCall) -> tuple[str | None, str | TaintedCall | None]:
        """The refusal of a guard, or else the objection to the call; both may be None."""
        # A lookup reveals the name to others, so it comes after the check that the call is allowed.
        if reason := guarded(call, _lookup_deferred):
            return reason, None
        if tainted := taint.find(call):
            return None, tainted
        if objection := _objection(call, (*allowed(), *granted()), policy):
            return None, objection
        return address_guard(call, resolver), None

    def guarded(call: ToolCall, look_up: Resolver) -> str | None:
        return (
            subagents(call, policy)
            or state_dir_guard(call, policy)
            or job_guard(call)
            or address_guard(call, look_up)
        )

    async def gate(call: ToolCall) -> Refusal | None:
        reason, objection = await asyncio.to_thread(judge, call)
        if objection is not None:
            refusal = await _decided(call, objection, undecided, taint)
            if refusal is not None:
                return refusal
            # The decision may have taken minutes, in which a link can be made.
            reason = await asyncio.to_thread(judge_again, call)
        return Refusal(reason) if reason else None

    def judge_again(call: ToolCall) -> str | None:
        is_counted = bool(taint.current().sources) and sets_reminder(policy.root, call)
        return guarded(call, resolver) or (taint.count() if is_counted else None)

    return gate


async def _decided(
    call: ToolCall, objection: str | TaintedCall, undecided: Undecided, taint: TaintCheck
) -> Refusal | None:
    if isinstance(objection, TaintedCall):
        return await taint.decide(call, objection)
    return await undecided(call, objection)


def _lookup_deferred(_: str) -> Sequence[str]:
    raise LookupDeferred


def _objection(call: ToolCall, allowed: Sequence[Pattern], policy: PathPolicy) -> str | None:
    named = [pattern for pattern in allowed if pattern.names(call.tool)]
    if is_allowed(named, call.tool, call.arguments, *policy.roots):
        return None
    return texts.not_allowed(call.tool, [str(pattern) for pattern in named])


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the data directory adds to the tools, each as of now.

    `main` is what the conversation may use, and `skills_by_agent` gives the skills of a job that
    the agent has named.
    """

    subagents: Callable[[], Subagents] = Subagents
    skills: Callable[[], SkillSet] = SkillSet
    servers: Callable[[], Mapping[str, Sequence[Tool]]] = dict
    main: Allowed = main_tools
    skills_by_agent: Callable[[Job], Collection[str]] = lambda _: ()


_NONE_ADDED = Abilities()


class BackgroundTools:
    """The tools of background runs: the owner's policy, and the additions of their jobs.

    `usual` gives the current patterns of the policy; `job_guard` checks the content of job files;
    `count` counts a job that a run sets, and returns why it may not.
    """

    def __init__(
        self,
        policy: PathPolicy,
        usual: Callable[[], Sequence[str]],
        *,
        job_guard: JobGuard = lambda _, __: None,
        count: Callable[[Setter], str] = lambda _: "",
        abilities: Abilities = _NONE_ADDED,
        resolver: Resolver = resolve,
    ) -> None:
        self.servers = abilities.servers
        self._policy = policy
        self._usual = usual
        self._job_guard = job_guard
        self._count = count
        self._main = abilities.main
        self._skills_by_agent = abilities.skills_by_agent
        self._subagents = SubagentGuard(abilities.subagents, in_background=True)
        self._skills = abilities.skills
        self._resolver = resolver

    async def of(self, job: Job) -> tuple[str, ...]:
        """The patterns for a run that begins now."""
        return await asyncio.to_thread(lambda: (*self._usual(), *self._own(job)))

    async def missing_skills(self, job: Job) -> Sequence[str]:
        """The skills that the job names and that do not load."""
        return (await asyncio.to_thread(self._skills)).unusable(job.spec.skills)

    async def excess_tools(self, job: Job) -> Sequence[str]:
        """A sentence for each tool that a skill would add to the job and may not."""
        found = await asyncio.to_thread(lambda: [*self._excess(job, self._skills())])
        return [texts.excess_tool(skill, tool) for skill, tool in found]

    async def why_unusable(self, skill: str) -> str:
        """Completes "it needs the skill mail, which"."""
        return (await asyncio.to_thread(self._skills)).why_unusable(skill)

    def gate(self, run: Run) -> Gate:
        """The gate of a run: its patterns at the start and the current policy must allow a call.

        So a removed permission ends at once, and an added one counts for the next run.
        """
        at_start = tuple(map(Pattern.of, run.policy.tools))
        setter = setter_of(run)

        def judge(call: ToolCall) -> str | None:
            if reason := self._subagents(call, self._policy):
                return reason
            if run.taint.sources and (reason := refused_in_background(run.taint, call, at_start)):
                return reason
            if call.tool in STARTING or call.tool in WITHOUT_PATTERN:
                return None
            own = self._own(run.job) if run.job is not None else ()
            now = tuple(map(Pattern.of, (*self._usual(), *own)))
            named = [one for one in at_start if one.names(call.tool)]
            if not named or not any(one.names(call.tool) for one in now):
                return self._lacking(call) or texts.not_in_background(call.tool)
            if reason := state_dir_guard(call, self._policy) or self._job_guard(call, setter):
                return reason
            if not (self._allows(named, call) and self._allows(now, call)):
                shown = [str(one) for one in named]
                return self._lacking(call) or texts.not_so_in_background(call.tool, shown)
            return self._one_more(call, setter) or address_guard(call, self._resolver)

        async def gate(call: ToolCall) -> Refusal | None:
            reason = await asyncio.to_thread(judge, call)
            return Refusal(reason) if reason else None

        return gate

    def _lacking(self, call: ToolCall) -> str | None:
        """What the job has to allow before a subagent can make the call."""
        wanted = self._subagents.wanted_by(call, self._policy)
        return texts.missing_for_subagent(call.subagent, str(wanted)) if wanted else None

    def _one_more(self, call: ToolCall, setter: Setter | None) -> str | None:
        """Count a written job, also an existing one; skills do not count."""
        jobs = (file for file in written_jobs(self._policy.root, call) if not file.is_skill)
        return None if setter is None or not any(jobs) else self._count(setter) or None

    def _allows(self, patterns: Sequence[Pattern], call: ToolCall) -> bool:
        return is_allowed(patterns, call.tool, call.arguments, *self._policy.roots)

    def _own(self, job: Job) -> tuple[str, ...]:
        """The present patterns of the job and its skills."""
        spec = job.spec
        if not spec.skills:
            return spec.allowed_tools
        skills = self._skills()
        excess = {tool for _, tool in self._excess(job, skills)}
        tools = (tool for tool in skills.tools_of(spec.skills) if tool not in excess)
        return (*spec.allowed_tools, *skill_patterns(spec.skills), *tools)

    def _excess(self, job: Job, skills: SkillSet) -> Iterator[tuple[str, str]]:
        """Each tool that a skill may not add to the job, with the skill.

        The agent has named the skill, and neither the conversation nor the owner's own choice for
        this job allows the tool.
        """
        spec = job.spec
        by_agent = self._skills_by_agent(job) if spec.skills else ()
        tools = {name: skills.tools_of((name,)) for name in spec.skills}
        if not any(tools[name] for name in by_agent if name in tools):
            return
        others = [tool for name in tools if name not in by_agent for tool in tools[name]]
        given = [text for text in (*spec.allowed_tools, *others) if not problems(text).errors]
        allowed = (*self._main(), *map(Pattern.of, given))
        for name in (name for name in tools if name in by_agent):
            yield from ((name, tool) for tool in tools[name] if any(beyond_main([tool], allowed)))
