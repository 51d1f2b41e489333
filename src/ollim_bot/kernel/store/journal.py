"""The git history of the data directory, also begun anew, and the one way in which git is run.

The history is a courtesy: changes are kept as rows, and no step waits for git or fails with it.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from ollim_bot.kernel.base.environment import child_environment, program_path, search_path
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, TooLarge, read_file, unsuitable_file
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.store.files import FileLock, OsDisk, write_atomically
from ollim_bot.kernel.values.about_me import source_line
from ollim_bot.kernel.values.changes import ChangeFilter, ChangeRow, OlderChange
from ollim_bot.kernel.values.forgetting import Passage

_SETTINGS = (
    "commit.gpgsign=false",
    "core.fsmonitor=false",
    # A power cut must not leave empty objects; this flushes them together.
    "core.fsync=added,reference",
    "core.fsyncMethod=batch",
    "core.hooksPath=/dev/null",
    "core.safecrlf=false",
    "gc.autoDetach=false",
    "i18n.commitEncoding=UTF-8",
    "init.defaultBranch=main",
    "maintenance.auto=false",
)
_ENVIRONMENT = {
    "GIT_AUTHOR_EMAIL": "ollim-bot@localhost",
    "GIT_AUTHOR_NAME": "ollim-bot",
    "GIT_COMMITTER_EMAIL": "ollim-bot@localhost",
    "GIT_COMMITTER_NAME": "ollim-bot",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_WHERE_GIT_AND_ITS_SETTINGS_ARE = (
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH"),
    "XDG_CONFIG_HOME",
)
_SECONDS_TO_END = 2.0
# Lines of the history in which words are looked for.
_MOST_SEARCHED = 5000
_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_CONFLICTS = frozenset(("DD", "AU", "UD", "UA", "DU", "AA", "UU"))
_AT_THE_TOP = b"true\n\n"
_PATHS_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")
# What git says while another git is at work, or files change while it reads them.
_PASSING = (".lock'", "did not match any file")


class GitTrouble(OllimError):
    """Git failed; the files are unchanged."""

    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"git could not add to the history of {root}: {words}. Changes are kept, and it is "
            "tried again. `git status` there says more."
        )
        self.words = words


class GitMissing(GitTrouble):
    def __init__(self, program: str) -> None:
        OllimError.__init__(
            self,
            f"{program} was not found; changes are kept but without history. "
            "Install git, for example with `apt install git`.",
        )
        self.words = f"{program} was not found"


_ANY_TROUBLE = (OllimError, OSError)


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in a folder; `folder` is that of the repository, once it is opened."""

    root: Path
    program: str = "git"
    limit: float = 30.0
    folder: Path | None = None
    # How much less urgent git is than this process.
    niceness: int = 0

    def run(self, command: str, *arguments: str, given: bytes = b"") -> bytes:
        """Run git and return its output.

        Raises `GitTrouble` if it fails or exceeds the time limit.
        """
        with self._process(command, *arguments) as process:
            try:
                out, err = process.communicate(given, timeout=self.limit)
            except subprocess.TimeoutExpired:
                _end(process)
                words = f"`git {command}` was stopped after {self.limit:g} s"
                raise GitTrouble(self.root, words) from None
        if process.returncode:
            said = err.decode(errors="replace").splitlines()
            complaints = (line for line in said if line.startswith(("error: ", "fatal: ")))
            words = next(complaints, "").partition(": ")[2].rstrip(".")
            raise GitTrouble(self.root, words or f"exit code {process.returncode}")
        return out

    def opened(self) -> Git:
        """Git in the repository of the folder itself, never of a parent; made if there is none."""
        if not has_repository(self.root):
            self.run("init", "--quiet", "--template=")
        asked = ("--is-inside-work-tree", "--show-prefix", "--absolute-git-dir")
        found = self.run("rev-parse", *asked)
        if not found.startswith(_AT_THE_TOP):
            raise GitTrouble(self.root, f"{self.root / '.git'} is not a repository")
        folder = os.fsdecode(found.removeprefix(_AT_THE_TOP).removesuffix(b"\n"))
        return replace(self, folder=Path(folder))

    def changes(self) -> list[tuple[PurePosixPath, bool]]:
        """The files that differ from the last commit, and whether the index has them as they are.

        Ignored files and other repositories are left out. Raises `GitTrouble` while a merge, a
        rebase or a conflict waits for its owner.
        """
        assert self.folder is not None
        entries = self._status()
        is_begun = any((self.folder / name).exists() for name in _UNFINISHED)
        if is_begun or any(entry[:2] in _CONFLICTS for entry in entries):
            raise GitTrouble(self.root, "a merge or rebase there is not finished")
        return [
            (PurePosixPath(entry[3:]), entry[1] == " ")
            for entry in entries
            # What its owner has taken out of the history stays out.
            if not (entry[:2] == "D " and os.path.lexists(self.root / entry[3:]))
            and not entry.endswith("/")
        ]

    def _status(self) -> list[str]:
        shape = ("--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all")
        return [os.fsdecode(each) for each in self.run("status", *shape).split(b"\0") if each]

    def _process(self, *arguments: str) -> subprocess.Popen[bytes]:
        settings = (word for setting in _SETTINGS for word in ("-c", setting))
        where = (f"--git-dir={self.folder}", f"--work-tree={self.root}") if self.folder else ()
        environment = {
            **child_environment(os.environ, *_WHERE_GIT_AND_ITS_SETTINGS_ARE),
            **_ENVIRONMENT,
            # Git also searches PATH while the data directory is the current one.
            "PATH": search_path(os.environ.get("PATH", os.defpath)),
        }
        program = program_path(self.program, environment["PATH"])
        if program is None:
            raise GitMissing(self.program)
        try:
            # A session of its own has no terminal to prompt on, and Ctrl-C does not reach it.
            process = subprocess.Popen(
                (program, *settings, *where, *arguments),
                cwd=self.root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError):
            if self.root.is_dir():
                raise GitMissing(self.program) from None
            raise
        if self.niceness:
            with suppress(OSError):
                ours = os.getpriority(os.PRIO_PROCESS, 0)
                os.setpriority(os.PRIO_PROCESS, process.pid, ours + self.niceness)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    # Terminate first: a git that is killed at once leaves its index.lock behind.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        os.killpg(process.pid, signal.SIGKILL)


