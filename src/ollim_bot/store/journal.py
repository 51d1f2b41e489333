"""The git history of the data directory, and the one way in which git is run."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from ollim_bot.domain.about_me import source_line
from ollim_bot.domain.text import shortened
from ollim_bot.environment import child_environment, program_path, search_path
from ollim_bot.errors import OllimError
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, TooLarge, unsuitable_file
from ollim_bot.store.files import FileLock

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
_ANOTHER_GIT_AT_WORK = (".lock'", "cannot lock ref", "did not match any file")
_SECONDS_TO_END = 2.0


class GitTrouble(OllimError):
    """Git failed; the files are unchanged."""


class GitMissing(GitTrouble):
    def __init__(self, program: str) -> None:
        super().__init__(
            f"{program} was not found; changes are kept but without history. "
            "Install git, for example with `apt install git`."
        )


class GitHung(GitTrouble):
    def __init__(self, root: Path, command: str, limit: float) -> None:
        super().__init__(
            f"`git {command}` in {root} was stopped after {limit:g} s; changes are kept, and it is "
            "tried again. Run `git status` there to see what holds it up."
        )


class GitUnfinished(GitTrouble):
    def __init__(self, root: Path) -> None:
        super().__init__(
            f"A merge or rebase in {root} is not finished; changes are added to the history "
            "after it. `git status` there shows how to go on."
        )


class GitFailed(GitTrouble):
    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"git could not add to the history of {root}: {words}. "
            "Changes are kept, and it is tried again."
        )
        self.words = words


class GitBusy(GitTrouble):
    """Another git is at work in the same repository, or the files changed while git read them."""

    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"Another git is busy in {root}: {words}. Changes are kept, and it is tried again. "
            "If no other git runs there, remove its lock file."
        )


class GitRefuses(GitTrouble):
    """Git refuses to work here at all, for example because the folder belongs to another user."""

    def __init__(self, root: Path, words: str) -> None:
        super().__init__(
            f"git refuses {root}: {words}. Changes are kept but without history. "
            "`git status` there says what to do."
        )


@dataclass(frozen=True, slots=True)
class Git:
    root: Path
    program: str = "git"
    limit: float = 30.0
    options: tuple[str, ...] = ()
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
                raise GitHung(self.root, command, self.limit) from None
        if process.returncode:
            raise self._failure(process.returncode, err.decode(errors="replace"))
        return out

    def _process(self, *arguments: str) -> subprocess.Popen[bytes]:
        settings = (word for setting in _SETTINGS for word in ("-c", setting))
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
                (program, *settings, *self.options, *arguments),
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

    def _failure(self, code: int, text: str) -> GitFailed | GitBusy:
        complaint = _first_complaint(text)
        if not complaint or any(sign in complaint for sign in _ANOTHER_GIT_AT_WORK):
            return GitBusy(self.root, complaint or f"exit code {code} without a reason")
        return GitFailed(self.root, complaint)


def _end(process: subprocess.Popen[bytes]) -> None:
    # Terminate first: a git that is killed at once leaves its index.lock behind.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        os.killpg(process.pid, signal.SIGKILL)


def _first_complaint(text: str) -> str:
    for line in text.splitlines():
        if line.startswith(("error: ", "fatal: ")):
            return line.partition(": ")[2].rstrip(".")
    return ""


_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_CONFLICTS = frozenset(("DD", "AU", "UD", "UA", "DU", "AA", "UU"))
_AT_THE_TOP = b"true\n\n"
_PATHS_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")
_MOST_REFUSALS = 200
_READ_BY_GIT = frozenset((".gitignore", ".gitattributes", ".gitmodules"))


@dataclass(frozen=True, slots=True)
class WorktreeChange:
    """A file that differs from the last commit, by its path below the root.

    `staged` says that the index already has the content of the folder.
    """

    path: PurePosixPath
    staged: bool


@dataclass(frozen=True, slots=True)
class Repository:
    git: Git
    folder: Path

    @classmethod
    def opened(cls, git: Git) -> Repository:
        """The repository of the folder itself, never of a parent; created if there is none."""
        if not has_repository(git.root):
            git.run("init", "--quiet", "--template=")
        folder = _own_git_folder(git)
        there = (f"--git-dir={folder}", f"--work-tree={git.root}")
        return cls(replace(git, options=there), folder)

    def changes(self) -> list[WorktreeChange]:
        """The files that differ from the last commit, except ignored files and other repositories.

        Raises `GitUnfinished` while a merge, a rebase or a conflict waits for its owner.
        """
        self._refuse_to_wait()
        listed = self.git.run(
            "status", "--porcelain", "-z", "-uall", "--no-renames", "--ignore-submodules=all"
        )
        entries = [os.fsdecode(entry) for entry in listed.split(b"\0") if entry]
        if self._is_unfinished() or any(entry[:2] in _CONFLICTS for entry in entries):
            raise GitUnfinished(self.git.root)
        return [
            WorktreeChange(PurePosixPath(entry[3:]), staged=entry[1] == " ")
            for entry in entries
            if not (entry.endswith("/") or self._is_untracked_on_purpose(entry))
        ]

    def stage(self, paths: Sequence[PurePosixPath]) -> dict[PurePosixPath, str]:
        """Put the files into the index. Returns those that git refuses, with the reason."""
        refused: dict[PurePosixPath, str] = {}
        for path in paths:
            unfit = unsuitable_file(self.git.root / path, SizeLimit.IN_HISTORY)
            if isinstance(unfit, TooLarge):
                refused[path] = f"it is {unfit.reason}"
        failures = 0
        fit = [path for path in paths if path not in refused]
        parts: list[Sequence[PurePosixPath]] = [fit] if fit else []
        while parts:
            part = parts.pop()
            try:
                self.git.run("add", *_PATHS_FROM_STDIN, given=_as_input(part))
            except GitFailed as failure:
                failures += 1
                if failures > _MOST_REFUSALS:
                    raise
                if len(part) == 1:
                    refused[part[0]] = failure.words
                else:
                    parts += [part[: len(part) // 2], part[len(part) // 2 :]]
        return refused

    def commit(self, paths: Iterable[PurePosixPath], message: str) -> None:
        """Commit these files as they are now, and nothing else that may be staged."""
        text = self.folder / "OLLIM_BOT_MESSAGE"
        text.write_text(message, encoding="utf-8", errors="backslashreplace")
        try:
            self.git.run(
                "commit",
                "--quiet",
                "--only",
                "--no-verify",
                "--cleanup=verbatim",
                f"--file={text}",
                *_PATHS_FROM_STDIN,
                given=_as_input(paths),
            )
        finally:
            text.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Pack loose objects if there are many.

        A commit does not do this, as it would take longer.
        """
        self.git.run("gc", "--auto", "--quiet")

    def _refuse_to_wait(self) -> None:
        """Refuse unsuitable files that git reads: at a pipe, git would wait until stopped."""
        root = self.git.root
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name != ".git"]
            for name in _READ_BY_GIT.intersection(names):
                path = Path(folder, name)
                if unfit := unsuitable_file(path, SizeLimit.IGNORED):
                    where = path.relative_to(root)
                    raise GitFailed(root, f"{where} is {unfit.reason}; move it away")

    def _is_untracked_on_purpose(self, entry: str) -> bool:
        return entry[:2] == "D " and os.path.lexists(self.git.root / entry[3:])

    def _is_unfinished(self) -> bool:
        return any((self.folder / name).exists() for name in _UNFINISHED)


