"""The rows of an installation, for upkeep: in its file, or on the server that machines share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from ollim_bot.errors import OllimError
from ollim_bot.paths import DataPaths
from ollim_bot.store.shared import NO_DRIVER, shared_address

if TYPE_CHECKING:
    from ollim_bot.store.postgres.commands import CommandDatabase


@contextmanager
def rows_on_server(
    environ: Mapping[str, str], paths: DataPaths, now: Callable[[], datetime]
) -> Iterator[CommandDatabase | None]:
    """The rows on the server that machines share; None if this installation has a file.

    It is connected when it is first asked. Raises `OllimError` if it cannot be used from here.
    """
    url = shared_address(environ, paths)
    if url is None:
        yield None
        return
    try:
        from ollim_bot.store.postgres.commands import CommandDatabase
        from ollim_bot.store.postgres.connection import parse_address
    except ModuleNotFoundError as missing:
        raise OllimError(NO_DRIVER) from missing
    opened = CommandDatabase(parse_address(url), paths, now, lambda _: None)
    try:
        yield opened
    finally:
        opened.close()
