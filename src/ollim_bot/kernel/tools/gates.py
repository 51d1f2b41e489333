"""Judges every tool call of a session: by guards, by what it has read, and by patterns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollim_bot.kernel.permissions import refusals as texts
from ollim_bot.kernel.permissions.careful import IsOwn, Surroundings
from ollim_bot.kernel.permissions.path_rules import LookupDeferred, PathPolicy, Resolver, resolve
from ollim_bot.kernel.tools.guards import (
    SubagentGuard,
    address_guard,
    state_dir_guard,
    written_jobs,
)
from ollim_bot.kernel.tools.registry import MAIN_TOOLS, RULES, WITHOUT_PATTERN
from ollim_bot.kernel.values.agent_caller import LOOKS, Does, Effect, NeedsWord, asks
from ollim_bot.kernel.values.initiative import Setter, setter_of
from ollim_bot.kernel.values.jobs import Job
from ollim_bot.kernel.values.permissions import Pattern, beyond_main, is_allowed
from ollim_bot.kernel.values.ports import Gate, Refusal, Tool, ToolCall
from ollim_bot.kernel.values.runs import STARTING, Run, Subagents
from ollim_bot.kernel.values.skills import SkillSet, skill_patterns
from ollim_bot.kernel.values.taint import Taint
from ollim_bot.kernel.values.tool_patterns import is_open, problems

_REPORT = "Say with `report_updates` what should be done, and end without it."


@dataclass(frozen=True, slots=True)
class Careful:
    """What a session that has read text of others may do.

    `is_own` tells of a note, by its path, whether this session has made it; `looks` tells of a tool
    of the owner's servers whether it only looks. Both are asked in a thread.
    """

    root: Path
    is_own: IsOwn = lambda *_: False
    looks: Callable[[str], bool] = lambda _: False

    def __call__(
        self, call: ToolCall, run: Run, allowed: Sequence[Pattern] = ()
    ) -> NeedsWord | None:
        """Why the call needs the owner's word; None if it may be made, which is then counted."""
        if not run.taint.sources:
            return None
        # A tool that declares nothing asks.
        undeclared = LOOKS if self.looks(call.tool) else asks(f"use `{call.tool}`")
        rule = RULES.get(call.tool, undeclared)
        at = Surroundings(self.root, run, allowed, self.is_own)
        does = rule if isinstance(rule, Does) else rule(call, at)
        if does.effect in (Effect.LOOKS, Effect.MARKED):
            # Counted before it is compared, so that of two calls at once only one is the last.
            run.steps[does.step] += 1
            if not does.limit or run.steps[does.step] <= does.limit:
                return None
        return NeedsWord(run.taint.in_words, does)


Allowed = Callable[[], Sequence[Pattern]]
# Decides about a call that no pattern allows, for the reason of a refusal, or that needs a word.
Undecided = Callable[[ToolCall, str | NeedsWord], Awaitable[Refusal | None]]
# Returns a reason to refuse a call of the background run, or None.
JobGuard = Callable[[ToolCall, Setter | None], str | None]
_NO_SUBAGENTS = SubagentGuard()


def main_tools() -> Sequence[Pattern]:
    """The patterns of the conversation without a policy of the owner."""
    return [Pattern.of(text) for text in MAIN_TOOLS]


async def _refused(_: ToolCall, objection: str | NeedsWord) -> Refusal | None:
    return Refusal(objection if isinstance(objection, str) else objection.refusal)


