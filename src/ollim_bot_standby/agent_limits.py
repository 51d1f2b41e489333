"""What a program that the agent started may read and change among the rows, by a local socket.

The commands that the agent may run need no more than this, and what is not named here is closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta

from ollim_bot.domain.changes import EVENT, TASK, Changer, ChangeRow
from ollim_bot.domain.initiative import SetByAgent, Setter
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.skills import AgentSkills
from ollim_bot.domain.taint import marked_taint
from ollim_bot.store.change_rows import (
    PUT_CHANGE,
    REMEMBER_FILE,
    REMOVE_CHANGE,
    REMOVE_OLD_CHANGES,
    encoded_row,
)
from ollim_bot.store.changes import TASKS
from ollim_bot.store.codecs.plain import decode_plain
from ollim_bot.store.connection import Row, Value, microseconds, unescaped
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.marks import PUT_MARK, decoded_mark, encoded_mark, key_of
from ollim_bot.store.records import GET_RECORD, PUT_RECORD
from ollim_bot.store.schema import tables
from ollim_bot.store.transaction import Transaction

Check = Callable[[Transaction, Sequence[Value]], bool]

_REFUSED = (
    "gives and takes this only from the owner, not from the bot's agent. Nothing was changed. "
    "Ask them to do it in a terminal."
)
_OPEN_TABLES = frozenset(
    {
        *("changes", "channels", "due_items", "inbox_turn", "inputs", "known_files", "ledger"),
        *("marks", "messages", "occurrences", "session_history", "usage"),
    }
)
_OPEN_RECORDS = frozenset(
    {
        *("agent_skills", "begun_writes", "breakdowns", "budget", "config", "fork", "grants"),
        *("initiative", "names", "overviews", "quiet", "session", "skips", "task_moves"),
        *("task_undos", "tool_servers", "zone"),
    }
)
# Every further word of the questions about open tables. A name of anything else is none of them.
_WORDS = frozenset(
    {
        *("all", "and", "answer", "as", "asc", "by", "cast", "coalesce", "count", "cross", "desc"),
        *("distinct", "from", "in", "instr", "is", "is_turn", "join", "like", "limit", "lower"),
        *("max", "min", "not", "null", "on", "or", "order", "search", "search_state", "select"),
        *("size", "sum", "tsquery", "union", "version", "where", "who", "words"),
    }
)
# A text with a place for an argument in it would not be one any more with the argument in place.
_TEXT = r"'[^'\\?]*'"
_SHAPE = re.compile(rf"(?i)SELECT (?:[\w\s(),.=<>!*+?@-]|{_TEXT})*")
# In characters.
_LONGEST = 5000
_DAY = timedelta(days=1)


class NotForAgent(Exception):
    def __init__(self) -> None:
        super().__init__(_REFUSED)


def run_for_agent(tx: Transaction, sql: str, arguments: Sequence[Value]) -> list[Row]:
    """The rows of a statement of the agent. Raises `NotForAgent`, and `StorageError`."""
    if sql in _LEFT_TO_BOT:
        return []
    if sql not in _WRITES:
        if not may_ask(sql, arguments):
            raise NotForAgent
        return tx.statements.rows(sql, *arguments)
    table, may_write = _WRITES[sql]
    try:
        if not may_write(tx, arguments):
            raise NotForAgent
    except (Malformed, ValueError, TypeError, IndexError, AttributeError) as wrong:
        raise NotForAgent from wrong
    return tx.statements.write(table or str(arguments[0]), sql, *arguments)


def may_ask(sql: str, arguments: Sequence[Value]) -> bool:
    """Whether the statement only reads what is open."""
    if sql == GET_RECORD:
        return arguments[0] in _OPEN_RECORDS if len(arguments) == 1 else False
    if len(sql) > _LONGEST or "--" in sql or _SHAPE.fullmatch(sql) is None:
        return False
    words = re.findall(r"[^\W\d]\w*", re.sub(_TEXT, "''", sql).lower())
    return _known_words().issuperset(words)


def _known_words() -> frozenset[str]:
    opened = [table for table in tables() if table.name in _OPEN_TABLES]
    columns = (column for table in opened for column in table.columns)
    return frozenset({*_WORDS, *_OPEN_TABLES, *columns})


def _may_put_record(tx: Transaction, arguments: Sequence[Value]) -> bool:
    name, value = arguments
    check = _RECORDS.get(str(name))
    return check is not None and check(tx, str(value).encode())


def _is_one_task_more(tx: Transaction, arguments: Sequence[Value]) -> bool:
    """Whether a task is marked, with no less than it was."""
    if not 0 <= int(arguments[2] or 0) <= microseconds(tx.now + _DAY):
        return False
    mark = decoded_mark(tuple(arguments))
    if mark.path or not mark.source or tuple(arguments) != encoded_mark(key_of(mark), mark):
        return False
    known = tx.marks.of_task(mark.title)
    sources, former = (marked_taint(each).sources for each in (mark.source, known))
    return {*sources} >= {*former} and bool(known or mark.untold or not tx.marks.is_full())


def _is_one_job_more(tx: Transaction, value: bytes) -> bool:
    before, after = tx.initiative.get(), decode_plain(SetByAgent, value)
    setter, day = after.entries[-1]
    if abs(day - tx.now.date()) > _DAY:
        return False
    allowed = [before.one_more_in_turn(setter, day)[0], *_by_run(before, after, setter, day)]
    return after in allowed


def _by_run(before: SetByAgent, after: SetByAgent, run: str, day: date) -> list[SetByAgent]:
    jobs = [job for job, _ in after.origins[-1:]]
    return [before.one_more(Setter(run, job, allow_ping=False), day)[0] for job in jobs]


def _is_more_skills(tx: Transaction, value: bytes) -> bool:
    before = tx.agent_skills.get().entries
    return decode_plain(AgentSkills, value).entries[: len(before)] == before


_RECORDS: Mapping[str, Callable[[Transaction, bytes], bool]] = {
    "initiative": _is_one_job_more,
    "agent_skills": _is_more_skills,
}


def _may_put_change(tx: Transaction, arguments: Sequence[Value]) -> bool:
    """Only a new row that says the truth about who changes what."""
    row = decode_plain(ChangeRow, str(arguments[-1]).encode())
    if tuple(arguments) != encoded_row(row) or tx.changes.find(row.key) is not None:
        return False
    if row.undoes or row.is_begun:
        return False
    if _is_job(row.place):
        # The owner is shown it.
        return row.by is Changer.AGENT and bool(row.session)
    if row.place == TASKS:
        return row.by in (Changer.AGENT, Changer.HAND)
    return row.by is Changer.AGENT and row.kind in (TASK, EVENT)


def _may_remember(_: Transaction, arguments: Sequence[Value]) -> bool:
    place = unescaped(str(arguments[0]))
    return place == TASKS or _is_job(place)


def _is_job(place: str) -> bool:
    folder, _, name = place.partition("/")
    return folder in _JOB_FOLDERS and name.endswith(".md") and "/" not in name


_JOB_FOLDERS = frozenset(kind.plural for kind in JobKind)
# The table that each of these changes, empty for that of a record, and whether it may.
_WRITES: Mapping[str, tuple[str, Check]] = {
    PUT_RECORD: ("", _may_put_record),
    PUT_CHANGE: ("changes", _may_put_change),
    REMEMBER_FILE: ("known_files", _may_remember),
    PUT_MARK: ("marks", _is_one_task_more),
}
# The bot forgets by itself what is too old, and a change that was never made.
_LEFT_TO_BOT = frozenset({REMOVE_OLD_CHANGES, REMOVE_CHANGE})
