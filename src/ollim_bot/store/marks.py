"""Where the words of others are: what sessions have read, and what careful ones have left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.skills import folded_path
from ollim_bot.domain.taint import LOST, Taint, TaintMark, kind_of, marked_taint
from ollim_bot.domain.tasks import Task, title_key
from ollim_bot.errors import WrongInput
from ollim_bot.store.codecs.plain import decode_plain, encode_plain
from ollim_bot.store.connection import Row, Statements, Value, microseconds
from ollim_bot.store.file_store import Malformed

if TYPE_CHECKING:
    from ollim_bot.domain.forgetting import Passage

MOST_LEFT = 10_000
PUT_MARK = (
    "INSERT INTO marks (key, at, is_untold, value) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE"
    " SET at = excluded.at, is_untold = excluded.is_untold, value = excluded.value"
)
_FILE, _TASK = "file:", "task:"
# Read by the conversation in the last day.
_READ = "read:"
_STANDING = "standing"
_REMEMBERED = timedelta(hours=24)
_IS_LEFT = "(key >= 'file:' AND key < 'file;') OR (key >= 'task:' AND key < 'task;')"
_AT_ONCE = 200
# The name of the record in which version 0.13 kept all of it.
_FORMER = "taint"


@dataclass(frozen=True, slots=True)
class _FormerReading:
    source: str
    at: datetime


@dataclass(frozen=True, slots=True)
class _FormerSession:
    session: SessionId
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _FormerTask:
    title: str
    untrusted: str
    id: str = ""
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class _Former:
    """What version 0.13 has kept."""

    standing: tuple[str, ...] = ()
    sessions: tuple[_FormerSession, ...] = ()
    recent: tuple[_FormerReading, ...] = ()
    tasks: tuple[_FormerTask, ...] = ()


class Marks:
    """`now` is the moment at which the transaction began."""

    def __init__(self, statements: Statements, now: datetime) -> None:
        self._statements = statements
        self._now = now

    def of(self, session: SessionId | None) -> tuple[str, ...]:
        """What the session has read since the owner last wrote in it."""
        mark = self.of_session(session)
        return marked_taint(mark.source).sources if mark else ()

    def of_session(self, session: SessionId | None) -> TaintMark | None:
        """The mark of the session; None if it is not careful."""
        keys = (_STANDING, _session(session)) if session else (_STANDING,)
        known = self._at(keys)
        found = [known[key] for key in keys if key in known]
        if not found:
            return None
        sources = marked_taint(",".join(each.source for each in found))
        return TaintMark(sources.mark, min(each.since for each in found))

    def read(self, session: SessionId, sources: Iterable[str], *, in_turn: bool = False) -> None:
        """The session has read these.

        For a day, what is read in a turn of the conversation may have led to its changes.
        """
        read = Taint(tuple(sources))
        self.go_on(session, TaintMark(read.mark, self._now))
        for source in dict.fromkeys(map(kind_of, read.sources)) if in_turn else ():
            self._put(f"{_READ}{_hash(source)}", TaintMark(source, self._now))

    def go_on(self, session: SessionId, history: TaintMark | None) -> None:
        """The session goes on from a history with this mark."""
        if history is not None and history.source:
            former = self.of_session(session) or TaintMark("", history.since)
            known = marked_taint(f"{former.source},{history.source}")
            self._put(_session(session), replace(former, source=known.mark))

    def end(self, session: SessionId | None) -> None:
        """The owner wrote in the session: what it read before taints no further turn of it."""
        self._remove(_STANDING, *([_session(session)] if session else []))

    def lose(self) -> None:
        """What the sessions have read since this was written is not known: none is trusted."""
        self._put(_STANDING, TaintMark(LOST, self._now))

    def in_last_day(self, now: datetime) -> Taint:
        """The sources that may have led to a change of the conversation now."""
        found = _decoded(self._rows("key >= 'read:' AND key < 'read;' ORDER BY at, key"))
        return Taint(tuple(each.source for each in found if abs(now - each.since) < _REMEMBERED))

    def left(self) -> list[TaintMark]:
        """The marks of notes and tasks, the oldest first."""
        return _decoded(self._rows(f"{_IS_LEFT} ORDER BY at, key"))

    def untold(self) -> list[TaintMark]:
        """The marks of tasks that the owner was not shown, the oldest first."""
        return _decoded(self._rows("is_untold = 1 ORDER BY at, key"))

    def leave(self, mark: TaintMark, *, is_written: bool = False) -> None:
        """TaintMark a note or a task, beside what it is marked with, before the words are written.

        Raises `WrongInput` at the limit, unless the words are there.
        """
        key = key_of(mark)
        former = self._at([key]).get(key)
        if former is None and not is_written and self.is_full():
            raise WrongInput(
                f"{MOST_LEFT:,} notes and tasks have words of others already, so nothing was "
                "written. The owner can look at them: `ollim-bot marks`."
            )
        if former is not None:
            sources = marked_taint(f"{former.source},{mark.source}").mark
            mark = replace(mark, source=sources, since=former.since)
        self._put(key, mark)

    def is_full(self) -> bool:
        count = f"SELECT count(*) FROM marks WHERE {_IS_LEFT}"
        return self._statements.number(count) >= MOST_LEFT

    def tell(self, mark: TaintMark) -> None:
        """The owner was shown the task with this mark."""
        key = key_of(mark)
        known = self._at([key]).get(key)
        if known is not None and known.untold == mark.untold:
            self._put(key, replace(known, untold=""))

    def remove(self, *marks: TaintMark) -> None:
        """Take marks of notes and tasks away."""
        self._remove(*map(key_of, marks))

    def of_files(self, paths: Iterable[str]) -> list[TaintMark]:
        """The marks of the files at these paths below the data directory."""
        return [*self._at([_file(each) for each in paths]).values()]

    def below(self, folder: str) -> list[TaintMark]:
        """The marks of all files in a folder, and in the folders in it; empty for all there are."""
        start = f"{_file(folder)}/" if folder else _FILE
        return _decoded(self._rows("key >= ? AND key < ?", start, f"{start[:-1]}{_next(start)}"))

    def of_tasks(self, titles: Iterable[str]) -> Mapping[str, TaintMark]:
        """The marks of the tasks that have these titles, by the titles."""
        keys = {each: _task(each) for each in titles}
        found = self._at(keys.values())
        return {title: found[key] for title, key in keys.items() if key in found}

    def of_task(self, title: str) -> str:
        """What the turn had read that added a task with this title; empty for any other task."""
        return next((each.source for each in self.of_tasks([title]).values()), "")

    def marked(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks, those of careful sessions with their mark."""
        listed = [*tasks]
        found = self.of_tasks(each.title for each in listed)
        return [
            replace(each, untrusted=found[each.title].source if each.title in found else "")
            for each in listed
        ]

    def forget(self, passage: Passage) -> None:
        """Find tasks and files under their new names, after words were taken out of all rows."""
        rows = self._statements.rows(f"SELECT key, value FROM marks WHERE {_IS_LEFT}")
        for (key, _), mark in zip(rows, _decoded(rows, 1), strict=True):
            if mark.path:
                former = json.loads(f'"{key.removeprefix(_FILE)}"').split("/")
                mark = replace(mark, path="/".join(map(passage.cut_from_name, former)))
            if key != key_of(mark):
                self._remove(key)
                self.leave(mark, is_written=True)

    def take_over(self) -> None:
        """Take what version 0.13 has kept as one record, once."""
        found = self._statements.row("SELECT value FROM records WHERE name = ?", _FORMER)
        if found is None:
            return
        try:
            self._take(decode_plain(_Former, str(found[0]).encode()))
        except Malformed:
            self.lose()
        self._statements.write(_FORMER, "DELETE FROM records WHERE name = ?", _FORMER)

    def _take(self, former: _Former) -> None:
        for one in former.recent:
            self._put(f"{_READ}{_hash(one.source)}", TaintMark(one.source, one.at))
        for each in former.sessions:
            self.read(each.session, each.sources)
        for task in former.tasks:
            untold = "" if task.is_shown else task.id
            self.leave(TaintMark(task.untrusted, self._now, title=task.title, untold=untold))
        if former.standing:
            self._put(_STANDING, TaintMark(Taint(former.standing).mark, self._now))

    def _at(self, keys: Iterable[str]) -> dict[str, TaintMark]:
        sought, found = [*dict.fromkeys(keys)], dict[str, TaintMark]()
        for first in range(0, len(sought), _AT_ONCE):
            some = sought[first : first + _AT_ONCE]
            wanted = ", ".join("?" for _ in some)
            rows = self._statements.rows(
                f"SELECT key, value FROM marks WHERE key IN ({wanted}) ORDER BY key", *some
            )
            found.update(zip((str(row[0]) for row in rows), _decoded(rows, 1), strict=True))
        return found

    def _rows(self, where: str, *arguments: Value) -> list[Row]:
        return self._statements.rows(f"SELECT value FROM marks WHERE {where}", *arguments)

    def _put(self, key: str, mark: TaintMark) -> None:
        self._statements.write("marks", PUT_MARK, *encoded_mark(key, mark))

    def _remove(self, *keys: str) -> None:
        for key in keys:
            self._statements.write("marks", "DELETE FROM marks WHERE key = ?", key)


def key_of(mark: TaintMark) -> str:
    """The key of the mark of a note or a task."""
    return _file(mark.path) if mark.path else _task(mark.title)


def encoded_mark(key: str, mark: TaintMark) -> tuple[Value, ...]:
    """The arguments of `PUT_MARK`."""
    value = encode_plain(mark).decode()
    return key, microseconds(mark.since), int(bool(mark.untold)), value


def _session(session: SessionId) -> str:
    return f"session:{_hash(session)}"


def _task(title: str) -> str:
    return f"{_TASK}{_hash(title_key(title))}"


def _file(path: str) -> str:
    """The same for two spellings of a path that some file systems take for one.

    The key of a folder begins those of the files in it.
    """
    return f"{_FILE}{json.dumps(folded_path(path))[1:-1]}"


def _hash(name: str) -> str:
    """A key of any name, however long; what is forgotten is not in it."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _next(start: str) -> str:
    return chr(ord(start[-1]) + 1)


def _decoded(rows: Sequence[Row], column: int = 0) -> list[TaintMark]:
    return [decode_plain(TaintMark, row[column].encode()) for row in rows]
