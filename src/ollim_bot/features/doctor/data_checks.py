"""Checks of the data directory: the folder, its history, files, database and backups."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import UnsuitableFile
from ollim_bot.kernel.base.settings import CHANNELS
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.copies import EVERY, copied_at, copies_of, damage_of
from ollim_bot.kernel.store.data_directory import (
    add_ignored,
    close_to_others,
    displaced_links,
    lost_links,
    missing_ignored,
    remake_links,
)
from ollim_bot.kernel.store.journal import Git, GitMissing, GitTrouble, has_repository
from ollim_bot.kernel.store.owner_files import PolicyFile, SubagentFiles
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.standby_loader import load_standby
from ollim_bot.kernel.store.state_inspection import (
    StateProblem,
    database_overview,
    database_troubles,
    file_troubles,
    state_files,
)
from ollim_bot.kernel.upkeep.findings import (
    Check,
    DoctorFinding,
    DoctorInput,
    Found,
    failed,
    is_open_to_others,
    off,
    passed,
    shown,
    warned,
)
from ollim_bot.kernel.upkeep.hand_over import interrupted_maintenance
from ollim_bot.kernel.values.tool_patterns import is_open, open_problem, problems

_GIT_LIMIT = 10.0
_GIT_LOCKS = ("index.lock", "HEAD.lock")
_OLD_LOCK_SECONDS = 600.0


def git_history(
    root: Path, program: str = "git", is_at_work: Callable[[Path], bool] | None = None
) -> Found:
    """`is_at_work` is `is_git_at_work`."""
    look = f"Run `git -C {shown(root)} status` to see what it says."
    try:
        git = Git(root if root.is_dir() else Path("/"), program, limit=_GIT_LIMIT)
        version = git.run("version").decode(errors="replace").strip()
        if not has_repository(root):
            yield passed(f"{version}; the history begins with the first start")
            return
        git = git.opened()
        folder = git.folder or root / ".git"
        for lock in (folder / name for name in _GIT_LOCKS):
            if is_older_than(lock, _OLD_LOCK_SECONDS):
                mend = partial(_remove_git_lock, lock, root, is_at_work)
                left = f"{lock} was left behind by a git that died"
                step = f"If no other git runs there, run `rm {shown(lock)}`."
                yield warned(f"{left}, so nothing is added to the history", step, mend)
        waiting = len(git.changes())
        changes = f"{counted(waiting, 'change')} not in it yet" if waiting else "all is in it"
        yield passed(f"{version}; there is a history, and {changes}")
    except GitMissing:
        missing = "git was not found; changes are kept, but without a history"
        yield warned(missing, "Install git, for example with `apt install git`.")
    except GitTrouble as trouble:
        yield warned(str(trouble), look)


def _remove_git_lock(lock: Path, root: Path, is_at_work: Callable[[Path], bool] | None) -> str:
    if (is_at_work or is_git_at_work)(root) or not is_older_than(lock, _OLD_LOCK_SECONDS):
        return ""
    lock.unlink()
    return f"{lock}, which no git held, is removed"


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


def check_subagents(given: DoctorInput) -> Found:
    found = SubagentFiles(given.data.paths).read()
    yield from map(failed, found.problems)
    yield from map(warned, found.warnings)
    yield passed(", ".join(found.known) or "none; they are installed when the bot starts")


def tool_policy(paths: DataPaths) -> Found:
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


def check_copies(given: DoctorInput) -> Found:
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


def check_database(given: DoctorInput) -> Found:
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


def check_state_files(given: DoctorInput) -> Found:
    paths = given.data.paths
    is_running = running_pid(paths.bot_pid) is not None
    troubles = list(file_troubles(paths, is_running=is_running))
    yield from map(_of_trouble, troubles)
    if not troubles:
        count = state_files(paths)
        yield passed(f"{counted(count, 'file')}, all readable" if count else "none yet")


def _of_trouble(trouble: StateProblem) -> DoctorFinding:
    return (failed if trouble.is_grave else warned)(trouble.sentence, trouble.step)


May = Callable[[Path, int], bool]
_ALL_BITS = os.R_OK | os.W_OK | os.X_OK
_SALVAGED = ".ollim.db.salvaged"
_HOUR = 3600.0
_KEPT_AFTER_RESTORE = timedelta(days=7)
_MB = 1000**2
_MUCH = 5000 * _MB


def data_directory(paths: DataPaths, may: May = os.access) -> Found:
    if not paths.root.exists():
        above = next(folder for folder in paths.root.parents if folder.exists())
        if may(above, _ALL_BITS):
            yield passed(f"{paths.root} is not there yet; the first start makes it")
        else:
            step = f"Run `chmod u+rwx {shown(above)}`, or set OLLIM_DATA_DIR to a folder of yours."
            yield failed(f"{paths.root} is not there and cannot be made", step)
        return
    below = (paths.state, paths.locks, *map(paths.jobs, JobKind), paths.skills)
    folders = [paths.root, *(folder for folder in below if folder.exists())]
    closed = [folder for folder in folders if not may(folder, _ALL_BITS)]
    for folder in closed:
        step = f"Run `chmod u+rwx {shown(folder)}`, as the account that it belongs to."
        yield failed(f"{folder} cannot be read and written", step, partial(_open_to_owner, folder))
    yield from _open_to_others(paths)
    if closed:
        return
    if paths.locks.exists():
        for lock in sorted(paths.locks.iterdir()):
            if not stat.S_ISREG(lock.lstat().st_mode):
                wrong = (
                    f"state/.locks/{lock.name} is not a file, so what it guards cannot be changed"
                )
                yield failed(wrong, f"Run `rm -r {shown(lock)}`.", partial(_remove_lock, lock))
    yield from _links(paths)
    yield from _ignored(paths)
    yield passed(f"{paths.root} can be written")


def _open_to_owner(folder: Path) -> str:
    folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IRWXU)
    return f"{folder} can be read and written again"


def _open_to_others(paths: DataPaths) -> Found:
    def close() -> str:
        return close_to_others(paths).mended

    open_folders = [each for each in (paths.root, paths.state) if is_open_to_others(each)]
    for folder in open_folders:
        others = f"others on this machine can look into {folder}"
        yield warned(others, f"Run `chmod 700 {shown(folder)}`.", close)
    # A closed folder protects the files in it.
    is_way_open = len(open_folders) == 2
    opened = [path for path in files_below(paths.state) if is_way_open and is_open_to_others(path)]
    if opened:
        more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
        step = f"Run `chmod -R go= {shown(paths.state)}`."
        yield warned(f"others may read {opened[0]}{more}", step, close)
    if paths.root.stat().st_uid != os.geteuid():
        yield warned(
            f"{paths.root} belongs to another account, which can read and change all of it",
            f"Run the bot as that account, or run `sudo chown -R $USER {shown(paths.root)}`.",
        )


def files_below(folder: Path) -> Iterator[Path]:
    """The files of all folders below, without links."""
    for where, _, names in os.walk(folder):
        yield from (path for name in names if not (path := Path(where, name)).is_symlink())


def _remove_lock(lock: Path) -> str:
    """Remove a lock that is not a file, since it cannot be held. A folder with content stays."""
    mode = lock.lstat().st_mode
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        lock.rmdir()
    else:
        lock.unlink()
    return f"state/.locks/{lock.name}, which was not a file, is removed"


def _links(paths: DataPaths) -> Found:
    def relink() -> str:
        made = remake_links(paths)
        names = _joined(path.relative_to(paths.root) for path in made)
        return f"{names} made again" if made else ""

    if lost := lost_links(paths):
        names = _joined(path.relative_to(paths.root) for path in lost)
        wrong = f"links that are missing or lead elsewhere: {names}"
        yield warned(wrong, "The next start makes them again.", relink)
    for link in displaced_links(paths):
        name = link.relative_to(paths.root)
        yield warned(
            f"{name} is yours, and so the agent does not find there what it looks for",
            f"Run `mv {shown(link)} {shown(link)}.mine`, then `ollim-bot doctor --fix`.",
        )


def _ignored(paths: DataPaths) -> Found:
    def add() -> str:
        added = add_ignored(paths)
        return f"{_joined(added)} added to .gitignore" if added else ""

    try:
        missing = missing_ignored(paths)
    except UnsuitableFile as unfit:
        step = f"Run `mv {shown(paths.gitignore)} {shown(paths.gitignore)}.old`."
        yield warned(f".gitignore is {unfit.reason}", step)
        return
    if missing:
        lacks = f".gitignore lacks {_joined(missing)}"
        risk = "your own `git add` may take in what is private"
        yield warned(f"{lacks}: {risk}", "Add the lines.", add)


def _joined(names: Iterable[object]) -> str:
    words = [str(name) for name in names]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def leftovers(paths: DataPaths, now: datetime) -> Found:
    """What was set aside for the owner, and what a killed program left behind."""
    is_clean = True
    for path, what, remove in _left_for_owner(paths, now):
        is_clean = False
        age = duration_in_words(max(now - _stamped(path), timedelta(0)))
        yield warned(f"{what} {age} ago", f"{remove} {shown(path)}`.")
    if record := interrupted_maintenance(paths):
        is_clean = False
        words = f"the {record.kind} of {describe(record.since, now)} was cut off"
        yield warned(words, f"Run `ollim-bot {record.kind}` again; it begins anew.")
    if unfinished := list(temporary_files(paths)):
        is_clean = False
        count, first = counted(len(unfinished), "file"), unfinished[0]
        left = f"{count} left behind by a write that was cut off, such as "
        step, mend = f"Run `rm {shown(first)}`.", partial(_remove_temporary, paths)
        yield warned(f"{left}{first.relative_to(paths.root)}", step, mend)
    if is_clean:
        yield passed("none")


def _left_for_owner(paths: DataPaths, now: datetime) -> Iterator[tuple[Path, str, str]]:
    """Each path, what it is, and how it is removed."""
    look = "Look whether you need something of it, then run"
    for pattern, what, remove in (
        ("*.corrupt-*", "could not be understood and was set aside", "rm -r"),
        ("*.unapplied-*", "is what the bot knew when a change by hand took its place", "rm"),
    ):
        for path in sorted([*paths.state.glob(pattern), *paths.calendars.glob(pattern)]):
            yield path, f"{path.parent.name}/{path.name} {what}", f"{look} `{remove}"
    for path in sorted(paths.root.parent.glob(f"{paths.root.name}.before-restore-*")):
        if now - _stamped(path) > _KEPT_AFTER_RESTORE:
            what = f"{path} is the data from before a restore"
            yield path, what, "If you need nothing of it, run `rm -r"


def _stamped(path: Path) -> datetime:
    """The moment in the name; else that of the last change."""
    text = path.name.rpartition("-")[2].removesuffix("Z").partition(".")[0]
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return datetime.fromtimestamp(path.lstat().st_ctime, UTC)


def temporary_files(paths: DataPaths) -> Iterator[Path]:
    """Files of an atomic write that was cut off more than an hour ago.

    Elsewhere than in `state/`, which is the program's alone, only the names that its writes use.
    """
    own = (paths.identity, paths.user, paths.tasks, paths.mcp, paths.env_file, paths.gitignore)
    jobs = map(paths.jobs, JobKind)
    candidates = [
        *(path.with_name(f".{path.name}.tmp") for path in own),
        *(path for folder in jobs for path in sorted(folder.glob(".*.md.tmp"))),
    ]
    # What a person sent keeps its name below these.
    sent = {str(paths.attachments), *(str(paths.state / name) for name in ("uploads", *CHANNELS))}
    for where, below, names in os.walk(paths.state):
        below[:] = sorted(name for name in below if os.path.join(where, name) not in sent)
        candidates += [
            Path(where, name)
            for name in sorted(names)
            if name == _SALVAGED or (name.startswith(".") and name.endswith(".tmp"))
        ]
    yield from (path for path in candidates if is_older_than(path, _HOUR))


def is_older_than(path: Path, seconds: float) -> bool:
    """Whether a regular file was last written that long ago."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > seconds


