"""The rows on the server that machines share, as upkeep beside the bot uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from typing import Protocol, TypeVar

from ollim_bot.kernel.base.errors import OllimError, StorageError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.backend import ServerRows
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.store.standby_loader import load_standby, shared_address
from ollim_bot.kernel.store.transaction import Step

R = TypeVar("R")


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
