"""Checks of the data directory, its history, its policy, tool servers, database and state files."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from ollim_bot.domain.calendar import CalendarCopy, age_words
from ollim_bot.domain.text import counted
from ollim_bot.domain.tool_patterns import problems
from ollim_bot.domain.tool_servers import ToolServerRecord, in_words
from ollim_bot.paths import DataPaths
from ollim_bot.store.calendars import CalendarFiles
from ollim_bot.store.git import Git, GitMissing, GitTrouble, Repository, has_repository
from ollim_bot.store.opening import look_into
from ollim_bot.store.policy_file import PolicyFile
from ollim_bot.store.server_file import read_servers
from ollim_bot.store.state_inspection import (
    Trouble,
    database_overview,
    database_troubles,
    file_troubles,
    state_files,
)
from ollim_bot.store.subagent_files import SubagentFiles
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, passed, warned
from ollim_bot.upkeep.instance import running_pid

DATA_DIRECTORY = "data directory"
_ALL_BITS = os.R_OK | os.W_OK | os.X_OK
_OTHERS = 0o077
_SET_ASIDE = "*.corrupt-*"
_UNAPPLIED = "*.unapplied-*"

May = Callable[[Path, int], bool]
_GIT_LIMIT = 10.0
_OLD_LOCK_SECONDS = 60.0
_POLICY = "tool policy"
_SUBAGENTS = "subagents"
_TOOL_SERVERS = "tool servers"
_MEND_SERVERS = "Mend mcp.json; docs/tool-servers.md shows what it takes."
_CALENDARS = "calendars"
_DATABASE = "database"
_STATE = "state files"


def check_data_directory(given: DoctorInput) -> Iterator[DoctorFinding]:
    return data_directory(given.data.paths)


def data_directory(paths: DataPaths, may: May = os.access) -> Iterator[DoctorFinding]:
    if not paths.root.exists():
        yield _not_there(paths.root, may)
        return
    closed = [folder for folder in _folders(paths) if not may(folder, _ALL_BITS)]
    for folder in closed:
        yield failed(
            DATA_DIRECTORY,
            f"{folder} cannot be read and written",
            f"Run `chmod u+rwx {_typed(folder)}`, as the account that it belongs to.",
        )
    yield from _open_to_others(paths)
    if paths.state not in closed:
        yield from map(_set_aside, sorted(paths.state.glob(_SET_ASIDE)))
        yield from map(_unapplied, sorted(paths.state.glob(_UNAPPLIED)))
    if not closed:
        yield passed(DATA_DIRECTORY, f"{paths.root} can be written")


def _open_to_others(paths: DataPaths) -> Iterator[DoctorFinding]:
    open_folders = [each for each in (paths.root, paths.state) if _is_open_to_others(each)]
    for folder in open_folders:
        yield warned(
            DATA_DIRECTORY,
            f"others on this machine can look into {folder}",
            f"Run `chmod 700 {_typed(folder)}`; the next start does so too.",
        )
    # A closed folder protects the files in it.
    is_way_open = len(open_folders) == 2
    opened = [path for path in _files(paths.state) if is_way_open and _is_open_to_others(path)]
    if opened:
        more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
        yield warned(
            DATA_DIRECTORY,
            f"others may read {opened[0]}{more}",
            f"Run `chmod -R go= {_typed(paths.state)}`; the next start does so too.",
        )
    if paths.root.stat().st_uid != os.geteuid():
        yield warned(
            DATA_DIRECTORY,
            f"{paths.root} belongs to another account, which can read and change all of it",
            "Run the bot as that account, or make the folder its own.",
        )


def _files(state: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(state):
        yield from (path for name in names if not (path := Path(folder, name)).is_symlink())


def _not_there(root: Path, may: May) -> DoctorFinding:
    above = next(folder for folder in root.parents if folder.exists())
    if may(above, _ALL_BITS):
        return passed(DATA_DIRECTORY, f"{root} is not there yet; the first start makes it")
    return failed(
        DATA_DIRECTORY,
        f"{root} is not there and cannot be made",
        f"Let {above} be written, or set OLLIM_DATA_DIR to a folder of yours.",
    )


def _folders(paths: DataPaths) -> Sequence[Path]:
    below = (paths.state, paths.locks, paths.routines, paths.reminders, paths.skills)
    return [paths.root, *(folder for folder in below if folder.exists())]


def _is_open_to_others(folder: Path) -> bool:
    try:
        return bool(stat.S_IMODE(folder.stat().st_mode) & _OTHERS)
    except OSError:
        return False


def _set_aside(path: Path) -> DoctorFinding:
    return warned(
        DATA_DIRECTORY,
        f"{path.parent.name}/{path.name} could not be understood once and was set aside",
        f"Look whether you need something of it, then run `rm {_typed(path)}`.",
    )


def _unapplied(path: Path) -> DoctorFinding:
    return warned(
        DATA_DIRECTORY,
        f"{path.parent.name}/{path.name} is what the bot knew when a change by hand took its place",
        f"Look whether you need something of it, then run `rm {_typed(path)}`.",
    )


def _typed(path: Path) -> str:
    return shlex.quote(str(path))


def check_git(given: DoctorInput) -> Iterator[DoctorFinding]:
    return git_history(given.data.paths.root)


def git_history(root: Path, program: str = "git") -> Iterator[DoctorFinding]:
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


def _is_old(lock: Path) -> bool:
    try:
        return time.time() - os.stat(lock).st_mtime > _OLD_LOCK_SECONDS
    except OSError:
        return False


def check_subagents(given: DoctorInput) -> Iterator[DoctorFinding]:
    found = SubagentFiles(given.data.paths).read()
    mend = "Mend the file; docs/subagents.md shows what it takes."
    for problem in found.problems:
        yield failed(_SUBAGENTS, problem, mend)
    for warning in found.warnings:
        yield warned(_SUBAGENTS, warning, mend)
    names = ", ".join(found.known)
    yield passed(_SUBAGENTS, names or "none; they are installed when the bot starts")


def check_tool_policy(given: DoctorInput) -> Iterator[DoctorFinding]:
    return tool_policy(given.data.paths)


def tool_policy(paths: DataPaths) -> Iterator[DoctorFinding]:
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


def check_tool_servers(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    reading = read_servers(paths)
    for problem in reading.problems:
        yield failed(_TOOL_SERVERS, problem, _MEND_SERVERS)
    if _is_open_to_others(paths.mcp):
        yield warned(_TOOL_SERVERS, "others may read mcp.json", f"Run `chmod 600 {paths.mcp}`.")
    record = look_into(paths, given.local_now, lambda tx: tx.tool_servers.get())
    known = (record or ToolServerRecord()).written(reading.specs)
    named = {name: state for name, state in known.servers.items() if state.present}
    for name, state in sorted(named.items()):
        if state.trouble:
            trouble = f"{name} {state.trouble.rstrip('.')}"
            yield warned(_TOOL_SERVERS, trouble, f"Run `ollim-bot mcp test {name}`.")
        elif state.question:
            step = f"Run `ollim-bot mcp approve {name}`, or `ollim-bot mcp remove {name}`."
            yield warned(_TOOL_SERVERS, f"{name}: {in_words(state)}", step)
    if not reading.problems:
        tools = sum(len(state.offered) for state in named.values())
        some = f"{counted(len(named), 'server')}, {counted(tools, 'approved tool')}"
        yield passed(_TOOL_SERVERS, some if named else "none")


def check_calendars(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    files = CalendarFiles(paths)
    troubles = list(files.troubles())
    for path, reason in troubles:
        yield failed(
            _CALENDARS,
            f"state/calendars/{path.name} cannot be used: {reason}",
            "Run `ollim-bot cal calendars`: it sets the file aside. Then subscribe again.",
        )
    if troubles:
        return
    copies, is_running = files.copies(), running_pid(paths.bot_pid) is not None
    for copy in copies:
        yield from _calendar_findings(copy, now, is_running=is_running)
    ages = ", ".join(f"{copy.name} {age_words(copy, now)}" for copy in copies)
    yield passed(_CALENDARS, ages or "none")


def _calendar_findings(
    copy: CalendarCopy, now: datetime, *, is_running: bool
) -> Iterator[DoctorFinding]:
    mend = f"Run `ollim-bot cal refresh`; docs/calendars.md says more about {copy.name}."
    if copy.problem:
        yield warned(_CALENDARS, f"{copy.name} cannot be read: {copy.problem.rstrip('.')}", mend)
    elif is_running and copy.is_stale(now):
        yield warned(_CALENDARS, f"{copy.name} was not read for long: {age_words(copy, now)}", mend)
    if copy.limits:
        yield warned(
            _CALENDARS,
            f"{copy.name}: {copy.limits.rstrip('.')}",
            "Look at these events in the program that the calendar comes from.",
        )


def check_database(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    troubles = list(database_troubles(paths, now))
    yield from _findings(_DATABASE, troubles)
    if not troubles:
        yield passed(_DATABASE, database_overview(paths, now))


def check_state_files(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    is_running = running_pid(paths.bot_pid) is not None
    troubles = list(file_troubles(paths, is_running=is_running))
    yield from _findings(_STATE, troubles)
    if not troubles:
        count = state_files(paths)
        yield passed(_STATE, f"{counted(count, 'file')}, all readable" if count else "none yet")


def _findings(name: str, troubles: Sequence[Trouble]) -> Iterator[DoctorFinding]:
    for trouble in troubles:
        make = failed if trouble.is_grave else warned
        yield make(name, trouble.sentence, trouble.step)
