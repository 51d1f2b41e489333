"""The side of the bot on its local socket: runs the transactions of commands among its own."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import sleep
from typing import TypeVar

from ollim_bot.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.processes import line_of, parent_of
from ollim_bot.store.connection import Row, Value
from ollim_bot.store.errors import NotLeading, OutcomeUnknown
from ollim_bot.store.schema import SCHEMA
from ollim_bot.store.transaction import Transaction
from ollim_bot_standby.agent_limits import NotForAgent, run_for_agent
from ollim_bot_standby.command_frames import (
    ROWS_IN_FRAME,
    BadFrame,
    Frame,
    Frames,
    peer_of,
    short_address,
)
from ollim_bot_standby.command_rows import ASKING, CommandRows

R = TypeVar("R")

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
                target=self._served, args=(connection,), name="command", daemon=True
            )
            self._served_now[thread] = connection
            thread.start()

    def _served(self, connection: socket.socket) -> None:
        try:
            with closing(connection), suppress(OSError, BadFrame, _Gone):
                self._serve(connection)
        except Exception:  # a fault of one command must not end the bot
            _logger.exception("A command could not be answered")
        finally:
            del self._served_now[threading.current_thread()]
            self._free.release()

    def _serve(self, connection: socket.socket) -> None:
        peer = peer_of(connection)
        if peer.uid != os.geteuid():
            return
        is_agent = _is_below(peer.pid, self._bot)
        frames, rows = Frames(connection, _GREETING), self._rows
        frames.send(
            {
                "schema": SCHEMA,
                "place": str(rows.place),
                "leads": rows.leads,
                "leader": rows.leader,
                "is_agent": is_agent,
            }
        )
        request = frames.receive()
        if request is None:
            return
        is_change = request.get("do") == "change"
        is_limited = is_agent or bool(request.get("is_agent"))
        hanging = self._hanging if is_change else ASKING
        work = _CommandWork(frames, hanging, is_change=is_change, is_limited=is_limited)
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


class _CommandWork:
    """The statements of a command as one step, or one question."""

    def __init__(
        self, frames: Frames, hanging: float, *, is_change: bool, is_limited: bool
    ) -> None:
        self._frames = frames
        self._hanging = hanging
        self._is_change = is_change
        self._is_limited = is_limited
        self._has_begun = False

    def step(self, tx: Transaction) -> list[str]:
        """Run what the command sends until it asks for the end; the names of what it changed."""
        if self._has_begun:
            raise _RunTwice
        self._has_begun = True
        self._frames.patience = self._hanging
        if self._is_limited:
            tx.statements.rows(_SHORT_STATEMENTS)
        count = 0
        while (frame := self._frames.receive()) is not None:
            if "lines" in frame:
                return self._ended(tx, frame["lines"])
            count += 1
            if self._is_change and count > _MOST_STATEMENTS:
                raise TimeoutError
            self._answer(tx, frame)
        raise _Gone

    def _ended(self, tx: Transaction, lines: list[object]) -> list[str]:
        if lines and self._is_limited:
            raise NotForAgent
        tx.statements.lines += (line for line in lines if isinstance(line, bytes))
        return sorted(tx.changed)

    def _answer(self, tx: Transaction, frame: Frame) -> None:
        sql, arguments, table = frame.get("sql"), frame.get("arguments"), frame.get("table")
        if not (isinstance(sql, str) and isinstance(arguments, list) and isinstance(table, str)):
            raise _Gone
        rows = self._rows(tx, sql, arguments, table)
        while len(rows) > ROWS_IN_FRAME:
            self._frames.send({"rows": rows[:ROWS_IN_FRAME], "goes_on": True})
            rows = rows[ROWS_IN_FRAME:]
        self._frames.send({"rows": rows, "changed": sorted(tx.changed)})

    def _rows(self, tx: Transaction, sql: str, arguments: Sequence[Value], table: str) -> list[Row]:
        if self._is_limited:
            return run_for_agent(tx, sql, arguments)
        if table:
            return tx.statements.write(table, sql, *arguments)
        return tx.statements.rows(sql, *arguments)
