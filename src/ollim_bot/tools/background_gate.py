"""The gate of background runs: nobody is asked there, so a call is allowed or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ollim_bot.agent import Gate, Refusal, ToolCall
from ollim_bot.domain.initiative import Setter, setter_of
from ollim_bot.domain.job_files import SKILL_FILE, JobFolder
from ollim_bot.domain.jobs import Job, JobSpec
from ollim_bot.domain.permissions import is_allowed
from ollim_bot.domain.runs import Run
from ollim_bot.domain.tool_policy import Pattern
from ollim_bot.tools import texts
from ollim_bot.tools.addresses import Resolver, resolve
from ollim_bot.tools.guards import address_guard, state_dir_guard
from ollim_bot.tools.job_validator import written_jobs
from ollim_bot.tools.reach import Reach

# Gives a reason to refuse a call of the background run.
JobGuard = Callable[[ToolCall, Setter | None], str | None]


class BackgroundTools:
    """What background runs may use: what the owner's policy says, and what their jobs add to it.

    `usual` gives the patterns of the policy as they are now; `job_guard` knows what may stand in
    job files; `count` notes that a run sets one more, and says why it may not.
    """

    def __init__(
        self,
        reach: Reach,
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
