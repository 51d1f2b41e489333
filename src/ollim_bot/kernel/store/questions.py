"""Questions to the database of a data directory as it is, with nothing changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from ollim_bot.kernel.base.errors import OllimError, StorageError, Unreadable
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.backend import ServerRows
from ollim_bot.kernel.store.connection import SqliteStatements, Statements, connect_for_reading
from ollim_bot.kernel.store.database_errors import Damaged, NoDatabase, OtherSchema, translated
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.schema import SCHEMA, schema_of
from ollim_bot.kernel.store.standby_loader import load_standby, shared_address
from ollim_bot.kernel.store.transaction import Step, Transaction

DATABASE = "ollim.db"

R = TypeVar("R")


def ask_rows(paths: DataPaths, question: Callable[[Statements], R]) -> R:
    """The answer to `question`, of one state.

    Raises `StorageError` if there is no database of this version, or none that can be read.
    """
    path = paths.state / DATABASE
    if not path.is_file():
        raise Unreadable(path, "is not a file.") if path.exists() else NoDatabase(path)
    try:
        with closing(connect_for_reading(path)) as connection:
            check_schema(path, schema_of(connection))
            connection.execute("BEGIN")
            return question(SqliteStatements(connection, path))
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused
    except Malformed as wrong:
        raise Damaged(path, str(wrong)) from wrong


def check_schema(path: Path, found: int) -> None:
    if found == 0:
        raise NoDatabase(path)
    if found != SCHEMA:
        raise OtherSchema(path, found, SCHEMA)


def ask(paths: DataPaths, now: datetime, question: Step[R]) -> R:
    """Return the answer to `question`, with nothing changed.

    Raises `StorageError` if there is no database of this version, or none that can be read.
    """
    return ask_rows(paths, lambda statements: question(Transaction(statements, now)))


def look_into(paths: DataPaths, now: datetime, question: Step[R]) -> R | None:
    """As `ask`, but None if there is no database, or none that can be read."""
    return look_into_rows(paths, lambda statements: question(Transaction(statements, now)))


def look_into_rows(paths: DataPaths, question: Callable[[Statements], R]) -> R | None:
    """As `look_into`, for rows that no repository offers."""
    try:
        return ask_rows(paths, question)
    except (OSError, StorageError):
        return None


def has_state(paths: DataPaths) -> bool:
    """Whether a bot has run in this data directory."""
    return (paths.state / DATABASE).exists()


@contextmanager
def rows_on_server(
    environ: Mapping[str, str], paths: DataPaths, now: Callable[[], datetime]
) -> Iterator[ServerRows | None]:
    """The rows on a server; None if this installation has a file.

    It is connected when it is first asked. Raises `OllimError` if it cannot be used from here.
    """
    url = shared_address(environ, paths)
    if url is None:
        yield None
        return
    with closing(load_standby("postgres.commands").rows_on_server(url, paths, now)) as opened:
        yield opened


class AskRows(Protocol):
    def __call__(self, question: Step[R], /) -> R | None:
        """The answer; None if there are no rows, or none that can be read."""


@contextmanager
def reading(environ: Mapping[str, str], paths: DataPaths, now: datetime) -> Iterator[AskRows]:
    """Ask the rows of an installation, wherever they are, with nothing changed."""

    def ask(question: Step[R]) -> R | None:
        try:
            if server is not None:
                return server.query(question)
        except StorageError:
            return None
        return None if refused else look_into(paths, now, question)

    server, refused = None, False
    with ExitStack() as stack:
        try:
            server = stack.enter_context(rows_on_server(environ, paths, lambda: now))
        except OllimError:
            refused = True
        yield ask
