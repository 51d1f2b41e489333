"""The files of one machine and the table of all machines: stored by the leader, else laid out."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from ollim_bot.features.keeping.backup import Power
from ollim_bot.features.keeping.restore import ORDINARY, power_of, text_of
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.store.connection import Statements
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, remove_durably, write_atomically
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.owner_files import policy_in, subagent_in
from ollim_bot.kernel.store.routine_format import RHYTHM_FIELDS
from ollim_bot.kernel.store.snapshot import folded
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS, may_use
from ollim_bot.kernel.values.jobs import Job
from ollim_bot.kernel.values.permissions import Pattern, ToolPolicy, beyond_main
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.shared_files import SKILL_FILE, JobFile, JobFolder
from ollim_bot.kernel.values.skills import may_run_commands
from ollim_bot_standby.file_layout import (
    MOST_AT_ONCE,
    NO_FILE,
    PIECE,
    AddsPower,
    Ask,
    FileIndex,
    FileLayout,
    FilePiece,
    FileRows,
    FileVersion,
    LaidOut,
    Look,
    SetAside,
    Signature,
    WaitingFile,
    WaitingFiles,
    pieces_of,
    set_asides,
    why_left_out,
)

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


# How many files and pieces of files one step stores.
_MOST_AT_ONCE = 200
_SHOWN = 5
_WAS_SET_ASIDE = (
    "{machine}: {files} had been changed there by hand and not been stored when another machine "
    "took over. The stored version counts; yours is kept in {folder}."
)
_WAITS = (
    "{machine}: another machine has changed {files}, by which the bot may do more here. Look "
    "through it with `ollim-bot standby accept`; until then what was here before counts."
)
_LEFT_OUT = "{path} is not shared with the other machines: {reason}."


class Origin(NamedTuple):
    """`token` names the files of one bot; `epoch` is the lease in which they were changed last."""

    token: str
    epoch: int


class _Change(NamedTuple):
    path: str
    version: FileVersion
    signature: Signature | None


class StoredFiles:
    """While this machine leads, its disk counts, and each step stores what has changed there.

    Otherwise the table counts and is laid out here, but for what `adds_power`: that waits until the
    owner has looked through it on this machine. `report` gets each sentence once.
    """

    def __init__(
        self,
        paths: DataPaths,
        adds_power: AddsPower,
        report: Callable[[str], None],
        disk: Disk | None = None,
    ) -> None:
        self._paths = paths
        self._adds_power = adds_power
        self._report = report
        self._disk = disk or OsDisk()
        self._index = FileIndex(paths.root)
        self._mark = CurrentFiles(paths, self._disk)
        self._waiting = WaitingFiles(paths, self._disk)
        self._lock = FileLock(paths.lock_of(paths.files_current))
        self._is_stopped = False
        self._laid_out: int | None = None
        self._origin: Origin | None = None
        self._is_noted = False
        self._is_due = True
        self._look: Look | None = None
        self._changes: Iterator[_Change | FilePiece] = iter(())
        self._sent: list[_Change | FilePiece] = []
        self._told: set[str] = set()

    def take_over(self, ask: Ask, epoch: int) -> None:
        """Make the disk of this leader the one that counts. Raises `StorageError`.

        It counts at once if no other machine has changed a file since this one led last: what was
        changed here meanwhile is stored by the next step. Else the table is laid out first.
        """
        self._is_stopped = True
        with self._lock.held():
            found = _origin(ask)
            if found is None or self._mark.covers(found):
                self._settle_all(ask(lambda rows: FileRows(rows).current()))
            else:
                layout = FileLayout(self._paths, self._index, self._adds_power, self._disk)
                self._tell(layout.lay_out_all(ask))
            token = secrets.token_hex(8) if found is None else found.token
            self._origin = Origin(token, epoch)
            self._mark.write(self._origin)

    def _settle_all(self, stored: Mapping[str, FileVersion]) -> None:
        """Leave out what still waits, and store what differs by the next step."""
        waiting, kept = self._waiting.read(), dict[str, WaitingFile]()
        for path, version in stored.items():
            here = ""
            with suppress(OSError):
                here = self._index.read(path).version.hash if path in waiting else ""
            if waiting.get(path) == (version.hash, here):
                self._index.settle_as_it_is(path, version)
                kept[path] = waiting[path]
            else:
                self._index.settle(path, version, None)
        if kept != waiting:
            self._waiting.write(kept)

    def tell_set_aside(self) -> None:
        """Report all that was ever set aside on this disk and is still there, and what waits."""
        machine = platform.node()
        for each in set_asides(self._paths):
            files = named(each.files)
            self._tell_once(_WAS_SET_ASIDE.format(machine=machine, files=files, folder=each.folder))
        if waiting := self._waiting.read():
            self._tell_once(_WAITS.format(machine=machine, files=named([*waiting])))

    def follow(self, ask: Ask, leader_epoch: int) -> None:
        """Lay out what has changed in the table since the last call, for a machine that stands by.

        Nothing while the lease is the last one of this machine: it may lead on. Raises
        `StorageError`.
        """
        with self._lock.held():
            found = _origin(ask)
            if (
                self._is_stopped
                or found is None
                or self._mark.covers(Origin(found.token, leader_epoch))
            ):
                return
            self._mark.remove()
            newest = ask(lambda rows: FileRows(rows).newest())
            layout = FileLayout(
                self._paths, self._index, self._adds_power, self._disk, lambda: not self._is_stopped
            )
            if self._laid_out is None:
                self._tell(layout.lay_out_all(ask))
            elif newest > self._laid_out:
                since = self._laid_out
                changed = ask(lambda rows: FileRows(rows).current(since))
                self._tell(layout.lay_out(ask, changed))
            self._laid_out = newest

    def _tell(self, done: LaidOut) -> None:
        for each in done.problems:
            self._tell_once(each)
        if done.set_aside or done.waiting:
            self.tell_set_aside()

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._report(sentence)

    def stop(self) -> None:
        """Lay out nothing more."""
        self._is_stopped = True

    def look_everywhere(self) -> None:
        """Have the next `find` notice edits in place too, which change no folder."""
        self._is_due = True

    @property
    def has_changes(self) -> bool:
        """Whether the last `find` has found something to store."""
        return bool(self._sent)

    def find(self) -> bool:
        """Find what the next step shall store; True if more waits than goes into one step.

        What the step before could not store is found again.
        """
        if self._look is None or self._sent:
            self._look = self._index.look(is_whole=self._is_due or bool(self._sent))
            self._sent, self._is_due = [], False
            self._changes = self._changes_in(self._look)
            for path, reason in self._look.left_out.items():
                self._tell_once(_LEFT_OUT.format(path=path or "The data directory", reason=reason))
        size = 0
        for each in self._changes:
            self._sent.append(each)
            size += len(each.content) if isinstance(each, FilePiece) else 0
            if size > MOST_AT_ONCE - PIECE or len(self._sent) >= _MOST_AT_ONCE:
                return True
        return False

    def _changes_in(self, look: Look) -> Iterator[_Change | FilePiece]:
        for path in sorted(look.suspects):
            try:
                file = self._index.read(path)
            except FileNotFoundError:
                continue
            except OSError as refused:
                self._tell_once(_LEFT_OUT.format(path=path, reason=why_left_out(refused)))
                continue
            if self._index.versions.get(path) == file.version:
                self._index.settle(path, file.version, file.signature)
                continue
            yield from pieces_of(file.version.hash, file.content)
            yield _Change(path, file.version, file.signature)
        for path in sorted(look.gone):
            yield _Change(path, NO_FILE, None)

    def write(self, statements: Statements) -> None:
        """Store what `find` has found, in the transaction of the step."""
        if not self._sent:
            return
        rows = FileRows(statements)
        changes = {each.path: each.version for each in self._sent if isinstance(each, _Change)}
        rows.put(changes, [each for each in self._sent if isinstance(each, FilePiece)])
        if not self._is_noted and self._origin is not None:
            rows.note_origin(f"{self._origin.token} {self._origin.epoch}")

    def settle(self) -> None:
        """The step is committed."""
        self._is_noted |= bool(self._sent)
        for each in self._sent:
            if isinstance(each, _Change):
                self._index.settle(*each)
        self._sent = []

    def settle_look(self) -> None:
        """All that the look has found is committed."""
        if self._look is not None:
            self._index.settle_folders(self._look)
        self._look = None


def named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(paths[:_SHOWN])}{more}"


class CurrentFiles:
    """A file that says in which lease this disk was the one that counts; none for a standby."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._path = paths.files_current
        self._disk = disk or OsDisk()

    def write(self, origin: Origin) -> None:
        """Raises `StorageError`."""
        line = f"{origin.token} {origin.epoch}\n"
        write_atomically(self._disk, self._path, line.encode(), PRIVATE)

    def claim(self, ask: Ask, epoch: int) -> None:
        """Let this disk be the truth from this lease on, over earlier changes on other machines.

        Raises `StorageError`.
        """
        if (found := _origin(ask)) is not None:
            self.write(Origin(found.token, max(found.epoch, epoch)))

    def remove(self) -> None:
        """Raises `StorageError`."""
        remove_durably(self._disk, self._path)

    def covers(self, origin: Origin) -> bool:
        """Whether this disk counted in this lease, or in a later one."""
        try:
            own = _parsed(self._disk.read(self._path, SizeLimit.NOTE).decode("ascii"))
        except (OSError, ValueError):
            return False
        return own is not None and own.token == origin.token and own.epoch >= origin.epoch


