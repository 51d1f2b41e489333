"""Reads the database of a data directory as it is, with nothing changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from ollim_bot.errors import Unreadable
from ollim_bot.paths import DataPaths
from ollim_bot.store.connection import Statements, connect_for_reading
from ollim_bot.store.errors import OlderState, OtherSchema, translated
from ollim_bot.store.schema import SCHEMA, schema_of

DATABASE = "ollim.db"

R = TypeVar("R")


def ask_rows(paths: DataPaths, question: Callable[[Statements], R]) -> R:
    """The answer to `question`, of one state.

    Raises `StorageError` if there is no database of this version, or none that can be read.
    """
    path = paths.state / DATABASE
    if not path.is_file():
        raise Unreadable(path, "is not a file.") if path.exists() else OlderState(path)
    try:
        with closing(connect_for_reading(path)) as connection:
            check_schema(path, schema_of(connection))
            connection.execute("BEGIN")
            return question(Statements(connection, path))
    except sqlite3.Error as refused:
        raise translated(path, refused) from refused


def check_schema(path: Path, found: int) -> None:
    if found == 0:
        raise OlderState(path)
    if found != SCHEMA:
        raise OtherSchema(path, found, SCHEMA)