def has_repository(folder: Path) -> bool:
    """Whether the folder itself is a repository. A half-created one does not count."""
    dot_git = folder / ".git"
    return dot_git.is_file() or os.path.lexists(dot_git / "HEAD")


def _own_git_folder(git: Git) -> Path:
    try:
        found = git.run("rev-parse", "--is-inside-work-tree", "--show-prefix", "--absolute-git-dir")
    except GitFailed as failure:
        raise GitRefuses(git.root, failure.words) from None
    if not found.startswith(_AT_THE_TOP):
        raise GitRefuses(git.root, f"{git.root / '.git'} is not a repository")
    return Path(os.fsdecode(found.removeprefix(_AT_THE_TOP).removesuffix(b"\n")))


def _as_input(paths: Iterable[PurePosixPath]) -> bytes:
    return b"\0".join(os.fsencode(path) for path in paths)


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
_SUBJECT_LENGTH = 72


class Note(NamedTuple):
    path: Path
    message: str
    source: str = ""


def is_tracked(relative: PurePath) -> bool:
    """Whether a file of the data directory may be committed, before `.gitignore` is asked."""
    parts = relative.parts
    if parts == _DATA.session_history.parts:
        return True
    if relative.is_absolute() or any(parts[: len(other)] == other for other in _NEVER_TRACKED):
        return False
    return parts != () and not (_is_half_written(parts[-1]) or any(map(_is_never_tracked, parts)))


