"""Whether what another machine has changed lets the bot do more on this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import Job
from ollim_bot.domain.permissions import Pattern, ToolPolicy, beyond_main
from ollim_bot.domain.shared_files import SKILL_FILE, JobFile, JobFolder
from ollim_bot.domain.skills import may_run_commands
from ollim_bot.paths import DataPaths
from ollim_bot.store.file_kinds import folded
from ollim_bot.store.job_checker import JobFileChecker
from ollim_bot.store.job_types import JOB_TYPES
from ollim_bot.store.owner_files import policy_in, subagent_in
from ollim_bot.store.routine_format import RHYTHM_FIELDS
from ollim_bot.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS
from ollim_bot.upkeep.backup import Power
from ollim_bot.upkeep.powers import ORDINARY, may_use, power_of, text_of

# Of a job that was seen on this machine: when it comes, and whether. Fewer tools are no more.
_MAY_CHANGE = {*RHYTHM_FIELDS, "run-at", "set-at", "timezone", "late", "enabled", "allowed-tools"}


def adds_power(paths: DataPaths, path: str, content: bytes | None, is_executable: bool) -> bool:
    """Whether the content, None for no file, lets the bot do more than the file here does."""
    relative = folded(PurePosixPath(path))
    text, parts = (content or b"").decode("utf-8", "replace"), relative.parts
    if len(parts) == 1 and relative.name.startswith("tool-policy"):
        return _widens(policy_in(text), policy_in(text_of(paths, path)))
    if content is None:
        return False
    if parts[0] == "state":
        parts = parts[2:] if parts[1] == "last_good" else ()
    if len(parts) == 2 and parts[0] in {kind.plural for kind in JobKind}:
        return _is_more_of_job(paths, parts, text, text_of(paths, "/".join(path.split("/")[-2:])))
    if not parts:
        return False
    match power_of(relative):
        case Power.SKILLS if relative.suffix in (*ORDINARY, ".lock") and not is_executable:
            return may_run_commands(text) or _is_wide_skill(paths, path, text)
        case Power.AGENTS if one := subagent_in(text, PurePosixPath(path).stem):
            return not all(may_use(str(tool)) for tool in one.tools or ())
        case power:
            return power is not None


def _widens(new: ToolPolicy, old: ToolPolicy) -> bool:
    """Whether the new policy allows a call that the old one does not, or that is unclear."""
    return any(
        any(beyond_main({*now} - {*before}, [*map(Pattern.of, before)]))
        for now, before in (
            (new.main(MAIN_TOOLS), old.main(MAIN_TOOLS)),
            (new.background(DEFAULT_BG_TOOLS), old.background(DEFAULT_BG_TOOLS)),
        )
    )


def _is_wide_skill(paths: DataPaths, path: str, text: str) -> bool:
    """Whether it would add tools that the conversation may not use, or cannot be read."""
    file = JobFile(JobFolder.SKILLS, path.removeprefix("skills/"))
    if PurePosixPath(path).name.casefold() != SKILL_FILE.casefold():
        return False
    reading = JobFileChecker(paths).read(file, text)
    return bool(reading.problems) or not all(map(may_use, reading.tools))


def _is_more_of_job(paths: DataPaths, parts: Sequence[str], text: str, here: str) -> bool:
    """Whether a job has tools beyond the conversation's, and is another one than here.

    Its moment may be another, and it may have fewer tools.
    """
    checker, file = JobFileChecker(paths), JobFile(JobFolder(parts[0]), parts[1])
    new, old = checker.read(file, text), checker.read(file, here)
    skills = new.job.spec.skills if new.job else ()
    tools = (*new.tools, *checker.tools_of_skills(skills))
    if all(map(may_use, tools)) and not checker.unusable_skills(skills):
        return False
    if new.job is None or old.job is None or not {*new.tools} <= {*old.tools}:
        return True
    return _acting_part(new.job) != _acting_part(old.job)


def _acting_part(job: Job) -> tuple[str, Mapping[str, object]]:
    fields = JOB_TYPES[job.kind].written(job)
    return job.spec.message, {name: fields[name] for name in fields.keys() - _MAY_CHANGE}