def main_gate(
    policy: PathPolicy,
    granted: Allowed = lambda: (),
    undecided: Undecided = _refused,
    run: Callable[[], Run] | None = None,
    *,
    allowed: Allowed = main_tools,
    careful: Careful | None = None,
    job_guard: Callable[[ToolCall, None, Taint], str | None] = lambda *_: None,
    subagents: SubagentGuard = _NO_SUBAGENTS,
    resolver: Resolver = resolve,
) -> Gate:
    """The gate of the conversation. No pattern and no decision overrules a guard.

    `allowed`, `granted` and `run`, the turn that calls, are asked for every call, in a thread, so
    that a change counts at once. What `careful` finds needs a decision, whether a pattern allows it
    or not. `job_guard` checks the content of job files. Calls of subagents are judged like all
    others, and by `subagents` too.
    """

    judge_careful = careful or Careful(policy.root)

    def judge(call: ToolCall) -> tuple[str | None, str | NeedsWord | None]:
        """The refusal of a guard, or else the objection to the call; both may be None."""
        # A lookup reveals the name to others, so it comes after the check that the call is allowed.
        if reason := guarded(call, _lookup_deferred):
            return reason, None
        patterns = (*allowed(), *granted())
        needs = judge_careful(call, run()) if run else None
        if objection := needs or _objection(call, patterns, policy):
            return None, objection
        return address_guard(call, resolver), None

    def guarded(call: ToolCall, look_up: Resolver) -> str | None:
        return (
            subagents(call, policy)
            or state_dir_guard(call, policy)
            or job_guard(call, None, run().taint if run else Taint())
            or address_guard(call, look_up)
        )

    async def gate(call: ToolCall) -> Refusal | None:
        reason, objection = await asyncio.to_thread(judge, call)
        if objection is not None:
            refusal = await undecided(call, objection)
            if refusal is not None:
                return refusal
            # The decision may have taken minutes, in which a link can be made.
            reason = await asyncio.to_thread(guarded, call, resolver)
        return Refusal(reason) if reason else None

    return gate


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
        careful: Careful | None = None,
        job_guard: JobGuard = lambda _, __: None,
        count: Callable[[Setter], str] = lambda _: "",
        abilities: Abilities = _NONE_ADDED,
        resolver: Resolver = resolve,
    ) -> None:
        self.servers = abilities.servers
        self._policy = policy
        self._careful = careful or Careful(policy.root)
        self._usual = usual
        self._job_guard = job_guard
        self._count = count
        self._abilities = abilities
        self._subagents = SubagentGuard(abilities.subagents, in_background=True)
        self._resolver = resolver

    async def of(self, job: Job) -> tuple[str, ...]:
        """The patterns for a run that begins now."""
        return await asyncio.to_thread(self._now, job)

    async def missing_skills(self, job: Job) -> Sequence[str]:
        """The skills that the job names and that do not load."""
        return (await asyncio.to_thread(self._abilities.skills)).unusable(job.spec.skills)

    async def excess_tools(self, job: Job) -> Sequence[str]:
        """A sentence for each tool that a skill would add to the job and may not."""
        found = await asyncio.to_thread(lambda: [*self._excess(job, self._abilities.skills())])
        return [texts.excess_tool(skill, tool) for skill, tool in found]

    async def why_unusable(self, skill: str) -> str:
        """Completes "it needs the skill mail, which"."""
        return (await asyncio.to_thread(self._abilities.skills)).why_unusable(skill)

    def gate(self, run: Run) -> Gate:
        """The gate of a run: its patterns at the start and the current policy must allow a call.

        So a removed permission ends at once, and an added one counts for the next run.
        """
        at_start = tuple(map(Pattern.of, run.policy.tools))
        setter = setter_of(run)

        def judge(call: ToolCall) -> str | None:
            if reason := self._subagents(call, self._policy):
                return reason
            if needs := self._careful(call, run, at_start):
                return needs._replace(does=needs.does._replace(instead=_REPORT)).refusal
            if call.tool in STARTING or call.tool in WITHOUT_PATTERN:
                return None
            now = tuple(map(Pattern.of, self._now(run.job)))
            named = [one for one in at_start if one.names(call.tool)]
            if not named or not any(one.names(call.tool) for one in now):
                return self._lacking(call) or texts.not_in_background(call.tool)
            if reason := state_dir_guard(call, self._policy) or self._job_guard(call, setter):
                return reason
            if not (self._allows(named, call) and self._allows(now, call)):
                shown = [str(one) for one in named]
                return self._lacking(call) or texts.not_so_in_background(call.tool, shown)
            # A written job counts, also an existing one; skills do not.
            jobs = (file for file in written_jobs(self._policy.root, call) if not file.is_skill)
            full = self._count(setter) if setter is not None and any(jobs) else ""
            return full or address_guard(call, self._resolver)

        async def gate(call: ToolCall) -> Refusal | None:
            reason = await asyncio.to_thread(judge, call)
            return Refusal(reason) if reason else None

        return gate

    def _lacking(self, call: ToolCall) -> str | None:
        """What the job has to allow before a subagent can make the call."""
        wanted = str(self._subagents.wanted_by(call, self._policy) or "")
        needed = call.tool if is_open(wanted) else wanted
        return texts.missing_for_subagent(call.subagent, needed) if needed else None

    def _allows(self, patterns: Sequence[Pattern], call: ToolCall) -> bool:
        return is_allowed(patterns, call.tool, call.arguments, *self._policy.roots)

    def _now(self, job: Job | None) -> tuple[str, ...]:
        """What the policy and the job allow at present."""
        own = () if job is None else self._own(job)
        return tuple(text for text in (*self._usual(), *own) if not is_open(text))

    def _own(self, job: Job) -> tuple[str, ...]:
        """The present patterns of the job and its skills."""
        spec = job.spec
        if not spec.skills:
            return spec.allowed_tools
        skills = self._abilities.skills()
        excess = {tool for _, tool in self._excess(job, skills)}
        tools = (tool for tool in skills.tools_of(spec.skills) if tool not in excess)
        return (*spec.allowed_tools, *skill_patterns(spec.skills), *tools)

    def _excess(self, job: Job, skills: SkillSet) -> Iterator[tuple[str, str]]:
        """Each tool that a skill may not add to the job, with the skill.

        The agent has named the skill, and neither the conversation nor the owner's own choice for
        this job allows the tool.
        """
        spec = job.spec
        by_agent = self._abilities.skills_by_agent(job) if spec.skills else ()
        tools = {name: skills.tools_of((name,)) for name in spec.skills}
        if not any(tools[name] for name in by_agent if name in tools):
            return
        others = [tool for name in tools if name not in by_agent for tool in tools[name]]
        given = [text for text in (*spec.allowed_tools, *others) if not problems(text).errors]
        allowed = (*self._abilities.main(), *map(Pattern.of, given))
        for name in (name for name in tools if name in by_agent):
            named = (tool for tool in tools[name] if not is_open(tool))
            yield from ((name, tool) for tool in named if any(beyond_main([tool], allowed)))