def _origin(ask: Ask) -> Origin | None:
    return ask(lambda rows: _parsed(FileRows(rows).origin()))


def _parsed(text: str) -> Origin | None:
    match text.split():
        case [token, epoch] if epoch.isdecimal():
            return Origin(token, int(epoch))
    return None


@dataclass(frozen=True, slots=True)
class FilesState:
    """The files of this disk beside the table.

    `unlike` are those that differ, the oldest change first, at `since` by the clock of this
    machine; `set_aside` is what was changed here by hand and never stored. `waiting` can act, and
    the owner has not seen it here.
    """

    unlike: tuple[str, ...]
    since: datetime | None
    set_aside: tuple[SetAside, ...]
    waiting: tuple[str, ...]


def compare_files(paths: DataPaths, ask: Ask) -> FilesState:
    """Look at every file. Raises `StorageError`."""
    index = FileIndex(paths.root)
    stored = ask(lambda rows: FileRows(rows).current())
    found = index.look(is_whole=True)
    waiting = WaitingFiles(paths).read()
    unlike = {
        path: signature
        for path, signature in found.suspects.items()
        if path not in waiting and _is_unlike(index, path, signature, stored.get(path))
    }
    missing = [
        path
        for path, each in stored.items()
        if each != NO_FILE and path not in {*found.suspects, *waiting}
    ]
    order = sorted(unlike, key=lambda path: max(unlike[path][:2]))
    since = None if not order else datetime.fromtimestamp(max(unlike[order[0]][:2]) / 1e9, UTC)
    aside = tuple(set_asides(paths))
    return FilesState((*order, *sorted(missing)), since, aside, tuple(sorted(waiting)))


def _is_unlike(
    index: FileIndex, path: str, signature: Signature, stored: FileVersion | None
) -> bool:
    # A large file of the same size is taken to be the same: to read all of them would take long.
    if stored is not None and signature[2] == stored.size > MOST_AT_ONCE:
        return False
    try:
        return index.read(path).version != stored
    except OSError:
        return False
