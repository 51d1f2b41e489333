"""Exports of the logs in the database: one JSON object a line, oldest first."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, open_data
from ollim_bot.cli.framework import Given, Noun, argument, past_moment, plain, shown_json
from ollim_bot.cli.terminal import show
from ollim_bot.errors import OllimError, WriteFailed
from ollim_bot.store.files import OsDisk

if TYPE_CHECKING:
    from ollim_bot.store.transaction import Transaction

PAGE_SIZE = 500


# The rows after a place, at most `PAGE_SIZE`, each with its moment and as a line of JSON; and the
# place of the last one.
PageReader = Callable[[int, "Transaction"], tuple[list[tuple[datetime, bytes]], int]]


EXPORT_ARGUMENTS = (
    argument(
        "--since", metavar="DATE", help="only what is not older: 2026-11-01, or 30d; all if omitted"
    ),
    argument("--format", choices=["jsonl"], help="one JSON object a line"),
    argument("--output", metavar="FILE", help="write to this file, not to the terminal"),
    argument("--force", action="store_true", help="replace FILE if it exists"),
)


def export(given: Given, caller: Caller, read_page: PageReader) -> None:
    """Write the rows that `read_page` gives, from place 0 on; the database is not changed."""
    data = open_data(caller)
    lines = _lines(data, read_page, past_moment(given, "since", data.now))
    if "output" not in given:
        for line in lines:
            print(shown_json(line.decode()))
        sys.stdout.flush()
        return
    path = caller.path(given["output"])
    with _new_file(path, is_forced="force" in given) as file:
        count = sum(bool(file.write(line + b"\n")) for line in lines)
    rows = "1 row is" if count == 1 else f"{count} rows are"
    show(plain(f"{rows} in {caller.shown(path)}."))


def _lines(data: Data, read_page: PageReader, since: datetime | None) -> Iterator[bytes]:
    # One transaction for each page: a long one would keep the running bot from checkpoints.
    rows, last = data.ask(partial(read_page, 0))
    while rows:
        yield from (line for at, line in rows if since is None or at >= since)
        rows, last = data.ask(partial(read_page, last))


@contextmanager
def _new_file(path: Path, *, is_forced: bool) -> Iterator[BinaryIO]:
    """Create a file that only its owner can read; it gets its name once it is complete."""
    import tempfile

    if os.path.lexists(path):
        if not is_forced:
            raise _taken(path)
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise OllimError(f"{path} is not a file. Name another one.")
    target = Path(os.path.realpath(path))
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:60]}.", dir=target.parent)
    except OSError as refused:
        raise _not_written(path, refused) from refused
    temporary = Path(name)
    try:
        with open(descriptor, "wb") as file:
            yield file
        OsDisk().sync(temporary)
        disk = OsDisk()
        if is_forced:
            disk.replace(temporary, target)
        else:
            try:
                disk.link(temporary, target)
            except FileExistsError:
                raise _taken(target) from None
        disk.sync_folder(target.parent)
    except OSError as refused:
        raise _not_written(path, refused) from refused
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _taken(path: Path) -> OllimError:
    return OllimError(f"{path} exists already. --force replaces it.")


def _not_written(path: Path, refused: OSError) -> WriteFailed:
    return WriteFailed(path, f"could not be written: {refused.strerror or refused}.")


_MESSAGES = Noun("messages")
run = _MESSAGES.run


@_MESSAGES.verb(
    "every message, one JSON object a line", "--output messages.jsonl", *EXPORT_ARGUMENTS
)
def _export(given: Given, caller: Caller) -> None:
    export(given, caller, _page)


def _page(after: int, tx: Transaction) -> tuple[list[tuple[datetime, bytes]], int]:
    from ollim_bot.store.codecs.messages import CHAT_MESSAGES

    found = tx.messages.after(after, PAGE_SIZE)
    rows = []
    for each in found:
        refs = {
            channel: " ".join(ids) for channel, ids in tx.deliveries.refs(each.message.id).items()
        }
        rows.append((each.message.at, CHAT_MESSAGES.encode(replace(each.message, refs=refs))))
    return rows, found[-1].seq if found else after
