"""The rows of a shared database, for a command beside the bot: through the bot's local socket.

One connection is one transaction. The bot greets; the command says whether it reads or changes,
sends its statements, gets their rows, and asks for the commit. Imports nothing slow, and nothing
that speaks to a server: the bot does.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from ollim_bot.kernel.base.errors import StorageError, Unreadable, WriteFailed
from ollim_bot.kernel.store.backend import SharedBackend
from ollim_bot.kernel.store.connection import Row, Statements, Value
from ollim_bot.kernel.store.database_errors import Damaged, OtherSchema
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot_standby.machines import NOT_NOW, OnStandby, ServerGone
from ollim_bot_standby.postgres.search import TsvectorIndex

Frame = dict[str, Any]

# In bytes; in a state file nothing is larger. An answer comes in several frames.
LONGEST_FRAME = 32 * 1024 * 1024
ROWS_IN_FRAME = 200
_LENGTH = struct.Struct(">I")
_READ = 65536
# macOS takes 104 bytes with the one that ends them, Linux 108.
_LONGEST_PATH = 100
_PEER = struct.Struct("3i")
# As in <sys/un.h> of macOS, where a structure begins with its version and the user.
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_XUCRED_SIZE, _XUCRED = 76, struct.Struct("II")


class BadFrame(Exception):
    """The other side does not speak as it should."""


class Frames:
    """Values over a connection, each behind its length.

    All waiting for the other side, together, takes `patience` seconds at most; then each method
    raises `TimeoutError`. They raise `OSError` for a connection that is lost.
    """

    def __init__(self, connection: socket.socket, patience: float) -> None:
        self.patience = patience
        self._connection = connection
        self._received = bytearray()

    def send(self, frame: Frame) -> None:
        encoded = json.dumps(frame, default=_as_plain).encode()
        if len(encoded) > LONGEST_FRAME:
            raise BadFrame(f"a frame of {len(encoded)} bytes")
        with self._waiting():
            self._connection.sendall(_LENGTH.pack(len(encoded)) + encoded)

    def receive(self) -> Frame | None:
        """The next value; None at the end. Raises `BadFrame`."""
        head = self._bytes(_LENGTH.size)
        if head is None:
            return None
        [length] = _LENGTH.unpack(head)
        if length > LONGEST_FRAME:
            raise BadFrame(f"a frame of {length} bytes")
        encoded = self._bytes(length)
        if encoded is None:
            return None
        try:
            frame = json.loads(encoded, object_hook=_from_plain)
        except (ValueError, RecursionError) as wrong:
            raise BadFrame("a frame that is no JSON") from wrong
        if not isinstance(frame, dict):
            raise BadFrame("a frame that is no object")
        return frame

    def _bytes(self, count: int) -> bytes | None:
        while len(self._received) < count:
            with self._waiting():
                part = self._connection.recv(_READ)
            if not part:
                return None
            self._received += part
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        if self.patience <= 0:
            raise TimeoutError
        began = monotonic()
        self._connection.settimeout(self.patience)
        try:
            yield
        finally:
            self.patience -= monotonic() - began


def _as_plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": b2a_base64(value, newline=False).decode()}
    # A sum of the server is a decimal number.
    whole, parts = value.as_integer_ratio()  # type: ignore[attr-defined]
    return whole if parts == 1 else float(value)  # type: ignore[arg-type]


def _from_plain(frame: Frame) -> object:
    return a2b_base64(frame["bytes"]) if frame.keys() == {"bytes"} else frame


class Peer(NamedTuple):
    """The process at the other end; `pid` is None if the system does not tell."""

    uid: int
    pid: int | None


def peer_of(connection: socket.socket) -> Peer:
    """Raises `OSError`."""
    if sys.platform == "darwin":
        named = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_SIZE)
        return Peer(
            _XUCRED.unpack_from(named)[1], connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        )
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(credentials)
    return Peer(uid, pid or None)


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """The address of a socket, also where its path is too long for one. Raises `OSError`."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


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
        with _greeted(self._path) as (frames, greeting):
            if greeting.schema != SCHEMA:
                raise OtherSchema(self._place, greeting.schema, SCHEMA)
            frames.patience = _ANSWERING
            statements = _BotStatements(frames, self._place)
            statements.tell({"do": what, "is_agent": self._asks_as_agent})
            result = step(Transaction(statements, self._now(), TsvectorIndex))
            if statements.failure is not None:
                raise statements.failure
            changed = statements.commit() if what == "change" else frozenset[str]()
        return result, changed - {"mirrors", "meta"}


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

    def commit(self) -> frozenset[str]:
        """The names of what was changed. Raises `StorageError`."""
        is_told = self.tell({"lines": self.lines})
        end = self._answer()
        if end is None and is_told:
            raise WriteFailed(self._place, _UNKNOWN)
        if end is None or end.get("end") != "done":
            raise self._refusal(end)
        return frozenset(end["changed"])

    def _execute(self, sql: str, arguments: Sequence[Value], table: str = "") -> list[Row]:
        if self.failure is not None:
            raise self.failure
        self.tell({"sql": sql, "arguments": list(arguments), "table": table})
        rows: list[Row] = []
        answer: Frame | None = {"goes_on": True}
        while answer is not None and answer.get("goes_on"):
            answer = self._answer()
            rows += map(tuple, answer.get("rows", ()) if answer else ())
        if answer is None or "end" in answer:
            self.failure = self._refusal(answer)
            raise self.failure
        self.changed |= {*answer["changed"]}
        return rows

    def tell(self, frame: Frame) -> bool:
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

    def _refusal(self, end: Frame | None) -> StorageError:
        if end is None:
            return ServerGone(self._place, _ENDED)
        match end.get("end"):
            case "again":
                return _RunAgain(self._place, _ENDED)
            case "unknown":
                return WriteFailed(self._place, _UNKNOWN)
        kind = {"write": WriteFailed, "read": Unreadable}.get(str(end.get("kind")), StorageError)
        return kind(self._place, str(end.get("reason")))
