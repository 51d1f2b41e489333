"""Keeps every change of a watched file as a row, and undoes changes.

A row is written before the file, under the lock of its folder: a crash in between leaves a row of
a change that was never made, which the next look forgets.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Protocol, TypeVar

from ollim_bot.kernel.base.errors import OllimError, StorageError, Unreadable, WriteFailed
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.change_rows import note_settings
from ollim_bot.kernel.store.document import BadDocument
from ollim_bot.kernel.store.files import (
    SHARED,
    FileLock,
    OsDisk,
    create_atomically,
    remove_durably,
    replace_unchanged,
    stamp,
)
from ollim_bot.kernel.store.job_checker import JobFileChecker, text_at
from ollim_bot.kernel.store.mark_rows import by_hand, hash_of
from ollim_bot.kernel.store.owner_files import policy_in
from ollim_bot.kernel.store.task_file import titles_in
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.changes import (
    OF_CALENDAR,
    BegunWrites,
    Changer,
    ChangeRow,
    merged,
    what_is_left,
)
from ollim_bot.kernel.values.ports import Disk, Journal
from ollim_bot.kernel.values.shared_files import (
    SKILLS,
    FileChange,
    JobFile,
    JobFolder,
    ProfileFile,
    SharedFile,
)
from ollim_bot.kernel.values.taint import TaintMark, marked_taint
from ollim_bot.kernel.values.tasks import title_key

R = TypeVar("R")

# From the least that is allowed unasked to the most.
_MODES = ("dontAsk", "default", "acceptEdits", "bypassPermissions")
TASKS, _POLICY = "tasks.md", "tool-policy.yaml"
# The ending of the files that are read as calendars.
CALENDAR = ".ics"
# The name under which it is known that all files were looked at once.
_ALL = ""
# So many files are looked at in one step: what is due must not wait for ten thousand.
_AT_ONCE = 100
# A note or a task may be marked and not written yet.
_GONE_AFTER = timedelta(days=1)
CUT = "It was too long to be kept. `git log` there has it."
_NOTHING_DONE = "; nothing was undone."
# A file was found changed, and no writer of the program has said so.
_FOUND = (Changer.HAND, Changer.AGENT)
_FOLDERS = (*(kind.plural for kind in JobKind), SKILLS, ".claude/agents")


class Rows(Protocol):
    """The store, for a thread without an event loop."""

    def run(self, step: Step[R]) -> R: ...

    def query(self, question: Step[R]) -> R: ...


@dataclass(frozen=True, slots=True)
class Acting:
    """Who acts in this thread or task now; `key` is the key of the change, if that is given.

    `session` says where the agent acts, as `CALLED_BY`; with `is_told` the owner needs no card.
    """

    by: Changer = Changer.PROGRAM
    key: str = ""
    session: str = ""
    is_told: bool = False


_BY_ITSELF = Acting()
_ACTING: ContextVar[Acting] = ContextVar("acting", default=_BY_ITSELF)


@contextmanager
def acting(
    by: Changer, key: str = "", session: str = "", *, is_told: bool = False
) -> Iterator[None]:
    """What is changed while this is entered is changed by `by`, unless it is known who acts."""
    known = _ACTING.get()
    here = Acting(by, key, session, is_told)
    token = _ACTING.set(here if known.by is Changer.PROGRAM else replace(known, key=key))
    try:
        yield
    finally:
        _ACTING.reset(token)


def changer_now() -> Changer:
    """Who acts in this thread or task now."""
    return _ACTING.get().by


class UndoRefused(OllimError):
    @property
    def reason(self) -> str:
        """The sentence, where no one has tried to undo it yet."""
        return str(self).replace(_NOTHING_DONE, ".")


class FileChanges:
    """The changes of files. An undo holds the lock of the file's folder, so that it happens once.

    `now` is for the changes that the caller gives no moment.
    """

    def __init__(
        self,
        paths: DataPaths,
        rows: Rows,
        journal: Journal,
        now: Callable[[], datetime],
        disk: Disk | None = None,
    ) -> None:
        self._paths = paths
        self._rows = rows
        self._journal = journal
        self._now = now
        self._disk = disk or OsDisk()
        self._files = JobFileChecker(paths, self._disk)

    def begin(self, place: str, key: str, session: str, untrusted: str) -> None:
        """Note that a tool of the agent is about to write the file.

        If the bot dies then, the next start keeps what was written as this change.
        """

        def step(tx: Transaction) -> None:
            cause = cause_of(tx, session)
            row = ChangeRow(key, tx.now, place, Changer.AGENT, None, None, cause, untrusted)
            begun = replace(row, session=session)
            tx.begun_writes.change(lambda known: known.including(begun))

        self._rows.run(step)

    def end(self, keys: Collection[str]) -> None:
        """Forget the writes with these keys: what they have changed is kept."""
        self._rows.run(lambda tx: tx.begun_writes.change(lambda begun: begun.without(keys=keys)))

    def keep(self, change: FileChange, untrusted: str = "") -> None:
        """Keep what the agent or a button has changed; it replaces a change with the same key."""
        by = Changer(change.by) if change.by in [*Changer] else Changer.AGENT
        place = str(change.file)

        def step(tx: Transaction) -> None:
            cause = cause_of(tx, change.by) if by is Changer.AGENT else ""
            known = tx.changes.find(change.key)
            former = known.untrusted if known else ""
            row = ChangeRow(
                change.key,
                known.at if known else change.at,
                place,
                known.by if known else by,
                change.before,
                change.after,
                known.cause if known else cause,
                untrusted or self._mark(place, change.before, change.after) or former,
                session=known.session if known else "",
            )
            tx.changes.put(row)
            tx.changes.remember(place, change.after)
            tx.begun_writes.change(lambda begun: begun.without(place=place))

        self._rows.run(step)

    def leave(
        self,
        place: str,
        after: str | None,
        by: Changer,
        *,
        key: str = "",
        session: str = "",
        is_told: bool = False,
        undoes: str = "",
        untrusted: str = "",
    ) -> str:
        """Keep a change of a file that is about to be made, and return its key.

        The owner is shown what the agent changes in a `session`, unless `is_told`. The caller holds
        the lock of the file's folder until the change is made. Raises `StorageError`.
        """
        key = key or secrets.token_hex(4)
        before, at = self._text(place), self._now()
        mark = untrusted or self._mark(place, before, after)

        def step(tx: Transaction) -> None:
            cause = cause_of(tx, session)
            untold = "" if is_told else session
            tx.changes.put(
                ChangeRow(key, at, place, by, before, after, cause, mark, undoes, untold)
            )
            tx.changes.remember(place, after)

        self._rows.run(step)
        return key

    @contextmanager
    def keeping(self, place: str, after: str | None, who: Acting | None = None) -> Iterator[None]:
        """Keep a change of a job file before it is made, and forget it if that fails.

        What the program does by itself is not kept. Only the agent is refused a change that cannot
        be kept. The caller holds the lock of the file's folder. Raises `StorageError`.
        """
        who, key = who or _ACTING.get(), ""
        try:
            if who.by is not Changer.PROGRAM:
                given = {"key": who.key, "session": who.session}
                key = self.leave(place, after, who.by, **given, is_told=who.is_told)
        except StorageError:
            if who.session:
                raise
        try:
            yield
        except OllimError:
            if key:
                self.drop(key)
            raise

    def forget(self, key: str) -> None:
        """Note that a change by a command was shown to the owner."""

        def step(tx: Transaction) -> None:
            change = tx.changes.find(key)
            if change is not None and change.session:
                tx.changes.put(replace(change, session=""))

        self._rows.run(step)

    def absorb(self, key: str) -> None:
        """Forget a change that another one includes."""
        self._rows.run(lambda tx: tx.changes.remove(key))

    def drop(self, key: str) -> None:
        """Forget a change that will not be made."""

        def step(tx: Transaction) -> None:
            change = tx.changes.find(key)
            if change is not None:
                tx.changes.remove(key)
                tx.changes.remember(change.place, change.before)

        self._rows.run(step)

    def unseen(self) -> Sequence[FileChange]:
        """The changes by commands that the owner was not shown, oldest first.

        Those that were never made, because the command was killed, are forgotten.
        """
        waiting = self._rows.query(lambda tx: tx.changes.unseen())
        # A command makes its change before it releases the lock, so that a look finds it final.
        self.look({each.place for each in waiting}, has_unmade=True)
        listed = self._rows.query(lambda tx: tx.changes.unseen()) if waiting else ()
        return [
            FileChange(each.key, file, each.before, each.after, each.at, each.session)
            for each in listed
            if (file := shared_file(each.place)) is not None and not each.is_cut
        ]

    def undo(self, key: str) -> tuple[SharedFile, str]:
        """Undo the change that a card shows; returns its file, and in words what has become of it.

        Raises as `undo_file`.
        """
        change = self._rows.query(lambda tx: tx.changes.find(key))
        file = None if change is None else shared_file(change.place)
        if change is None or file is None:
            raise UndoRefused("This was undone before, or is too old to be undone.")
        after = self.undo_file(change, Changer.BUTTON, may_widen=True)
        return file, what_is_left(change, after)

    def undo_file(self, change: ChangeRow, by: Changer, *, may_widen: bool = False) -> str | None:
        """Undo the change, and return what the file holds now; None if it is gone.

        Raises `UndoRefused` with the reason, and `StorageError`; nothing has changed then.
        """
        if change.is_cut:
            raise UndoRefused(CUT)
        with FileLock(self._lock_of(change.place)).held():
            now = self._text(change.place)
            if self._rows.query(lambda tx: tx.changes.is_undone(change.key)):
                raise UndoRefused("It was undone before.")
            wanted = self._wanted(change, now)
            if not may_widen:
                more = sorted(self._tools(change.place, wanted) - self._tools(change.place, now))
                if more:
                    raise UndoRefused(
                        f"That would allow {', '.join(more)} again. If you want that: "
                        f"`ollim-bot undo {change.key} --with-tools`."
                    )
            mark = marked_taint(change.untrusted).mark
            marks = self._rows.run(lambda tx: _mark_more(tx, change))
            key = self.leave(change.place, wanted, by, undoes=change.key, untrusted=mark)
            try:
                if wanted != now:
                    self._put(change.place, now, wanted)
            except OllimError:
                self.drop(key)
                raise
            self._rows.run(lambda tx: _mark_again(tx, marks, change.place, wanted))
        self._journal.note(self._paths.root / change.place, f"undo: {change.place}")
        return wanted

    def refuse_undo(self, change: ChangeRow) -> None:
        """Raise `UndoRefused` if the change cannot be undone as the file is now; nothing is done.

        Whether something would be allowed again is only looked at when it is undone.
        """
        with suppress(StorageError):
            self._wanted(change, self._text(change.place))

    def _wanted(self, change: ChangeRow, now: str | None) -> str | None:
        """What the file holds after the undo: other lines stay as they are now."""
        if now in (change.after, change.before):
            return change.before
        mixed = None
        if now is not None and change.after is not None:
            mixed = merged(change.after, now, change.before or "")
        if mixed is not None:
            mixed = self._checked(change, str(now), mixed)
        if mixed is None:
            last = self._rows.query(lambda tx: tx.changes.last_of(change.place))
            is_later = last is not None and last.key != change.key
            who = f", by {last.by} ({last.key})" if last is not None and is_later else ""
            raise UndoRefused(f"{change.place} was changed since{who}{_NOTHING_DONE}")
        return mixed

    def _checked(self, change: ChangeRow, now: str, mixed: str) -> str | None:
        """The merged text with every mark that a part of it has; None if it is not valid."""
        file = shared_file(change.place)
        if not isinstance(file, JobFile):
            return mixed
        marks = [self._files.read(file, each).untrusted for each in (now, change.before or "")]
        mark = marked_taint(",".join(filter(None, marks))).mark
        try:
            text = frontmatter.edited(mixed, {"untrusted": mark}) if mark else mixed
        except (BadDocument, OllimError):
            return None
        return None if self._files.read(file, text).problems else text

    def _tools(self, place: str, text: str | None) -> set[str]:
        """What the text of the file allows, as a sentence names it."""
        if place == _POLICY:
            return set(policy_in(text or "").allowed)
        if text is None:
            return set()
        file = shared_file(place)
        if not isinstance(file, JobFile):
            return set()
        reading = self._files.read(file, text)
        skills = reading.job.spec.skills if reading.job else ()
        tools = (*reading.tools, *self._files.tools_of_skills(skills))
        return {f"`{tool}`" for tool in tools}

    def _put(self, place: str, now: str | None, wanted: str | None) -> None:
        # Keep a link and change its target.
        path = (self._paths.root / place).resolve()
        if wanted is None:
            remove_durably(self._disk, path)
            return
        with suppress(OSError):
            os.makedirs(path.parent, exist_ok=True)
        data = _bytes(wanted)
        is_put = (
            create_atomically(self._disk, path, data, SHARED)
            if now is None
            else replace_unchanged(self._disk, path, _bytes(now), data, SHARED)
        )
        if not is_put:
            raise WriteFailed(path, "is being written by another program. Try again.")

    def look(
        self,
        places: Iterable[str] | None = None,
        by: Changer = Changer.HAND,
        session: str = "",
        *,
        has_unmade: bool = False,
    ) -> None:
        """Keep what has changed in these files since the last look; all files without `places`.

        The first look at a file only remembers it, until all were looked at; that at a calendar
        always does. A look at all files, and one that says so, also forgets a change that was kept
        and never made. Raises `StorageError`.
        """
        stamps: dict[str, str] = {}
        begun = BegunWrites()
        if places is None:
            # Turns that run meanwhile may begin more writes.
            stamps, begun = self._rows.query(
                lambda tx: (tx.changes.stamps(), tx.begun_writes.get())
            )
        listed = {*self._listed(), *stamps} if places is None else {*places}
        by_lock: dict[Path, list[str]] = {}
        for place in sorted(listed):
            if not stamps.get(place) or stamps[place] != self._stamp(place):
                by_lock.setdefault(self._lock_of(place), []).append(place)
        for lock, changed in by_lock.items():
            for first in range(0, len(changed), _AT_ONCE):
                with FileLock(lock).held():
                    some = changed[first : first + _AT_ONCE]
                    self._look_at(some, by, session, has_unmade=has_unmade or places is None)
        if places is None:
            self.settle_marks()
            self._rows.run(lambda tx: tx.changes.remember(_ALL, None))
            self.end([each.key for each in begun.rows])

    def settle_marks(self) -> Sequence[TaintMark]:
        """Take marks away: of notes that the owner's hand has changed, and of tasks that are gone.

        Returns those that are left.
        """
        left = self._rows.query(lambda tx: tx.marks.left())
        before = self._now() - _GONE_AFTER
        gone = [*by_hand(self._paths.root, left, before), *self._of_gone_tasks(left, before)]
        if gone:
            self._rows.run(lambda tx: tx.marks.remove(*gone))
        return [each for each in left if each not in gone]

    def _of_gone_tasks(self, marks: Iterable[TaintMark], before: datetime) -> Iterator[TaintMark]:
        """The marks of tasks that are in no list, and that no Undo may bring back."""
        if self._paths.token.exists():
            return
        with suppress(Unreadable):
            known = {title_key(each) for each in titles_in(self._text(TASKS) or "")}
            old = (each for each in marks if each.title and each.since < before)
            missing = (each for each in old if title_key(each.title) not in known)
            yield from (each for each in missing if not self._rows.query(partial(_is_kept, each)))

    def _look_at(
        self, places: Sequence[str], by: Changer, session: str, *, has_unmade: bool
    ) -> None:
        at = self._now()
        found: list[tuple[str, str, str | None]] = []
        for place in places:
            seen = self._stamp(place)
            with suppress(Unreadable):
                found.append((place, seen, self._text(place)))

        def step(tx: Transaction) -> None:
            rows = tx.changes
            is_first = rows.known(_ALL) is None
            for place, seen, text in found:
                known = rows.known(place)
                before = None if known is None else known[1]
                rows.remember(place, text, seen)
                is_new = known is None and (is_first or place.endswith(CALENDAR))
                if text == before or by is Changer.PROGRAM or is_new:
                    continue
                last = rows.last_of(place)
                if has_unmade and last is not None and (last.before, last.after) == (text, before):
                    # It was kept, and never made.
                    rows.remove(last.key)
                    continue
                mark = self._mark(place, before, text)
                if place == TASKS:
                    marks = tx.marks.of_tasks(titles_in(f"{before or ''}\n{text or ''}")).values()
                    mark = marked_taint(",".join(each.source for each in marks)).mark
                row = ChangeRow(rows.new_key(place), at, place, by, before, text, untrusted=mark)
                begun = tx.begun_writes.get().at(place) if by in _FOUND else None
                rows.put(
                    _as_begun(tx, row, begun)
                    if begun
                    else replace(row, cause=cause_of(tx, session))
                )

        self._rows.run(step)

    def _listed(self) -> Iterator[str]:
        """The files whose changes are kept, by their paths below the data directory."""
        root = self._paths.root
        for folder in _FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if is_watched(place := path.relative_to(root).as_posix()) and path.is_file():
                    yield place
        with suppress(OSError):
            names = [name for name in os.listdir(root) if is_watched(name)]
            yield from (name for name in sorted(names) if (root / name).is_file())

    def _stamp(self, place: str) -> str:
        return " ".join(map(str, stamp(self._paths.root / place) or ()))

    def _text(self, place: str) -> str | None:
        return text_at(self._disk, self._paths.root / place)

    def _mark(self, place: str, *texts: str | None) -> str:
        """The `untrusted:` of the texts of a job; those of a calendar may be by anyone."""
        if place.endswith(CALENDAR):
            return OF_CALENDAR
        file = shared_file(place)
        if not isinstance(file, JobFile):
            return ""
        marks = [self._files.read(file, text).untrusted for text in texts if text]
        return marked_taint(",".join(dict.fromkeys(filter(None, marks)))).mark

    def _lock_of(self, place: str) -> Path:
        return self._paths.lock_of(self._paths.root / place.partition("/")[0])


def _is_kept(mark: TaintMark, tx: Transaction) -> bool:
    return bool(tx.changes.likely("", mark.title, 1))


def _mark_more(tx: Transaction, change: ChangeRow) -> list[TaintMark]:
    """Mark a file before an Undo writes it, which may bring words of others back."""
    place = change.place
    if place == TASKS:
        # Many write it, so that nothing tells whose words an earlier text has.
        return []
    marks = tx.marks.of_files([place])
    is_note = place.endswith(".md") and not isinstance(shared_file(place), JobFile)
    if change.untrusted and is_note:
        marks = marks or [TaintMark(change.untrusted, tx.now, place)]
    return [tx.marks.leave(replace(each, hash=""), is_written=True) for each in marks]


def _mark_again(tx: Transaction, marks: Iterable[TaintMark], place: str, text: str | None) -> None:
    """Keep these marks only if the text, which an Undo has brought back, has words of others."""
    known = hash_of(_bytes(text or ""))
    for mark in marks:
        is_theirs = tx.changes.may_be_of_others(place, text, mark.since)
        tx.marks.exchange(mark, replace(mark, hash=known) if is_theirs else None)


def _as_begun(tx: Transaction, row: ChangeRow, begun: ChangeRow) -> ChangeRow:
    """The change that was found, as that of the write that the agent had begun there.

    The owner is shown that of a file that has cards.
    """
    mark = marked_taint(",".join(filter(None, (begun.untrusted, row.untrusted)))).mark
    if shared_file(row.place) is None:
        return replace(row, by=begun.by, cause=begun.cause, untrusted=mark)
    known = tx.changes.find(begun.key)
    before = row.before if known is None else known.before
    return replace(begun, before=before, after=row.after, untrusted=mark)


def undo_setting(tx: Transaction, change: ChangeRow, by: Changer) -> None:
    """Give the setting the value that it had. Raises `UndoRefused` with the reason."""
    refuse_setting_undo(tx, change)
    config = tx.config.get()
    after = config.with_value(change.name, str(change.before))
    tx.config.put(after)
    note_settings(tx.changes, config, after, by, tx.now, undoes=change.key)


def refuse_setting_undo(tx: Transaction, change: ChangeRow) -> None:
    """Raise `UndoRefused` if the setting cannot get the value that it had; nothing is done."""
    name, config = change.name, tx.config.get()
    if config.in_words(name) != change.after:
        if tx.changes.is_undone(change.key):
            raise UndoRefused("It was undone before.")
        raise UndoRefused(f"{name} was changed since, to {config.in_words(name)}{_NOTHING_DONE}")
    words = str(change.before)
    command = f"`ollim-bot config set {name} {words}`"
    if name == "permission_mode" and _MODES.index(words) > _MODES.index(str(change.after)):
        raise UndoRefused(f"That would allow more again. If you want that: {command}.")


def is_watched(place: str) -> bool:
    """Whether changes of the file with this path below the data directory are kept."""
    path = PurePosixPath(place)
    if path.name.startswith("."):
        return False
    if path.suffix == CALENDAR:
        return path.parts[0] != "state"
    if len(path.parts) == 1:
        return path.suffix == ".md" or place == _POLICY
    return path.suffix == ".md" and any(place.startswith(f"{each}/") for each in _FOLDERS)


def shared_file(place: str) -> SharedFile | None:
    """The job, skill or profile file at this place; None for another file."""
    if place in [*ProfileFile]:
        return ProfileFile(place)
    folder, _, name = place.partition("/")
    try:
        return JobFile(JobFolder(folder), name) if name else None
    except ValueError:
        return None


def cause_of(tx: Transaction, session: str) -> str:
    """The run, or the turn of the conversation, in which the agent acts."""
    if not session or session in [*Changer]:
        return ""
    running = tx.inbox.get().running
    if session == CONVERSATION:
        return f"turn {running.turn}" if running else ""
    return session


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
