"""What the doctor looks at in the data directory, read with the eyes of storage."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from ollim_bot.domain.facts import Facts
from ollim_bot.domain.jobs import JobKind, Reminder, Routine
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.shared_files import JobFile, JobFolder
from ollim_bot.domain.tool_policy import problems
from ollim_bot.environment import Place
from ollim_bot.paths import DataPaths
from ollim_bot.ports import ShelfReport
from ollim_bot.store.codecs.records import MemoryCodec
from ollim_bot.store.codecs.rows import LEDGER_ROWS
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.git import Git, GitMissing, GitTrouble, Repository, has_repository
from ollim_bot.store.job_checker import JobFileChecker
from ollim_bot.store.job_formats import REMINDERS, ROUTINES, JobFormat
from ollim_bot.store.job_shelf import MarkdownShelf
from ollim_bot.store.json_lines import JsonLines
from ollim_bot.store.policy_file import PolicyFile
from ollim_bot.store.state_inspection import state_files, state_troubles, stored
from ollim_bot.upkeep.checks.data import data_directory, jobs, ledger, skills
from ollim_bot.upkeep.checks.machine import clock, disk_space, memory, memory_of
from ollim_bot.upkeep.doctor import Check, Finding, counted, failed, passed, warned
from ollim_bot.upkeep.instance import running_pid

J = TypeVar("J", Routine, Reminder)

_GIT_LIMIT = 10.0
_OLD_LOCK_SECONDS = 60.0
_SKILL_FILE = "SKILL.md"
_POLICY = "tool policy"
_STATE = "state files"


class DataChecks:
    """`now` is in the owner's zone."""

    def __init__(self, place: Place, now: datetime) -> None:
        self._paths = place.paths
        self._zone = place.zone
        self._now = now

    def checks(self) -> list[Check]:
        paths = self._paths
        return [
            Check("data directory", lambda: data_directory(paths)),
            Check("git", lambda: git_history(paths.root)),
            Check("clock", lambda: clock(self._now, str(self._zone), self._heartbeat())),
            Check("routines", lambda: self._jobs(JobKind.ROUTINE, paths.routines, ROUTINES)),
            Check("reminders", lambda: self._jobs(JobKind.REMINDER, paths.reminders, REMINDERS)),
            Check("ledger", self._ledger),
            Check(_POLICY, lambda: tool_policy(paths)),
            Check("skills", self._skills),
            Check(_STATE, self._state),
        ]

    def checks_of_machine(self) -> list[Check]:
        return [Check("disk space", self._disk_space), Check("memory", self._memory)]

    def _jobs(self, kind: JobKind, folder: Path, form: JobFormat[J]) -> Iterator[Finding]:
        return jobs(kind, self._report(folder, form), self._now, self._zone)

    def _report(self, folder: Path, form: JobFormat[J]) -> ShelfReport[J]:
        lock = FileLock(self._paths.lock_of(folder))
        return MarkdownShelf(folder, form, lock, disk=OsDisk(), journal=_NoJournal()).report()

    def _skills(self) -> Iterator[Finding]:
        found = {path.parent.name for path in self._paths.skills.glob(f"*/{_SKILL_FILE}")}
        routines = self._report(self._paths.routines, ROUTINES).jobs
        reminders = self._report(self._paths.reminders, REMINDERS).jobs
        wanting: list[ScheduledJob] = [one.item for one in routines]
        wanting += [one.item for one in reminders]
        return skills(found, skill_problems(self._paths, sorted(found)), wanting)

    def _ledger(self) -> Iterator[Finding]:
        path = self._paths.ledger
        # First: what was claimed until then stands in the ledger when that is read afterwards.
        watched_until = self._heartbeat()
        if not any(path.parent.glob(f"{path.stem}*{path.suffix}")):
            return ledger((), 0, self._now, watched_until)
        lock = FileLock(self._paths.lock_of(path))
        view = JsonLines(path, LEDGER_ROWS, lock, disk=OsDisk(), rotate=True).read()
        return ledger(view.entries, view.skipped, self._now, watched_until)

    def _state(self) -> Iterator[Finding]:
        troubles = list(state_troubles(self._paths, self._now))
        for trouble in troubles:
            make = failed if trouble.is_grave else warned
            yield make(_STATE, trouble.sentence, trouble.step)
        if not troubles:
            count = state_files(self._paths, self._now)
            yield passed(_STATE, f"{counted(count, 'file')}, all readable" if count else "none yet")

    def _heartbeat(self) -> datetime | None:
        return Facts(stored(self._paths.memory, MemoryCodec())).heartbeat

    def _disk_space(self) -> Iterator[Finding]:
        root = self._paths.root
        there = next(folder for folder in (root, *root.parents) if folder.exists())
        return disk_space(shutil.disk_usage(there).free)

    def _memory(self) -> Iterator[Finding]:
        pid = running_pid(self._paths.bot_pid)
        return memory(pid, None if pid is None else memory_of(pid))


def git_history(root: Path, program: str = "git") -> Iterator[Finding]:
    look = f"Run `git -C {root} status` to see what it says."
    try:
        git = Git(root if root.is_dir() else Path("/"), program, limit=_GIT_LIMIT)
        version = git.run("version").decode(errors="replace").strip()
        if not has_repository(root):
            yield passed("git", f"{version}; the history begins with the first start")
            return
        repository = Repository.opened(git)
        lock = repository.folder / "index.lock"
        if _is_old(lock):
            left = f"{lock} was left behind by a git that died, so nothing is added to the history"
            yield warned("git", left, f"If no other git runs there, run `rm {lock}`.")
        waiting = len(repository.changes())
        changes = f"{counted(waiting, 'change')} not in it yet" if waiting else "all is in it"
        yield passed("git", f"{version}; there is a history, and {changes}")
    except GitMissing:
        missing = "git was not found; changes are kept, but without a history"
        yield warned("git", missing, "Install git, for example with `apt install git`.")
    except GitTrouble as trouble:
        yield warned("git", str(trouble), look)


def tool_policy(paths: DataPaths) -> Iterator[Finding]:
    wrong: list[str] = []
    policy = PolicyFile(paths, wrong.append).read()
    mend = f"Mend {paths.tool_policy.name}; docs/permissions.md shows what it takes."
    for problem in wrong:
        yield failed(_POLICY, problem, mend)
    patterns = (*policy.main_more, *policy.background_more, *(policy.background_instead or ()))
    for pattern in patterns:
        for warning in problems(pattern).warnings:
            yield warned(_POLICY, f"{paths.tool_policy.name}: {warning}", mend)
    if not wrong:
        more = (
            f"{counted(len(patterns), 'pattern')} allowed besides"
            if patterns
            else "only what is usual is allowed"
        )
        yield passed(_POLICY, more)


def skill_problems(paths: DataPaths, names: Sequence[str]) -> Iterator[str]:
    checker = JobFileChecker(paths)
    for name in names:
        file = JobFile(JobFolder.SKILLS, f"{name}/{_SKILL_FILE}")
        text = checker.text(file)
        if text is not None:
            yield from checker.read(file, text).problems


def _is_old(lock: Path) -> bool:
    try:
        return time.time() - os.stat(lock).st_mtime > _OLD_LOCK_SECONDS
    except OSError:
        return False


class _NoJournal:
    def note(self, path: Path, message: str) -> None:
        raise AssertionError(f"{path} was written by a check: {message}")