def has_repository(folder: Path) -> bool:
    """Whether the folder itself is a repository. A half-created one does not count."""
    dot_git = folder / ".git"
    return dot_git.is_file() or os.path.lexists(dot_git / "HEAD")


def older_changes(
    root: Path, found: Sequence[ChangeRow], limit: int, meant: ChangeFilter | None = None
) -> list[OlderChange]:
    """What the history has from before the last of the changes, up to `limit` lines with them."""
    wanted, left = meant or ChangeFilter(), limit - len(found)
    if left <= 0:
        return []
    until = (f"--before={int(found[-1].at.timestamp())}",) if found else ()
    most = _MOST_SEARCHED if wanted.words else left
    lines = _log(root, f"--max-count={most}", "--format=%ct %s", *until)
    older = (OlderChange(datetime.fromtimestamp(int(at), UTC), words) for at, _, words in lines)
    return [each for each in older if wanted.has_older(each.what)][:left]


def _log(root: Path, *options: str) -> list[tuple[str, str, str]]:
    """The lines of the log, parted at the first blank; none without a repository."""
    if not has_repository(root):
        return []
    try:
        said = Git(root).run("log", *options)
    except _ANY_TROUBLE:
        return []
    return [line.partition(" ") for line in said.decode(errors="replace").splitlines()]


_DATA = DataPaths(Path())
_NEVER_TRACKED = tuple(
    path.parts
    for path in (
        _DATA.state,
        _DATA.downloads,
        _DATA.claude_skills,
        _DATA.routine_spec_link,
        _DATA.webhook_spec_link,
    )
)
_NEVER_TRACKED_NAME = re.compile(r"(?is)\.git|(?-i:\.\.|mcp\.json|\.env(?:\..*)?)")
_SUBJECT_LENGTH = 72


def is_tracked(relative: PurePath) -> bool:
    """Whether a file of the data directory may be committed, before `.gitignore` is asked."""
    parts = relative.parts
    if parts == _DATA.session_history.parts:
        return True
    if relative.is_absolute() or any(parts[: len(other)] == other for other in _NEVER_TRACKED):
        return False
    is_half_written = relative.name.startswith(".") and relative.suffix == ".tmp"
    return bool(parts) and not (is_half_written or any(map(_NEVER_TRACKED_NAME.fullmatch, parts)))


