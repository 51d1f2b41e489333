"""Questions to the database of a data directory as it is, with nothing changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from ollim_bot.kernel.base.errors import StorageError, Unreadable
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.connection import SqliteStatements, Statements, connect_for_reading
from ollim_bot.kernel.store.database_errors import Damaged, NoDatabase, OtherSchema, translated
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.schema import SCHEMA, schema_of
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