def _is_half_written(name: str) -> bool:
    return name.startswith(".") and PurePath(name).suffix == ".tmp"


def _is_never_tracked(part: str) -> bool:
    return part in ("..", ".env", "mcp.json") or part.startswith(".env.") or part.lower() == ".git"


def tracked_changes(repository: Repository) -> list[WorktreeChange]:
    return [change for change in repository.changes() if is_tracked(change.path)]


def record(repository: Repository, notes: Iterable[Note]) -> dict[PurePosixPath, str]:
    """Commit the files that the notes name. Returns what cannot be committed, with the reason.

    A note about a folder names all files in it. Unchanged files and files that are never tracked
    are ignored.
    """
    root = repository.git.root
    real_folder = cache(os.path.realpath)
    placed = [(place, note) for note in notes if (place := _place(root, note.path, real_folder))]
    noted = {place for place, _ in placed}
    wanted = [
        change for change in tracked_changes(repository) if noted.intersection(_line(change.path))
    ]
    refused = repository.stage([change.path for change in wanted if not change.staged])
    recorded = [change.path for change in wanted if change.path not in refused]
    seen = {place for path in recorded for place in _line(path)}
    if recorded:
        told = [(place, note) for place, note in placed if place in seen]
        message = commit_message([(place, note.message) for place, note in told])
        sources = {source_line(str(place), note.source): None for place, note in told}
        lines = "\n".join(filter(None, sources))
        repository.commit(recorded, f"{message}\n{lines}\n" if lines else message)
    elif refused:
        raise GitFailed(root, next(iter(refused.values())))
    return refused | _in_other_repositories(root, noted - seen)


def _place(root: Path, path: Path, real_folder: Callable[[Path], str]) -> PurePosixPath | None:
    """The real place of the file below `root`, through linked folders; None if it is elsewhere."""
    whole = root / path
    try:
        real = Path(real_folder(whole.parent), whole.name)
        return PurePosixPath(real.relative_to(root))
    except ValueError:
        return None


def _line(path: PurePosixPath) -> tuple[PurePosixPath, ...]:
    return (path, *path.parents)


def _in_other_repositories(root: Path, places: Iterable[PurePosixPath]) -> dict[PurePosixPath, str]:
    folders = {folder for place in places if is_tracked(place) for folder in _line(place)[:-1]}
    return {
        folder: "it is a repository of its own"
        for folder in sorted(folders)
        if os.path.lexists(root / folder / ".git")
    }


def commit_message(noted: Sequence[tuple[PurePosixPath, str]]) -> str:
    """The only message as it is, or a summary of several followed by each on a line."""
    messages = [
        message.replace("\0", " ").strip() or f"change {place}"
        for place, message in dict.fromkeys(noted)
    ]
    if len(messages) == 1:
        return f"{messages[0]}\n"
    lines = [" ".join(message.split()) for message in messages]
    subject = _shortened(f"{len(lines)} changes: {', '.join(lines)}")
    return "\n".join((subject, "", *lines, ""))


def _shortened(line: str) -> str:
    return shortened(line, _SUBJECT_LENGTH)