def _remove_temporary(paths: DataPaths) -> str:
    found = list(temporary_files(paths))
    for path in found:
        path.unlink(missing_ok=True)
    return f"{counted(len(found), 'unfinished file')} removed" if found else ""


def received_files(paths: DataPaths, much: int = _MUCH) -> Found:
    """The size of all that the owner sent; more than `much` bytes are worth a look."""
    sizes = {
        folder: [path.lstat().st_size for path in files_below(folder)]
        for folder in (paths.attachments, paths.downloads)
    }
    size, number = sum(map(sum, sizes.values())), sum(map(len, sizes.values()))
    count = f"{counted(number, 'file')} that you sent, {size // _MB} MB"
    if size > much:
        folder = max(sizes, key=lambda folder: sum(sizes[folder]))
        yield warned(count, f"Run `ls -lS {shown(folder)}`, and remove what you do not need.")
    else:
        yield passed(count)


def check_standby(given: DoctorInput) -> Iterable[DoctorFinding]:
    if given.valid_settings.database_url is None:
        return [off("not set up: your data are in a file on this machine")]
    findings: Iterable[DoctorFinding] = load_standby("checks").check_standby(given)
    return findings


_MEND_FILE = "Mend the file; `ollim-bot doctor` shows whether it is right."
_MEND_POLICY = "Mend tool-policy.yaml; `ollim-bot doctor` shows whether it is right."

CHECKS = (
    Check("data directory", lambda given: data_directory(given.data.paths), place=40),
    Check("leftovers", lambda given: leftovers(given.data.paths, given.local_now), place=50),
    Check("files", lambda given: received_files(given.data.paths), place=60),
    Check("git", lambda given: git_history(given.data.paths.root), place=70),
    Check("tool policy", lambda given: tool_policy(given.data.paths), _MEND_POLICY, place=130),
    Check("subagents", check_subagents, _MEND_FILE, place=140),
    Check("database", check_database, place=180),
    Check("copies", check_copies, is_of_machine=True, place=190),
    Check("standby", check_standby, place=200),
    Check("state files", check_state_files, place=210),
)
