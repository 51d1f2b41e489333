"""Where the words of others are: what sessions have read, and what careful ones have left."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.store.connection import (
    Row,
    Statements,
    Value,
    escaped,
    microseconds,
    moment_of,
    unescaped,
)
from ollim_bot.kernel.values.skills import folded_path
from ollim_bot.kernel.values.taint import LOST, Taint, TaintMark, kind_of, marked_taint
from ollim_bot.kernel.values.tasks import Task, title_key

if TYPE_CHECKING:
    from ollim_bot.kernel.values.forgetting import Passage

MOST_LEFT = 10_000
PUT_MARK = (
    "INSERT INTO marks (key, source, at, path, title, untold, session, hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
    " source = excluded.source, at = excluded.at, path = excluded.path, title = excluded.title,"
    " untold = excluded.untold, session = excluded.session, hash = excluded.hash"
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
        found = self._rows("key >= 'read:' AND key < 'read;' ORDER BY at, key")
        return Taint(tuple(each.source for each in found if abs(now - each.since) < _REMEMBERED))

    def left(self) -> list[TaintMark]:
        """The marks of notes and tasks, the oldest first."""
        return self._rows(f"{_IS_LEFT} ORDER BY at, key")

    def untold(self) -> list[TaintMark]:
        """The marks of tasks that the owner was not shown, the oldest first."""
        return self._rows("untold != '' ORDER BY at, key")

    def leave(self, mark: TaintMark, *, is_written: bool = False) -> TaintMark:
        """Mark a note or a task, beside what it is marked with, before the words are written.

        Returns its mark. Raises `WrongInput` at the limit, unless the words are there.
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
            mark = replace(mark, source=sources)
            if mark.path:
                # What makes the file, it leaves there now.
                since = mark.since if mark.session else former.since
                mark = replace(mark, since=since, session=former.session)
        self._put(key, mark)
        return mark

    def exchange(self, mark: TaintMark, other: TaintMark | None) -> bool:
        """Put the other mark in the place of this one, or none; False if it is not as it was."""
        key = key_of(mark)
        if self._at([key]).get(key) != mark:
            return False
        if other is None:
            self._remove(key)
        else:
            self._put(key, other)
        return True

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
        """Take marks of notes and tasks away that are as they were."""
        for mark in marks:
            self.exchange(mark, None)

    def of_files(self, paths: Iterable[str]) -> list[TaintMark]:
        """The marks of the files at these paths below the data directory."""
        return [*self._at([_file(each) for each in paths]).values()]

    def below(
        self, folder: str, choose: Callable[[Set[str]], Set[str]] | None = None
    ) -> list[TaintMark]:
        """The marks of the files in a folder and all folders in it; empty is the highest.

        Of their names, which are as `folded_path` makes them, `choose` returns those that count.
        """
        start = _file(f"{folder}/" if folder else "")
        end = f"{start[:-1]}{chr(ord(start[-1]) + 1)}"
        is_in = "key >= ? AND key < ?"
        if choose is None:
            return self._rows(is_in, start, end)
        found = self._statements.rows(f"SELECT key FROM marks WHERE {is_in}", start, end)
        names = {str(row[0]): _path_in(row[0]).rpartition("/")[2] for row in found}
        chosen = choose({*names.values()})
        return [*self._at(key for key, name in names.items() if name in chosen).values()]

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
            each._replace(untrusted=found[each.title].source if each.title in found else "")
            for each in listed
        ]

    def forget(self, passage: Passage) -> None:
        """Find tasks and files under their new names, after words were taken out of all rows."""
        for key, mark in self._keyed(_IS_LEFT):
            if mark.path:
                former = _path_in(key).split("/")
                # What is written there from now on is not the agent's.
                path = "/".join(map(passage.cut_from_name, former))
                mark = replace(mark, path=path, hash="")
            if key != key_of(mark) or mark.path:
                self._remove(key)
                self.leave(mark, is_written=True)

    def take_over(self) -> None:
        """Take what version 0.13 has kept as one record, once."""
        found = self._statements.row("SELECT value FROM records WHERE name = ?", _FORMER)
        if found is None:
            return
        try:
            self._take(json.loads(str(found[0])))
        except (ValueError, TypeError, KeyError, AttributeError):
            self.lose()
        self._statements.write(_FORMER, "DELETE FROM records WHERE name = ?", _FORMER)

    def _take(self, former: Mapping[str, Any]) -> None:
        for one in former.get("recent", ()):
            mark = TaintMark(one["source"], datetime.fromisoformat(one["at"]))
            self._put(f"{_READ}{_hash(mark.source)}", mark)
        for each in former.get("sessions", ()):
            self.read(SessionId(each["session"]), each["sources"])
        for task in former.get("tasks", ()):
            untold = "" if task.get("is_shown") else task.get("id", "")
            title = task["title"]
            self.leave(TaintMark(task["untrusted"], self._now, title=title, untold=untold))
        if standing := former.get("standing"):
            self._put(_STANDING, TaintMark(Taint(tuple(standing)).mark, self._now))

    def _at(self, keys: Iterable[str]) -> dict[str, TaintMark]:
        sought, found = [*dict.fromkeys(keys)], dict[str, TaintMark]()
        for first in range(0, len(sought), _AT_ONCE):
            some = sought[first : first + _AT_ONCE]
            wanted = ", ".join("?" for _ in some)
            found.update(self._keyed(f"key IN ({wanted}) ORDER BY key", *some))
        return found

    def _rows(self, where: str, *arguments: Value) -> list[TaintMark]:
        return [mark for _, mark in self._keyed(where, *arguments)]

    def _keyed(self, where: str, *arguments: Value) -> list[tuple[str, TaintMark]]:
        columns = "key, source, at, path, title, untold, session, hash"
        rows = self._statements.rows(f"SELECT {columns} FROM marks WHERE {where}", *arguments)
        return [(str(row[0]), decoded_mark(row)) for row in rows]

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
    texts = map(escaped, (mark.path, mark.title, mark.untold, mark.session, mark.hash))
    return key, escaped(mark.source), microseconds(mark.since), *texts


def decoded_mark(row: Row) -> TaintMark:
    """The inverse of `encoded_mark`."""
    _, source, at, *texts = row
    return TaintMark(unescaped(source), moment_of(at), *map(unescaped, texts))


def _session(session: SessionId) -> str:
    return f"session:{_hash(session)}"


def _task(title: str) -> str:
    return f"{_TASK}{_hash(title_key(title))}"


def _file(path: str) -> str:
    """The same for two spellings of a path that some file systems take for one.

    The key of a folder begins those of the files in it.
    """
    return f"{_FILE}{json.dumps(folded_path(path))[1:-1]}"


def _path_in(key: str) -> str:
    return unescaped(key.removeprefix(_FILE))


def _hash(name: str) -> str:
    """A key of any name, however long; what is forgotten is not in it."""
    return hash_of(name.encode("utf-8", "surrogatepass"))


def by_hand(
    root: Path, marks: Iterable[TaintMark], before: datetime | None = None
) -> list[TaintMark]:
    """The marks of notes that are no longer as the agent wrote them, or gone. It reads files.

    Where it is not known what was written, those from before this moment may be gone.
    """

    def is_other(mark: TaintMark) -> bool:
        try:
            content = read_file(root / mark.path, SizeLimit.IN_HISTORY)
        except OSError as unread:
            return isinstance(unread, FileNotFoundError)
        return mark.hash not in ("", hash_of(content))

    may_be = [
        each for each in marks if each.path and (each.hash or (before and each.since < before))
    ]
    return [each for each in may_be if is_other(each)]


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
