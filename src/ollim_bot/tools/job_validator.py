"""Refuses calls that would leave a job or skill file invalid or too powerful."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ollim_bot.domain.initiative import (
    KEEPS_MARK,
    NOT_ONES_OWN,
    Setter,
    objections,
    objections_after_reading,
)
from ollim_bot.domain.jobs import Job, job_key
from ollim_bot.domain.permissions import beyond_main
from ollim_bot.domain.shared_files import FileReading, JobFile, JobFolder, SharedFile
from ollim_bot.domain.shell_words import shell_words
from ollim_bot.domain.taint import Taint
from ollim_bot.domain.tool_policy import FILE_ARGUMENTS, Pattern, text_argument
from ollim_bot.errors import StorageError
from ollim_bot.ports import ToolCall
from ollim_bot.tools.guards import UnclearEdit, text_after_edit
from ollim_bot.tools.path_rules import job_files

_WRITING = frozenset({"Write", "Edit", "MultiEdit"})
_TOOL_FLAG = "--allowed-tool"
_SKILL_FLAG = "--skill"
_NOT_DONE = "Nothing was changed. Mend this and try it again:"
_LONE_RETURN = re.compile(r"\r(?!\n)")
_UNTAINTED = Taint()


class _NamedSkills(NamedTuple):
    """Skills that a call names in a job, by the key of the job."""

    job: str
    skills: Sequence[str]


class JobChecker(Protocol):
    """Knows the rules by which job and skill files are read."""

    def text(self, file: SharedFile) -> str | None:
        """The present content of the file; None if there is none. Raises `Unreadable`."""

    def read(self, file: JobFile, text: str) -> FileReading:
        """Parse `text` as that file. Changes nothing."""

    def tools_of_skills(self, names: Sequence[str]) -> tuple[str, ...]:
        """The patterns that these skills add to a job."""

    def unusable_skills(self, names: Sequence[str]) -> Sequence[str]:
        """A sentence for each of these skills that does not load."""

    def others_with(self, file: JobFile, job_id: str) -> Sequence[str]:
        """Other files of the same folder that have the id."""


def written_jobs(root: Path, call: ToolCall) -> Sequence[JobFile]:
    """The job and skill files that a call would write."""
    path = call.arguments.get(FILE_ARGUMENTS.get(call.tool, ""))
    return [*job_files(root, path)] if call.tool in _WRITING and isinstance(path, str) else []


def sets_reminder(root: Path, call: ToolCall) -> bool:
    """Whether the call would write a reminder whose file does not exist yet."""
    files = written_jobs(root, call)
    return any(
        file.folder == JobFolder.REMINDERS and not (root / str(file)).exists() for file in files
    )


class JobValidator:
    """Gives a reason to refuse a call, or None; asked after `state_dir_guard`, in a thread.

    `allowed` is what the main session may use now: the agent may allow a job no more than that,
    also through a skill. A pattern or a skill that the file has already may stay. A skill that the
    agent names has to be there, so that it can be judged; `note_skills` gets the key of the job and
    the skills before the file is written.
    """

    def __init__(
        self,
        root: Path,
        checker: JobChecker,
        allowed: Callable[[], Sequence[Pattern]],
        note_skills: Callable[[str, Sequence[str]], None] = lambda _, __: None,
    ) -> None:
        self._root = root
        self._checker = checker
        self._allowed = allowed
        self._note_skills = note_skills

    def __call__(
        self, call: ToolCall, setter: Setter | None = None, taint: Taint = _UNTAINTED
    ) -> str | None:
        """`setter` is the background run that calls; None in a turn, which has this `taint`."""
        is_command = call.tool == "Bash"
        found = [*(self._of_command(call) if is_command else self._of_files(call, setter, taint))]
        problems = [each for each in found if isinstance(each, str)]
        if problems:
            return "\n".join([_NOT_DONE, *problems])
        for named in found:
            if isinstance(named, _NamedSkills):
                self._note_skills(named.job, named.skills)
        return None

    def _of_files(
        self, call: ToolCall, setter: Setter | None, taint: Taint
    ) -> Iterator[str | _NamedSkills]:
        for file in written_jobs(self._root, call):
            try:
                yield from self._wrong(file, call, setter, taint)
            except UnclearEdit as unclear:
                yield str(unclear)
            except StorageError as unreadable:
                yield str(unreadable)

    def _wrong(
        self, file: JobFile, call: ToolCall, setter: Setter | None, taint: Taint
    ) -> Iterator[str | _NamedSkills]:
        """A sentence for each problem, and the skills that the call names."""
        before = self._checker.text(file)
        text = text_after_edit(str(file), before, call.tool, call.arguments)
        was = FileReading() if before is None else self._checker.read(file, before)
        will_be = self._checker.read(file, text)
        yield from will_be.problems
        if lone := _LONE_RETURN.search(text):
            line = text.count("\n", 0, lone.start()) + 1
            yield f"{file}:{line}: a carriage return stands in it; lines end with a line feed"
        yield from self._doubled(file, was, will_be)
        yield from (f"{file}: {each}" for each in _against_initiative(was, will_be, setter))
        if setter is None:
            yield from (f"{file}: {each}" for each in _against_taint(was, will_be, taint))
        if was.untrusted and will_be.untrusted != was.untrusted:
            yield f"{file}: untrusted: {KEEPS_MARK}"
        added = [each for each in will_be.tools if each not in was.tools]
        where = str(file) if will_be.tools_line is None else f"{file}:{will_be.tools_line}"
        yield from (f"{where}: allowed-tools: {each}" for each in self._beyond(added))
        named = _named_skills(was.job, will_be.job)
        yield from (f"{file}: skills: {each}" for each in self._wrong_skills(named))
        if named and will_be.job is not None:
            yield _NamedSkills(job_key(will_be.job), named)

    def _doubled(self, file: JobFile, was: FileReading, will_be: FileReading) -> Iterator[str]:
        if will_be.job is None or (was.job and was.job.spec.id == will_be.job.spec.id):
            return
        job_id = will_be.job.spec.id
        for other in self._checker.others_with(file, job_id):
            yield (
                f"{file}: id: {job_id} is that of {other} already. Give it another id, or edit "
                "that file."
            )

    def _of_command(self, call: ToolCall) -> Iterator[str]:
        """Apply the same limit to tools that a command would allow a job."""
        words = shell_words(text_argument(call.arguments, "command")) or ()
        tools, skills = _values(words, _TOOL_FLAG), _values(words, _SKILL_FLAG)
        yield from (f"{_TOOL_FLAG}: {each}" for each in self._beyond(tools))
        yield from (f"{_SKILL_FLAG}: {each}" for each in self._wrong_skills(skills))

    def _wrong_skills(self, names: Sequence[str]) -> Iterator[str]:
        yield from self._checker.unusable_skills(names)
        yield from self._beyond(self._checker.tools_of_skills(names))

    def _beyond(self, patterns: Sequence[str]) -> Iterator[str]:
        return beyond_main(patterns, self._allowed() if patterns else ())


def _named_skills(before: Job | None, after: Job | None) -> list[str]:
    """The skills that the change names, or takes along to another job."""
    if after is None:
        return []
    is_same = before is not None and job_key(before) == job_key(after)
    kept = before.spec.skills if before is not None and is_same else ()
    return [skill for skill in after.spec.skills if skill not in kept]


def _values(words: Sequence[str], flag: str) -> list[str]:
    """The values of a flag that can be repeated."""
    joined = (word.removeprefix(f"{flag}=") for word in words if word.startswith(f"{flag}="))
    apart = (words[at] for at, word in enumerate(words[:-1], 1) if word == flag)
    return [*joined, *apart]


def _against_initiative(
    was: FileReading, will_be: FileReading, setter: Setter | None
) -> Iterable[str]:
    """A background run marks each job that it sets, and the agent may not remove that mark."""
    if setter is None:
        return [] if will_be.set_by == was.set_by else [f"set-by: {NOT_ONES_OWN}"]
    return [] if will_be.job is None else objections(was.job, will_be.job, setter)


def _against_taint(was: FileReading, will_be: FileReading, taint: Taint) -> Iterable[str]:
    """A turn that has read untrusted text orders nothing; another id makes another job."""
    if will_be.job is None:
        return []
    is_same = was.job is not None and was.job.spec.id == will_be.job.spec.id
    return objections_after_reading(was.job if is_same else None, will_be.job, taint)
