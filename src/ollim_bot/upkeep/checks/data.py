"""Checks of what is in the data directory: history, tasks, policy, servers, calendars, state."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from ollim_bot.domain.calendar import age_words
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
from ollim_bot.upkeep.backup import Manifest, automatic_folder, backups_in
from ollim_bot.upkeep.checks.folder import close_file, is_older_than, is_open_to_others, shown
from ollim_bot.upkeep.checks.jobs import NoJournal
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, off, passed, warned
from ollim_bot.upkeep.instance import running_pid

_GIT_LIMIT = 10.0
_GIT_LOCKS = ("index.lock", "HEAD.lock")
_OLD_LOCK_SECONDS = 600.0
# One is made each day, at an idle moment: a machine that was off for a night is not yet late.
_LATE_BACKUP = timedelta(days=2)


def git_history(
    root: Path, program: str = "git", is_at_work: Callable[[Path], bool] | None = None
) -> Iterator[DoctorFinding]:
    """`is_at_work` is `is_git_at_work`."""
    look = f"Run `git -C {shown(root)} status` to see what it says."
    try:
        git = Git(root if root.is_dir() else Path("/"), program, limit=_GIT_LIMIT)
        version = git.run("version").decode(errors="replace").strip()
        if not has_repository(root):
            yield passed(f"{version}; the history begins with the first start")
            return
        repository = Repository.opened(git)
        for lock in (repository.folder / name for name in _GIT_LOCKS):
            if is_older_than(lock, _OLD_LOCK_SECONDS):
                yield _left_lock(lock, root, is_at_work or is_git_at_work)
        waiting = len(repository.changes())
        changes = f"{counted(waiting, 'change')} not in it yet" if waiting else "all is in it"
        yield passed(f"{version}; there is a history, and {changes}")
    except GitMissing:
        missing = "git was not found; changes are kept, but without a history"
        yield warned(missing, "Install git, for example with `apt install git`.")
    except GitTrouble as trouble:
        yield warned(str(trouble), look)


def _left_lock(lock: Path, root: Path, is_at_work: Callable[[Path], bool]) -> DoctorFinding:
    def mend() -> str:
        if is_at_work(root) or not is_older_than(lock, _OLD_LOCK_SECONDS):
            return ""
        lock.unlink()
        return f"{lock}, which no git held, is removed"

    left = f"{lock} was left behind by a git that died, so nothing is added to the history"
    return warned(left, f"If no other git runs there, run `rm {shown(lock)}`.", mend)


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
    yield from map(failed, found.problems)
    yield from map(warned, found.warnings)
    yield passed(", ".join(found.known) or "none; they are installed when the bot starts")


def tool_policy(paths: DataPaths) -> Iterator[DoctorFinding]:
    wrong: list[str] = []
    policy = PolicyFile(paths, wrong.append).read()
    yield from map(failed, wrong)
    patterns = (*policy.main_more, *policy.background_more, *(policy.background_instead or ()))
    warnings = [warning for pattern in patterns for warning in problems(pattern).warnings]
    warnings += map(open_problem, filter(is_open, policy.background(())))
    yield from (warned(f"{paths.tool_policy.name}: {warning}") for warning in warnings)
    if not wrong:
        more = f"{counted(len(patterns), 'pattern')} allowed besides"
        yield passed(more if patterns else "only what is usual is allowed")


def check_tool_servers(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    reading = read_servers(paths)
    yield from map(failed, reading.problems)
    if is_open_to_others(paths.mcp):
        step = f"Run `chmod 600 {shown(paths.mcp)}`."
        yield warned("others may read mcp.json", step, partial(close_file, paths.mcp))
    record = given.read(lambda tx: tx.tool_servers.get())
    machine = load_standby("machine").machine_id(paths) if given.is_shared else ""
    known = (record or ToolServerRecord()).on(machine).written(reading.specs)
    named = {name: state for name, state in known.servers.items() if state.present}
    for name, state in sorted(named.items()):
        if state.trouble:
            trouble = f"{name} {state.trouble.rstrip('.')}"
            yield warned(trouble, f"Run `ollim-bot mcp test {name}`.")
        elif state.question:
            step = f"Run `ollim-bot mcp approve {name}`, or `ollim-bot mcp remove {name}`."
            yield warned(f"{name}: {in_words(state)}", step)
    if not reading.problems:
        tools = sum(len(state.offered) for state in named.values())
        some = f"{counted(len(named), 'server')}, {counted(tools, 'approved tool')}"
        yield passed(some if named else "none")


def check_calendars(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    files = CalendarFiles(paths)
    troubles = list(files.troubles())
    for path, reason in troubles:
        step = "Run `ollim-bot cal calendars`: it sets the file aside. Then subscribe again."
        yield failed(f"state/calendars/{path.name} cannot be used: {reason}", step)
    if troubles:
        return
    copies, is_running = files.copies(), running_pid(paths.bot_pid) is not None
    for copy in copies:
        if copy.problem:
            yield warned(f"{copy.name} cannot be read: {copy.problem.rstrip('.')}")
        elif is_running and copy.is_stale(now):
            yield warned(f"{copy.name} was not read for long: {age_words(copy, now)}")
        if copy.limits:
            left = "`ollim-bot cal upcoming` shows what is left"
            step = f"{left}; see the rest where the calendar is from."
            yield warned(f"{copy.name}: {copy.limits.rstrip('.')}", step)
    ages = ", ".join(f"{copy.name} {age_words(copy, now)}" for copy in copies)
    yield passed(ages) if ages else off("none; `ollim-bot cal subscribe -` adds one")


def check_tasks(given: DoctorInput) -> Iterator[DoctorFinding]:
    try:
        tasks = TaskFile(given.data.paths, NoJournal(), lambda: given.now).peek()
    except StorageError as unreadable:
        yield failed(f"tasks.md {unreadable.reason}")
        return
    still_open = sum(not task.done for task in tasks)
    yield passed(f"{counted(still_open, 'open task')} in tasks.md" if tasks else "none")


def check_copies(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths, now = given.data.paths, given.local_now
    if given.is_shared:
        own = "which has its own; `ollim-bot backup` saves the rows too"
        yield off(f"the database is on a server, {own}")
        return
    database = paths.state / DATABASE
    if not database.exists():
        yield passed("none; there is nothing to copy yet")
        return
    copies = copies_of(database)
    if not copies:
        yield passed("none yet; one is made in each hour in which something changes")
        return
    newest = copies[0]
    if damage := damage_of(newest):
        step = f"Run `rm {shown(newest)}`; the bot makes another within the hour."
        yield warned(f"state/copies/{newest.name} is damaged ({damage})", step)
    made, files = copied_at(newest), (database, database.with_name(f"{database.name}-wal"))
    written = max(path.stat().st_mtime for path in files if path.exists())
    is_late = min(datetime.fromtimestamp(written, UTC), now) > made + 3 * EVERY
    if is_late and running_pid(paths.bot_pid) is not None:
        late = f"the newest is of {describe(made, now)}, though the bot runs and has written since"
        yield warned(late, "Make room and run `ollim-bot doctor` in an hour.")
    yield passed(f"{len(copies)}, the newest of {describe(made, now)}")


def check_database(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    if not given.is_shared:
        troubles = list(database_troubles(paths, given.local_now))
        yield from map(_of_trouble, troubles)
        if not troubles:
            yield passed(database_overview(paths))
        return
    unused = paths.state / DATABASE
    if unused.exists():
        step = f"Look whether you need it, then `mv {shown(unused)}` out of state/."
        yield warned("state/ollim.db is not used, since DATABASE_URL is set", step)
    count = given.read(lambda tx: tx.messages.last_seq())
    if count is None:
        step = "`ollim-bot standby status` says why."
        yield failed("the rows on the server cannot be read", step)
    else:
        yield passed(f"on the server, with {counted(count, 'message')} and all else")


def check_backup(given: DoctorInput) -> Iterator[DoctorFinding]:
    folder, now = automatic_folder(given.data.paths), given.local_now
    config = given.read(lambda tx: tx.config.get()) or RuntimeConfig()
    return backups(backups_in(folder), folder, now, is_automatic=config.auto_backup)


def backups(
    found: Sequence[tuple[Path, Manifest]], folder: Path, now: datetime, *, is_automatic: bool
) -> Iterator[DoctorFinding]:
    """`found` are the backups in `folder`, the newest first."""
    complete = [manifest for _, manifest in found if manifest.is_complete]
    if found and not found[0][1].is_complete:
        gap = found[0][1].unread[0]
        yield warned(f"the newest has gaps: {gap.path} ({gap.reason})")
    if not complete:
        none = warned(f"auto_backup is on, and there is none in {folder}")
        yield none if is_automatic else off("none yet; `ollim-bot backup` makes one")
        return
    newest = complete[0].made_at.astimezone(now.tzinfo)
    when = describe(newest.replace(second=0, microsecond=0), now)
    if is_automatic and now - newest > _LATE_BACKUP:
        yield warned(f"auto_backup is on, and the newest is of {when}")
    else:
        yield passed(f"{counted(len(complete), 'backup')} in {folder}, the newest of {when}")


def check_state_files(given: DoctorInput) -> Iterator[DoctorFinding]:
    paths = given.data.paths
    is_running = running_pid(paths.bot_pid) is not None
    troubles = list(file_troubles(paths, is_running=is_running))
    yield from map(_of_trouble, troubles)
    if not troubles:
        count = state_files(paths)
        yield passed(f"{counted(count, 'file')}, all readable" if count else "none yet")


def _of_trouble(trouble: StateProblem) -> DoctorFinding:
    return (failed if trouble.is_grave else warned)(trouble.sentence, trouble.step)
