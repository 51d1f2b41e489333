"""Checks of what is in the data directory: history, tasks, policy, servers, calendars, state."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from ollim_bot.domain.calendar import CalendarCopy, age_words
from ollim_bot.domain.moments import describe
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.text import counted
from ollim_bot.domain.tool_patterns import is_open, open_problem, problems
from ollim_bot.domain.tool_servers import ToolServerRecord, in_words
from ollim_bot.errors import StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.store.calendars import CalendarFiles
from ollim_bot.store.copies import EVERY, copied_at, copies_of, damage_of
from ollim_bot.store.journal import Git, GitMissing, GitTrouble, Repository, has_repository
from ollim_bot.store.owner_files import PolicyFile, SubagentFiles
from ollim_bot.store.questions import DATABASE
from ollim_bot.store.server_file import read_servers
from ollim_bot.store.standby import load_standby
from ollim_bot.store.state_inspection import (
    StateProblem,
    database_overview,
    database_troubles,
    file_troubles,
    state_files,
)
from ollim_bot.store.task_file import TaskFile
from ollim_bot.upkeep.archive import Manifest
from ollim_bot.upkeep.backup import automatic_folder, backups_in
from ollim_bot.upkeep.checks.folder import close_file, is_older_than, is_open_to_others, shown
from ollim_bot.upkeep.checks.jobs import NoJournal
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, off, passed, warned
from ollim_bot.upkeep.instance import running_pid

_GIT_LIMIT = 10.0
_GIT_LOCKS = ("index.lock", "HEAD.lock")
_OLD_LOCK_SECONDS = 600.0
_POLICY = "tool policy"
_SUBAGENTS = "subagents"
_TOOL_SERVERS = "tool servers"
_MEND_SERVERS = "Mend mcp.json; `ollim-bot mcp list` shows whether it is right."
_CALENDARS = "calendars"
_NO_CALENDAR = "none; `ollim-bot cal subscribe -` adds one"
_TASKS = "tasks"
_COPIES = "copies"
_DATABASE = "database"
_STATE = "state files"
_BACKUP = "backup"
# One is made each day, at an idle moment: a machine that was off for a night is not yet late.
_LATE_BACKUP = timedelta(days=2)
_ON_SERVER = "the database is on a server, which has its own; `ollim-bot backup` saves the rows too"
_WHY = "`ollim-bot standby status` says why."
_MAKE_BACKUP = "Run `ollim-bot backup`; it says what is wrong."


def check_git(given: DoctorInput) -> Iterator[DoctorFinding]:
    return git_history(given.data.paths.root)


def git_history(
    root: Path, program: str = "git", is_at_work: Callable[[Path], bool] | None = None
) -> Iterator[DoctorFinding]:
    """`is_at_work` is `is_git_at_work`."""
    look = f"Run `git -C {shown(root)} status` to see what it says."
    try:
        git = Git(root if root.is_dir() else Path("/"), program, limit=_GIT_LIMIT)
        version = git.run("version").decode(errors="replace").strip()
        if not has_repository(root):
            yield passed("git", f"{version}; the history begins with the first start")
            return
        repository = Repository.opened(git)
        for lock in (repository.folder / name for name in _GIT_LOCKS):
            if is_older_than(lock, _OLD_LOCK_SECONDS):
                yield _left_lock(lock, root, is_at_work or is_git_at_work)
        waiting = len(repository.changes())
        changes = f"{counted(waiting, 'change')} not in it yet" if waiting else "all is in it"
        yield passed("git", f"{version}; there is a history, and {changes}")
    except GitMissing:
        missing = "git was not found; changes are kept, but without a history"
        yield warned("git", missing, "Install git, for example with `apt install git`.")
    except GitTrouble as trouble:
        yield warned("git", str(trouble), look)


def _left_lock(lock: Path, root: Path, is_at_work: Callable[[Path], bool]) -> DoctorFinding:
    def mend() -> str:
        if is_at_work(root) or not is_older_than(lock, _OLD_LOCK_SECONDS):
            return ""
        lock.unlink()
        return f"{lock}, which no git held, is removed"

    left = f"{lock} was left behind by a git that died, so nothing is added to the history"
    return warned("git", left, f"If no other git runs there, run `rm {shown(lock)}`.", mend)


def is_git_at_work(root: Path, proc: Path = Path("/proc")) -> bool:
    """Whether a git may be running in the folder; one whose folder is not known counts."""
    if not (proc / "self" / "comm").exists():
        command = ("/bin/ps", "-axo", "comm=")
        try:
            ran = subprocess.run(
                command, env={}, capture_output=True, timeout=_GIT_LIMIT, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return True
        names = ran.stdout.decode(errors="replace").splitlines()
        return any(os.path.basename(name.strip()).startswith("git") for name in names)
    real = Path(os.path.realpath(root))
    return any(map(partial(_is_git_in, real), proc.glob("[0-9]*")))


def _is_git_in(root: Path, process: Path) -> bool:
    try:
        if not (process / "comm").read_text().startswith("git"):
            return False
        return (process / "cwd").readlink().is_relative_to(root)
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False
    except OSError:
        return True


def check_subagents(given: DoctorInput) -> Iterator[DoctorFinding]:
    found = SubagentFiles(given.data.paths).read()
    mend = "Mend the file; `ollim-bot doctor` shows whether it is right."
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
    mend = f"Mend {paths.tool_policy.name}; `ollim-bot doctor` shows whether it is right."
    for problem in wrong:
        yield failed(_POLICY, problem, mend)
    patterns = (*policy.main_more, *policy.background_more, *(policy.background_instead or ()))
    for pattern in patterns:
        for warning in problems(pattern).warnings:
            yield warned(_POLICY, f"{paths.tool_policy.name}: {warning}", mend)
    for pattern in filter(is_open, policy.background(())):
        yield warned(_POLICY, f"{paths.tool_policy.name}: {open_problem(pattern)}", mend)
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
    if is_open_to_others(paths.mcp):
        step = f"Run `chmod 600 {shown(paths.mcp)}`."
        yield warned(
            _TOOL_SERVERS, "others may read mcp.json", step, partial(close_file, paths.mcp)
        )
    record = given.read(lambda tx: tx.tool_servers.get())
    machine = load_standby("machine").machine_id(paths) if given.is_shared else ""
    known = (record or ToolServerRecord()).on(machine).written(reading.specs)
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
    yield passed(_CALENDARS, ages) if ages else off(_CALENDARS, _NO_CALENDAR)


def _calendar_findings(
    copy: CalendarCopy, now: datetime, *, is_running: bool
) -> Iterator[DoctorFinding]:
    mend = "Run `ollim-bot cal refresh`: it says what is wrong."
    if copy.problem:
        yield warned(_CALENDARS, f"{copy.name} cannot be read: {copy.problem.rstrip('.')}", mend)
    elif is_running and copy.is_stale(now):
        yield warned(_CALENDARS, f"{copy.name} was not read for long: {age_words(copy, now)}", mend)
    if copy.limits:
        yield warned(
            _CALENDARS,
            f"{copy.name}: {copy.limits.rstrip('.')}",
            "`ollim-bot cal upcoming` shows what is left; see the rest where the calendar is from.",
        )


def check_tasks(given: DoctorInput) -> Iterator[DoctorFinding]:
    try:
        tasks = TaskFile(given.data.paths, NoJournal(), lambda: given.now).peek()
    except StorageError as unreadable:
        step = "`ollim-bot tasks list` shows whether it is right."
        yield failed(_TASKS, f"tasks.md {unreadable.reason}", step)
        return
    still_open = sum(not task.done for task in tasks)
    yield passed(_TASKS, f"{counted(still_open, 'open task')} in tasks.md" if tasks else "none")


def check_copies(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    if given.is_shared:
        yield off(_COPIES, _ON_SERVER)
        return
    database = paths.state / DATABASE
    if not database.exists():
        yield passed(_COPIES, "none; there is nothing to copy yet")
        return
    copies = copies_of(database)
    if not copies:
        yield passed(_COPIES, "none yet; one is made in each hour in which something changes")
        return
    newest = copies[0]
    if damage := damage_of(newest):
        step = f"Run `rm {shown(newest)}`; the bot makes another within the hour."
        yield warned(_COPIES, f"state/copies/{newest.name} is damaged ({damage})", step)
    made = copied_at(newest)
    is_behind = _written_at(database) > made + 3 * EVERY and now > made + 3 * EVERY
    if is_behind and running_pid(paths.bot_pid) is not None:
        late = f"the newest is of {describe(made, now)}, though the bot runs and has written since"
        yield warned(_COPIES, late, "Make room and run `ollim-bot doctor` in an hour.")
    yield passed(_COPIES, f"{len(copies)}, the newest of {describe(made, now)}")


def _written_at(database: Path) -> datetime:
    files = (database, database.with_name(f"{database.name}-wal"))
    return datetime.fromtimestamp(max(path.stat().st_mtime for path in files if path.exists()), UTC)


def check_database(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    if given.is_shared:
        unused = given.data.paths.state / DATABASE
        if unused.exists():
            step = f"Look whether you need it, then `mv {shown(unused)}` out of state/."
            yield warned(_DATABASE, "state/ollim.db is not used, since DATABASE_URL is set", step)
        count = given.read(lambda tx: tx.messages.last_seq())
        if count is None:
            yield failed(_DATABASE, "the rows on the server cannot be read", _WHY)
        else:
            yield passed(_DATABASE, f"on the server, with {counted(count, 'message')} and all else")
        return
    troubles = list(database_troubles(paths, now))
    yield from _findings(_DATABASE, troubles)
    if not troubles:
        yield passed(_DATABASE, database_overview(paths))


def check_backup(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    config = given.read(lambda tx: tx.config.get()) or RuntimeConfig()
    folder = automatic_folder(paths)
    return backups(backups_in(folder), folder, now, is_automatic=config.auto_backup)


def backups(
    found: Sequence[tuple[Path, Manifest]], folder: Path, now: datetime, *, is_automatic: bool
) -> Iterator[DoctorFinding]:
    """`found` are the backups in `folder`, the newest first."""
    complete = [manifest for _, manifest in found if manifest.is_complete]
    if found and not found[0][1].is_complete:
        gap = found[0][1].unread[0]
        yield warned(_BACKUP, f"the newest has gaps: {gap.path} ({gap.reason})", _MAKE_BACKUP)
    if not complete:
        if is_automatic:
            yield warned(_BACKUP, f"auto_backup is on, and there is none in {folder}", _MAKE_BACKUP)
        else:
            yield off(_BACKUP, "none yet; `ollim-bot backup` makes one")
        return
    newest = complete[0].made_at.astimezone(now.tzinfo)
    when = describe(newest.replace(second=0, microsecond=0), now)
    if is_automatic and now - newest > _LATE_BACKUP:
        yield warned(_BACKUP, f"auto_backup is on, and the newest is of {when}", _MAKE_BACKUP)
    else:
        yield passed(
            _BACKUP, f"{counted(len(complete), 'backup')} in {folder}, the newest of {when}"
        )


def check_state_files(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    is_running = running_pid(paths.bot_pid) is not None
    troubles = list(file_troubles(paths, is_running=is_running))
    yield from _findings(_STATE, troubles)
    if not troubles:
        count = state_files(paths)
        yield passed(_STATE, f"{counted(count, 'file')}, all readable" if count else "none yet")


def _findings(name: str, troubles: Sequence[StateProblem]) -> Iterator[DoctorFinding]:
    for trouble in troubles:
        make = failed if trouble.is_grave else warned
        yield make(name, trouble.sentence, trouble.step)
