"""The side of the bot on its local socket: runs the transactions of commands among its own."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import sleep
from typing import TypeVar

from ollim_bot.kernel.base.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.processes import line_of, parent_of
from ollim_bot.kernel.changes.file_changes import TASKS
from ollim_bot.kernel.store.change_rows import (
    PUT_CHANGE,
    REMEMBER_FILE,
    REMOVE_CHANGE,
    REMOVE_OLD_CHANGES,
    encoded_row,
)
from ollim_bot.kernel.store.codecs.plain import decode_plain
from ollim_bot.kernel.store.connection import Row, Value, microseconds, unescaped
from ollim_bot.kernel.store.database_errors import NotLeading, OutcomeUnknown
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.mark_rows import PUT_MARK, decoded_mark, encoded_mark, key_of
from ollim_bot.kernel.store.records import GET_RECORD, PUT_RECORD
from ollim_bot.kernel.store.schema import SCHEMA, tables
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.changes import EVENT, TASK, Changer, ChangeRow
from ollim_bot.kernel.values.initiative import SetByAgent, Setter
from ollim_bot.kernel.values.skills import AgentSkills
from ollim_bot.kernel.values.taint import marked_taint
from ollim_bot_standby.bot_rows import (
    ROWS_IN_FRAME,
    BadFrame,
    BotGreeting,
    Frame,
    Frames,
    peer_of,
    short_address,
)
from ollim_bot_standby.machines import NOT_NOW, OnStandby
from ollim_bot_standby.postgres.connection import Address, connect_to
from ollim_bot_standby.postgres.database import PostgresDatabase, open_postgres
from ollim_bot_standby.postgres.lease import Lease

R = TypeVar("R")

# In seconds: a bot that has just begun to lead opens the rows first.
_OPENING = 3.0
# In seconds: for so long a question waits for its command, in all.
ASKING = 30.0


class CommandRows:
    """Questions have connections of their own; steps run among those of the bot that leads.

    `leader` is what the machine is called that leads, while another one does.
    """

    def __init__(self, address: Address, lease: Lease, now: Callable[[], datetime]) -> None:
        self.place = address.place
        self.leader = ""
        self._address = address
        self._lease = lease
        self._now = now
        self._store: Store | None = None
        self._is_open = threading.Event()
        self._lock = threading.Lock()
        self._idle: PostgresDatabase | None = None

    @property
    def leads(self) -> bool:
        return self._lease.held is not None

    def open(self, store: Store) -> None:
        """Run steps in the store of this bot from now on."""
        self._store = store
        self._is_open.set()

    def query(self, question: Step[R]) -> R:
        with self._lock:
            reader, self._idle = self._idle, None
        connect = partial(connect_to, idle_in_step=ASKING)
        reader = reader or open_postgres(self._address, self._now, lease=None, connect=connect)
        try:
            return reader.query(question)
        finally:
            # One connection is kept for the next question.
            with self._lock:
                spare, self._idle = self._idle, reader
            if spare is not None:
                spare.close()

    def run(self, step: Step[R]) -> R:
        if self.leads:
            self._is_open.wait(_OPENING)
        elif self.leader:
            raise OnStandby(self.place, self.leader)
        if self._store is None or not self.leads:
            raise WriteFailed(self.place, NOT_NOW)
        return self._store.run(step)

    def close(self) -> None:
        with self._lock:
            if self._idle is not None:
                self._idle.close()


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
    opened = [table for table in tables() if table.name in _OPEN_TABLES]
    columns = (column for table in opened for column in table.columns)
    return frozenset({*_WORDS, *_OPEN_TABLES, *columns}).issuperset(words)


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
    allowed = [before.one_more_in_turn(setter, day)[0]]
    for job, _ in after.origins[-1:]:
        allowed.append(before.one_more(Setter(setter, job, allow_ping=False), day)[0])
    return after in allowed


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
    is_true = tuple(arguments) == encoded_row(row) and tx.changes.find(row.key) is None
    if not is_true or row.undoes or row.is_begun:
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


# In seconds: for so long a step waits for its command, in all.
_HANGING = 1.5
_GREETING = 1.5
# Statements of one step: many quick ones may not hold up the bot either.
_MOST_STATEMENTS = 2000
_MOST_AT_ONCE = 4
_WAITING = 64
_PAUSE = 0.1
# A single statement may not hold the lease longer than a command that hangs.
_SHORT_STATEMENTS = f"SET LOCAL statement_timeout = {int(_HANGING * 1000)}"
_TOO_SLOW = "was waited for by a command for too long. Nothing was changed. Try again."

_logger = logging.getLogger(__name__)


class CommandServer:
    """Answers commands of this user on a socket, each in a thread of its own, a few at once."""

    def __init__(
        self, path: Path, rows: CommandRows, bot: int | None = None, hanging: float = _HANGING
    ) -> None:
        """`bot` is the process that starts the agent's programs, if it is another one.

        A step waits for its command for `hanging` seconds in all.
        """
        self._hanging = hanging
        self._path = path
        self._rows = rows
        self._bot = bot or os.getpid()
        self._free = threading.Semaphore(_MOST_AT_ONCE)
        self._listener: socket.socket | None = None
        self._served_now: dict[threading.Thread, socket.socket] = {}

    def start(self) -> None:
        """Listen from now on; the caller holds the instance lock. Raises `OSError`."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A killed bot leaves its socket behind.
            self._path.unlink(missing_ok=True)
            with short_address(self._path) as address:
                listener.bind(address)
            self._path.chmod(0o600)
            listener.listen(_WAITING)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        threading.Thread(
            target=self._accept, args=(listener,), name="commands", daemon=True
        ).start()

    def stop(self) -> None:
        """Take no further command, and nothing more of one that is not at its end.

        A second call is harmless.
        """
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread, connection in [*self._served_now.items()]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
            thread.join()

    def _accept(self, listener: socket.socket) -> None:
        while self._listener is listener:
            self._free.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:
                self._free.release()
                if self._listener is listener:
                    sleep(_PAUSE)
                continue
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="command", daemon=True
            )
            self._served_now[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with closing(connection), suppress(OSError, BadFrame, _Gone):
                self._answer(connection)
        except Exception:  # a fault of one command must not end the bot
            _logger.exception("A command could not be answered")
        finally:
            del self._served_now[threading.current_thread()]
            self._free.release()

    def _answer(self, connection: socket.socket) -> None:
        peer = peer_of(connection)
        if peer.uid != os.geteuid():
            return
        is_agent = _is_below(peer.pid, self._bot)
        frames, rows = Frames(connection, _GREETING), self._rows
        greeting = BotGreeting(SCHEMA, str(rows.place), rows.leads, rows.leader, is_agent)
        frames.send(greeting._asdict())
        request = frames.receive()
        if request is None:
            return
        is_change = request.get("do") == "change"
        is_limited = is_agent or bool(request.get("is_agent"))
        hanging = self._hanging if is_change else ASKING
        work = _CommandWork(frames, hanging, is_change, is_limited)
        answer = _outcome(lambda: rows.run(work.step) if is_change else rows.query(work.step))
        frames.patience = _GREETING
        frames.send(answer)


def _is_below(pid: int | None, bot: int) -> bool:
    """Whether the bot started the process; True if it has ended, so that this cannot be told."""
    if pid is None or parent_of(bot) is None:
        return False  # the system does not tell
    above = parent_of(pid)
    return above is None or bot in line_of(above)


def _outcome(work: Callable[[], list[str]]) -> Frame:
    """What the transaction came to, for the command; it is certain, or named as unknown."""
    try:
        return {"end": "done", "changed": work()}
    except _RunTwice:
        return {"end": "again"}
    except (NotLeading, OutcomeUnknown) as over:
        # The next step of the bot itself raises it again, and ends the bot.
        return {"end": "unknown", "reason": str(over)}
    except TimeoutError:
        return {"end": "refused", "kind": "write", "reason": _TOO_SLOW}
    except StorageError as refused:
        kinds = ((WriteFailed, "write"), (Unreadable, "read"))
        kind = next((name for each, name in kinds if isinstance(refused, each)), "")
        return {"end": "refused", "kind": kind, "reason": refused.reason}
    except NotForAgent as refused:
        return {"end": "refused", "kind": "write", "reason": str(refused)}


class _Gone(Exception):
    """The command has ended or said nonsense: nothing is committed."""


class _RunTwice(Exception):
    """The step has to be run again, which the command has to do."""


@dataclass
class _CommandWork:
    """The statements of a command as one step, or one question."""

    frames: Frames
    hanging: float
    is_change: bool
    is_limited: bool
    has_begun: bool = False

    def step(self, tx: Transaction) -> list[str]:
        """Run what the command sends until it asks for the end; the names of what it changed."""
        if self.has_begun:
            raise _RunTwice
        self.has_begun = True
        self.frames.patience = self.hanging
        if self.is_limited:
            tx.statements.rows(_SHORT_STATEMENTS)
        count = 0
        while (frame := self.frames.receive()) is not None:
            if (lines := frame.get("lines")) is not None:
                if lines and self.is_limited:
                    raise NotForAgent
                tx.statements.lines += (line for line in lines if isinstance(line, bytes))
                return sorted(tx.changed)
            count += 1
            if self.is_change and count > _MOST_STATEMENTS:
                raise TimeoutError
            self._answer(tx, frame)
        raise _Gone

    def _answer(self, tx: Transaction, frame: Frame) -> None:
        sql, arguments, table = frame.get("sql"), frame.get("arguments"), frame.get("table")
        if not (isinstance(sql, str) and isinstance(arguments, list) and isinstance(table, str)):
            raise _Gone
        if self.is_limited:
            rows = run_for_agent(tx, sql, arguments)
        elif table:
            rows = tx.statements.write(table, sql, *arguments)
        else:
            rows = tx.statements.rows(sql, *arguments)
        while len(rows) > ROWS_IN_FRAME:
            self.frames.send({"rows": rows[:ROWS_IN_FRAME], "goes_on": True})
            rows = rows[ROWS_IN_FRAME:]
        self.frames.send({"rows": rows, "changed": sorted(tx.changed)})