_ANY_TROUBLE = (OllimError, OSError)
_WAITS_WHILE_BUSY = (0.01, 0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25, 0.25)
_SHORTEST_GAP = 2.0
_LONGEST_GAP = 60.0
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

    A problem that keeps git from working is passed to `on_problem` as a sentence, once, from the
    thread that met it; the notes wait and are tried again. A note that dies with the process loses
    only its message: the next `prepare` commits the file.
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
        self._most_waiting = _MOST_WAITING
        self._serial = itertools.count()
        self._first_noted = self._last_noted = self._not_before = 0.0
        self._gap = 0.0
        self._trouble: str | None = None
        self._refused: set[PurePosixPath] = set()
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
            elif len(self._waiting) > self._most_waiting:
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
                changes = tracked_changes(Repository.opened(self._git))
        except _ANY_TROUBLE as trouble:
            self._put_off(trouble)
            return
        with self._changed:
            # However many there are, none of them is given up for a later note.
            self._most_waiting = _MOST_WAITING + len(changes)
        for change in changes:
            self.note(self._root / change.path, f"{who}: {change.path}")

    def flush(self) -> bool:
        """Commit what waits, in this thread. Never raises; False if something still waits."""
        if self._waiting:
            try:
                with self._lock.held():
                    refused = self._commit_waiting()
            except _ANY_TROUBLE as trouble:
                self._put_off(trouble)
            else:
                self._went_well(refused)
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

    @property
    def available(self) -> bool:
        return self.obstacle() is None

    def obstacle(self) -> str | None:
        """What keeps changes out of the history now, as a sentence. Changes nothing."""
        try:
            if has_repository(self._root):
                Repository.opened(self._git).changes()
            else:
                self._git.run("version")
        except _ANY_TROUBLE as trouble:
            return self._sentence(trouble)
        return None

    def _commit_waiting(self) -> Mapping[PurePosixPath, str]:
        with self._changed:
            batch = dict(self._waiting)
        if not batch:
            return {}
        refused = self._record_patiently(batch)
        with self._changed:
            # A note that was repeated during the commit is about a later change.
            for note, serial in batch.items():
                if self._waiting.get(note) == serial:
                    del self._waiting[note]
            self._first_noted = time.monotonic()
        return refused

    def _record_patiently(self, batch: Mapping[Note, int]) -> Mapping[PurePosixPath, str]:
        repository = Repository.opened(self._git)
        for wait in _WAITS_WHILE_BUSY:
            with suppress(GitBusy):
                return record(repository, batch)
            # Another process uses git here: leave it time afterwards, too.
            self._not_before = time.monotonic() + _SHORTEST_GAP
            time.sleep(wait * random.uniform(0.5, 1.5))
        return record(repository, batch)

    def _put_off(self, trouble: OllimError | OSError) -> None:
        sentence = self._sentence(trouble)
        with self._changed:
            self._gap = min(max(2 * self._gap, _SHORTEST_GAP), _LONGEST_GAP)
            self._not_before = time.monotonic() + self._gap
            known = isinstance(trouble, GitUnfinished) or sentence == self._trouble
            self._trouble = sentence
        if not known:
            self._tell(sentence)

    def _went_well(self, refused: Mapping[PurePosixPath, str]) -> None:
        with self._changed:
            self._gap = 0.0
            self._trouble = None
            new = refused.keys() - self._refused
            self._refused |= new
        for path in sorted(new):
            self._tell(f"{path} is not in the history: {refused[path]}.")

    def _tell(self, sentence: str) -> None:
        # A file name need not be UTF-8, but printed or sent text must be.
        self._on_problem(sentence.encode("utf-8", "backslashreplace").decode("utf-8"))

    def _sentence(self, trouble: OllimError | OSError) -> str:
        if isinstance(trouble, OllimError):
            return str(trouble)
        return str(GitFailed(self._root, trouble.strerror or str(trouble)))

    def _work(self) -> None:
        for batches in itertools.count():
            if not self._batch_is_due():
                break
            self.flush()
            if batches % _ROUNDS_BETWEEN_TIDYING == 0:
                self._tidy()
        self.flush()

    def _batch_is_due(self) -> bool:
        """Wait until a batch should be committed; False if the journal closes instead."""
        with self._changed:
            while not self._closing:
                delay = self._delay()
                if delay is not None and delay <= 0:
                    return True
                self._changed.wait(delay)
        return False

    def _delay(self) -> float | None:
        if not self._waiting:
            return None
        quiet = min(self._last_noted + self._pause, self._first_noted + self._longest_pause)
        return max(quiet, self._not_before) - time.monotonic()

    def _tidy(self) -> None:
        with suppress(*_ANY_TROUBLE):
            Repository.opened(self._git).tidy()


def commits_before(root: Path, moment: datetime | None, limit: int) -> list[tuple[datetime, str]]:
    """When something was committed, and as what, the newest first; none without a repository."""
    if not has_repository(root):
        return []
    until = () if moment is None else (f"--before={int(moment.timestamp())}",)
    try:
        said = Git(root).run("log", f"--max-count={limit}", "--format=%ct %s", *until)
    except _ANY_TROUBLE:
        return []
    lines = (line.partition(" ") for line in said.decode(errors="replace").splitlines())
    return [(datetime.fromtimestamp(int(at), UTC), words) for at, _, words in lines]
