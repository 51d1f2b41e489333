"""The rows on the server that machines share, as upkeep beside the bot uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from ollim_bot.errors import OllimError, StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.store.connection import Statements
from ollim_bot.store.opening import look_into
from ollim_bot.store.shared import NO_DRIVER, shared_address
from ollim_bot.store.transaction import Step

R = TypeVar("R")


class SharedRows(Protocol):
    """Each method raises `StorageError` if the server does not answer."""

    def query(self, question: Step[R]) -> R:
        """Return `question(tx)`, which sees one state of the rows."""

    def query_rows(self, question: Callable[[Statements], R]) -> R:
        """As `query`, for rows that no repository offers."""

    def waiting_for_this(self) -> Sequence[tuple[str, str]]:
        """The names and versions of machines that stand by; none if this one does not lead."""

    def copy_to(self, target: Path, now: datetime) -> None:
        """Write one state of all rows into a new file of SQLite."""


@contextmanager
def rows_on_server(
    environ: Mapping[str, str], paths: DataPaths, now: Callable[[], datetime]
) -> Iterator[SharedRows | None]:
    """The rows on a server; None if this installation has a file.

    It is connected when it is first asked. Raises `OllimError` if it cannot be used from here.
    """
    url = shared_address(environ, paths)
    if url is None:
        yield None
        return
    try:
        from ollim_bot_standby.postgres.commands import CommandDatabase
        from ollim_bot_standby.postgres.connection import parse_address
    except ModuleNotFoundError as missing:
        raise OllimError(NO_DRIVER) from missing
    # Nothing is changed, so no file is laid out either.
    opened = CommandDatabase(parse_address(url), paths, now, lambda *_: True, lambda _: None)
    try:
        yield opened
    finally:
        opened.close()


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
