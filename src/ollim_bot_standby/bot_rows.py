"""The rows of a shared database, for a command beside the bot: through the bot's local socket.

Imports nothing that speaks to a server: the bot does.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from ollim_bot.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.store.backend import SharedBackend
from ollim_bot.store.connection import Row, Statements, Value
from ollim_bot.store.errors import Damaged, OtherSchema
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.schema import SCHEMA
from ollim_bot.store.transaction import Step, Transaction
from ollim_bot_standby.command_frames import BadFrame, Frame, Frames, short_address
from ollim_bot_standby.errors import NOT_NOW, OnStandby, ServerGone
from ollim_bot_standby.postgres.search import TsvectorIndex

R = TypeVar("R")

# In seconds: how long the bot may take to greet, and to answer all of one transaction.
_GREETING, _ANSWERING = 5.0, 60.0
_NO_GREETING = "The bot here does not answer on {path}. Try again, or see `ollim-bot doctor`."
_ENDED = "the bot here has ended just now, or broke off"
_UNKNOWN = (
    "did not say whether the change was made: the bot here has ended meanwhile, or leads no more. "
    "Look with `ollim-bot changes`, then try again."
)
_TOO_LARGE = "does not take so much at once. Nothing was changed."


class BotGreeting(NamedTuple):
    """`leader` is the machine that leads if this one does not, and empty if none does.

    `is_agent` says that the bot keeps this process to the limits of its agent.
    """

    schema: int
    place: str
    leads: bool
    leader: str
    is_agent: bool


class BotRows(SharedBackend):
    """Each transaction is a connection of its own, and runs among those of the bot.

    On a machine that stands by, only questions are answered.
    """

    def __init__(
        self, path: Path, greeting: BotGreeting, now: Callable[[], datetime], *, is_agent: bool
    ) -> None:
        self.leads, self.is_agent, self._leader = greeting.leads, greeting.is_agent, greeting.leader
        self._path = path
        self._now = now
        self._asks_as_agent = is_agent
        self._place = Path(greeting.place)

    def query(self, question: Step[R]) -> R:
        return self._run("read", question)[0]

    def run_noting(self, step: Step[R]) -> tuple[R, frozenset[str]]:
        return self._run("change", step)

    def check_may_change(self) -> None:
        if not self.leads:
            if self._leader:
                raise OnStandby(self._place, self._leader)
            raise WriteFailed(self._place, NOT_NOW)

    def close(self) -> None:
        """Nothing is open between two transactions."""

    def _run(self, what: str, step: Step[R]) -> tuple[R, frozenset[str]]:
        try:
            try:
                return self._run_once(what, step)
            except _RunAgain:
                return self._run_once(what, step)
        except Malformed as wrong:
            raise Damaged(self._place, str(wrong)) from wrong

    def _run_once(self, what: str, step: Step[R]) -> tuple[R, frozenset[str]]:
        with self._begun(what) as statements:
            result = step(Transaction(statements, self._now(), TsvectorIndex))
            if statements.failure is not None:
                raise statements.failure
            changed = statements.commit() if what == "change" else frozenset[str]()
        return result, changed - {"mirrors", "meta"}

    @contextmanager
    def _begun(self, what: str) -> Iterator[_BotStatements]:
        with _greeted(self._path) as (frames, greeting):
            if greeting.schema != SCHEMA:
                raise OtherSchema(self._place, greeting.schema, SCHEMA)
            frames.patience = _ANSWERING
            statements = _BotStatements(frames, self._place)
            statements.begin(what, is_agent=self._asks_as_agent)
            yield statements


def rows_beside_bot(
    path: Path, now: Callable[[], datetime], *, is_agent: bool = False
) -> BotRows | None:
    """The rows by the bot that listens at `path`; None if none does, or only for another user.

    Raises `StorageError` if it does not answer.
    """
    try:
        with _greeted(path) as (_, greeting):
            return BotRows(path, greeting, now, is_agent=is_agent)
    except ServerGone:
        return None


@contextmanager
def _greeted(path: Path) -> Iterator[tuple[Frames, BotGreeting]]:
    """A connection on which the bot has greeted. Raises `StorageError`."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        frames = Frames(connection, _GREETING)
        try:
            connection.settimeout(_GREETING)
            with short_address(path) as address:
                connection.connect(address)
            greeting = frames.receive()
        except TimeoutError as slow:
            raise Unreadable(path, _NO_GREETING.format(path=path.name)) from slow
        except (OSError, BadFrame) as lost:
            raise ServerGone(path, _ENDED) from lost
        if greeting is None or greeting.keys() != {*BotGreeting._fields}:
            raise ServerGone(path, _ENDED)
        yield frames, BotGreeting(**greeting)


class _RunAgain(ServerGone):
    """The bot has lost its connection to the server: nothing was committed."""


class _BotStatements(Statements):
    """The bot ends the transaction with the first statement that fails."""

    def __init__(self, frames: Frames, place: Path) -> None:
        super().__init__()
        self._frames = frames
        self._place = place

    def begin(self, what: str, *, is_agent: bool) -> None:
        self._told({"do": what, "is_agent": is_agent})

    def commit(self) -> frozenset[str]:
        """The names of what was changed. Raises `StorageError`."""
        is_told = self._told({"lines": self.lines})
        end = self._answer()
        if end is None:
            raise WriteFailed(self._place, _UNKNOWN) if is_told else self._gone()
        if end.get("end") != "done":
            raise self._refusal(end)
        return frozenset(end["changed"])

    def _execute(self, sql: str, arguments: Sequence[Value], table: str = "") -> list[Row]:
        if self.failure is not None:
            raise self.failure
        self._told({"sql": sql, "arguments": list(arguments), "table": table})
        rows: list[Row] = []
        answer: Frame | None = {"goes_on": True}
        while answer is not None and answer.get("goes_on"):
            answer = self._answer()
            rows += map(tuple, answer.get("rows", ()) if answer else ())
        if answer is None or "end" in answer:
            self.failure = self._gone() if answer is None else self._refusal(answer)
            raise self.failure
        self.changed |= {*answer["changed"]}
        return rows

    def _told(self, frame: Frame) -> bool:
        """Whether the bot was there to be told; if not, it may have said why before."""
        try:
            self._frames.send(frame)
        except OSError:
            return False
        except BadFrame as large:
            raise WriteFailed(self._place, _TOO_LARGE) from large
        return True

    def _answer(self) -> Frame | None:
        try:
            return self._frames.receive()
        except (OSError, BadFrame):
            return None

    def _gone(self) -> StorageError:
        return ServerGone(self._place, _ENDED)

    def _refusal(self, end: Frame) -> StorageError:
        match end.get("end"):
            case "again":
                return _RunAgain(self._place, _ENDED)
            case "unknown":
                return WriteFailed(self._place, _UNKNOWN)
        kind = {"write": WriteFailed, "read": Unreadable}.get(str(end.get("kind")), StorageError)
        return kind(self._place, str(end.get("reason")))