def commit_message(noted: Sequence[tuple[PurePosixPath, str]]) -> str:
    """The only message as it is, or a summary of several followed by each on a line."""
    messages = [
        message.replace("\0", " ").strip() or f"change {place}"
        for place, message in dict.fromkeys(noted)
    ]
    if len(messages) == 1:
        return f"{messages[0]}\n"
    lines = [" ".join(message.split()) for message in messages]
    subject = shortened(f"{len(lines)} changes: {', '.join(lines)}", _SUBJECT_LENGTH)
    return "\n".join((subject, "", *lines, ""))


class Note(NamedTuple):
    path: Path
    message: str
    source: str = ""


_SECONDS_FOR_ANOTHER_GIT = 0.5
_PAUSE_AFTER_TROUBLE = 10.0
_MOST_WAITING = 10_000
_ROUNDS_BETWEEN_TIDYING = 500
# What the thread has git do can wait for everything else on the machine.
_NICENESS_OF_THREAD = 10


def open_journal(paths: DataPaths, *, on_problem: Callable[[str], None]) -> GitJournal:
    """The journal of the data directory, with the one lock that all processes share."""
    lock = FileLock(paths.lock_of(paths.root / ".git"))
    return GitJournal(paths.root, lock, on_problem=on_problem)


class GitJournal:
    """Commits what is noted, in a thread after `start`, or at each call of `flush`.

    What keeps git from working is passed to `on_problem` as a sentence, once, from the thread that
    met it; the notes wait and are tried again. A note that dies with the process loses only its
    message: the next `prepare` commits the file.
    """

    def __init__(
        self,
        root: Path,
        lock: FileLock,
        *,
        on_problem: Callable[[str], None],
        pause: float = 0.2,
        longest_pause: float = 2.0,
        git: str = "git",
        time_limit: float = 30.0,
    ) -> None:
        self._root = Path(os.path.realpath(root))
        self._git = Git(self._root, git, time_limit)
        self._lock = lock
        self._on_problem = on_problem
        self._pause = pause
        self._longest_pause = longest_pause
        self._changed = threading.Condition()
        self._waiting: dict[Note, int] = {}
        self._serial = itertools.count()
        self._first_noted = self._last_noted = self._not_before = 0.0
        self._told: set[str] = set()
        self._worker: threading.Thread | None = None
        self._closing = False

    def note(self, path: Path, message: str, source: str = "") -> None:
        now = time.monotonic()
        with self._changed:
            self._waiting[Note(path, message, source)] = next(self._serial)
            self._last_noted = now
            if len(self._waiting) == 1:
                self._first_noted = now
                self._changed.notify()
            elif len(self._waiting) > _MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]

    def prepare(self) -> None:
        """Create the repository if there is none, and commit changes without a note."""
        self.note_unseen()
        self.flush()

    def note_unseen(self) -> None:
        """Create the repository if there is none, and note the changes that have no note.

        It takes no longer than a look at the files; the commit, which may, is left to the thread.
        """
        who = "by hand" if has_repository(self._root) else "begin with"
        try:
            with self._lock.held():
                changes = self._git.opened().changes()
        except _ANY_TROUBLE as trouble:
            self._put_off(trouble)
            return
        for path, _ in changes:
            if is_tracked(path):
                self.note(self._root / path, f"{who}: {path}")

    def flush(self) -> bool:
        """Commit what waits, in this thread. Never raises; False if something still waits."""
        with self._changed:
            batch = dict(self._waiting)
        if not batch:
            return True
        try:
            with self._lock.held():
                refusal = self._commit_patiently(batch)
        except _ANY_TROUBLE as trouble:
            self._put_off(trouble)
            return False
        with self._changed:
            # A note that was repeated during the commit is about a later change.
            for note, serial in batch.items():
                if self._waiting.get(note) == serial:
                    del self._waiting[note]
            self._first_noted = time.monotonic()
        if refusal:
            self._tell(refusal)
        else:
            self._told.clear()
        return not self._waiting

    def start(self) -> None:
        """From now on, commit in a thread whenever no note has come for a while."""
        if self._worker is None:
            self._git = replace(self._git, niceness=_NICENESS_OF_THREAD)
            self._worker = threading.Thread(target=self._work, name="journal", daemon=True)
            self._worker.start()

    def close(self, limit: float = 10.0) -> None:
        """Commit what waits and end the thread; abandon it after `limit` seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._worker is None:
            self.flush()
        else:
            self._worker.join(limit)

    def __enter__(self) -> GitJournal:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _commit_patiently(self, notes: Iterable[Note]) -> str:
        git = self._git.opened()
        try:
            return record(git, notes)
        except GitTrouble as trouble:
            if not any(sign in trouble.words for sign in _PASSING):
                raise
        # Another git is at work here: leave it a moment, and time afterwards, too.
        self._not_before = time.monotonic() + _PAUSE_AFTER_TROUBLE
        time.sleep(_SECONDS_FOR_ANOTHER_GIT)
        return record(git, notes)

    def _put_off(self, trouble: OllimError | OSError) -> None:
        self._not_before = time.monotonic() + _PAUSE_AFTER_TROUBLE
        if isinstance(trouble, OSError):
            trouble = GitTrouble(self._root, trouble.strerror or str(trouble))
        self._tell(str(trouble))

    def _tell(self, sentence: str) -> None:
        """Tell the sentence, unless it was told since git worked last."""
        if sentence not in self._told:
            self._told.add(sentence)
            # A file name need not be UTF-8, but printed or sent text must be.
            self._on_problem(sentence.encode("utf-8", "backslashreplace").decode("utf-8"))

    def _work(self) -> None:
        for batches in itertools.count():
            if not self._batch_is_due():
                break
            self.flush()
            if batches % _ROUNDS_BETWEEN_TIDYING == 0:
                # A commit does not pack loose objects, as it would take longer.
                with suppress(*_ANY_TROUBLE):
                    self._git.opened().run("gc", "--auto", "--quiet")
        self.flush()

    def _batch_is_due(self) -> bool:
        """Wait until a batch should be committed; False if the journal closes instead."""
        with self._changed:
            while not self._closing:
                delay = None
                if self._waiting:
                    quiet = min(
                        self._last_noted + self._pause, self._first_noted + self._longest_pause
                    )
                    delay = max(quiet, self._not_before) - time.monotonic()
                if delay is not None and delay <= 0:
                    return True
                self._changed.wait(delay)
        return False


def record(git: Git, notes: Iterable[Note]) -> str:
    """Commit the files that the notes name, and nothing else that may be staged.

    A note about a folder names all files in it. Unchanged files and files that are never tracked
    are ignored. Returns a sentence if some were refused, else nothing.
    """
    real_folder = cache(os.path.realpath)
    placed = [(place, note) for note in notes if (place := _place(git.root, note, real_folder))]
    noted = {place for place, _ in placed}
    named = [
        (path, is_staged)
        for path, is_staged in git.changes()
        if is_tracked(path) and not noted.isdisjoint((path, *path.parents))
    ]
    fit, refusal = _stage(git, named)
    if fit:
        _commit_files(git, fit, placed)
    return refusal


def _stage(
    git: Git, named: Sequence[tuple[PurePosixPath, bool]]
) -> tuple[list[PurePosixPath], str]:
    """Put the files into the index that it has not as they are.

    Returns those that it has then, and a sentence if some were refused. Raises `GitTrouble` if all
    were refused.
    """
    wanted = dict(named)
    refusal = ""
    for path in [path for path, is_staged in named if not is_staged]:
        if isinstance(unfit := unsuitable_file(git.root / path, SizeLimit.IN_HISTORY), TooLarge):
            refusal = f"{path} is not in the history: it is {unfit.reason}."
            del wanted[path]
    new = [path for path, is_staged in wanted.items() if not is_staged]
    try:
        if new:
            git.run("add", "--ignore-errors", *_PATHS_FROM_STDIN, given=_as_input(new))
    except GitTrouble as trouble:
        taken = [path for path, is_staged in git.changes() if is_staged and path in wanted]
        if not taken:
            raise
        return taken, str(trouble)
    return [*wanted], refusal


def _commit_files(
    git: Git, paths: Sequence[PurePosixPath], placed: Iterable[tuple[PurePosixPath, Note]]
) -> None:
    assert git.folder is not None
    seen = {place for path in paths for place in (path, *path.parents)}
    told = [(place, note) for place, note in placed if place in seen]
    message = commit_message([(place, note.message) for place, note in told])
    sources = dict.fromkeys(source_line(str(place), note.source) for place, note in told)
    lines = "".join(f"{line}\n" for line in sources if line)
    text = git.folder / "OLLIM_BOT_MESSAGE"
    whole = f"{message}\n{lines}" if lines else message
    text.write_text(whole, encoding="utf-8", errors="backslashreplace")
    options = ("--quiet", "--only", "--no-verify", "--cleanup=verbatim", f"--file={text}")
    try:
        git.run("commit", *options, *_PATHS_FROM_STDIN, given=_as_input(paths))
    finally:
        text.unlink(missing_ok=True)


def _as_input(paths: Iterable[PurePosixPath]) -> bytes:
    return b"\0".join(os.fsencode(path) for path in paths)


def _place(root: Path, note: Note, real_folder: Callable[[Path], str]) -> PurePosixPath | None:
    """The real place of the file below `root`, through linked folders; None if it is elsewhere."""
    whole = root / note.path
    try:
        return PurePosixPath(Path(real_folder(whole.parent), whole.name).relative_to(root))
    except ValueError:
        return None


# What the owner has set up. All else in the folder of git is history.
SETTINGS = frozenset(("config", "config.worktree", "description", "hooks", "info"))
_LIMIT = 600.0
_HEAD, _REFS, _OBJECTS = _FRAME = ("HEAD", "refs", "objects")
_BRANCH = "ref: refs/heads/"


class HistoryText:
    """The history of a data directory. `root` need not be a repository: then it has no words.

    Raises `OllimError` if the history is not this folder's alone.
    """

    def __init__(self, root: Path) -> None:
        self._git = Git(Path(os.path.realpath(root)), limit=_LIMIT)
        self._folder = self._git.root / ".git"
        self._is_there = has_repository(self._git.root)
        if self._is_there:
            self._git = self._git.opened()
            self._folder = self._git.folder or self._folder
        if (self._folder / "commondir").exists():
            raise OllimError(
                f"The history of {root} is part of another repository, {self._folder}. "
                "Move its `.git` away first; the bot begins a new one."
            )

    def count(self, passage: Passage) -> int:
        """How many versions of files, messages and names have the words, also unreachable ones."""
        return sum(map(passage.is_in_bytes, (*self._objects(), *self._notes())))

    def remotes(self) -> list[str]:
        """The names of the repositories elsewhere, which may have the former history."""
        return self._git.run("remote").decode().split() if self._is_there else []

    def remove(self, passage: Passage) -> bool:
        """Remove all versions and names; False if there is no repository.

        The settings stay, and the next commit begins a new history. A kill leaves a history, or a
        repository without one; both can be committed to.
        """
        if not self._is_there:
            return False
        _remove(self._folder / "packed-refs", *(self._folder / _REFS).iterdir())
        branch = read_file(self._folder / _HEAD, SizeLimit.NOTE)
        if not branch.startswith(_BRANCH.encode()) or passage.is_in_bytes(branch):
            write_atomically(OsDisk(), self._folder / _HEAD, f"{_BRANCH}main\n".encode(), 0o644)
        # The index names objects, so it goes before they do.
        _remove(*(each for each in self._folder.iterdir() if each.name not in SETTINGS | {*_FRAME}))
        _remove(*(self._folder / _OBJECTS).iterdir())
        return True

    def _objects(self) -> Iterator[bytes]:
        listed, place = b"", 0
        if self._is_there:
            listed = self._git.run("cat-file", "--batch-all-objects", "--batch", "--unordered")
        while place < len(listed):
            end = listed.index(b"\n", place)
            size = listed[place:end].rpartition(b" ")[2]
            place = end + 1
            if size.isdigit():  # an object that is missing or damaged has no content
                yield listed[place : place + int(size)]
                place += int(size) + 1

    def _notes(self) -> Iterator[bytes]:
        """What git keeps beside its objects: names, logs, the index, the last message."""
        for path in self._folder.rglob("*") if self._is_there else ():
            relative = path.relative_to(self._folder)
            if relative.parts[0] not in SETTINGS | {_OBJECTS}:
                yield os.fsencode(relative)
                if path.is_file():
                    yield read_file(path, SizeLimit.LOG)


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
