"""Reads the changes for `ollim-bot changes` and for the page, with what git has from before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from ollim_bot.domain.change_list import ChangeFilter, KeptChange, OlderChange
from ollim_bot.domain.changes import ChangeRow
from ollim_bot.store.change_rows import ChangeRows
from ollim_bot.store.journal import commits_before

# How many rows are read at once.
_CHUNK = 500
# Lines of the history in which words are looked for.
_MOST_SEARCHED = 5000


def newest_changes(
    rows: ChangeRows, limit: int, meant: ChangeFilter | None = None
) -> list[KeptChange]:
    """The newest changes that are meant, the newest first."""
    found: Iterable[ChangeRow] = rows.newest(limit)
    if meant is not None and meant != ChangeFilter():
        found = filter(meant.has, _likely(rows, meant, min(limit, _CHUNK)))
    return [KeptChange(each, rows.is_undone(each.key)) for each in islice(found, limit)]


def _likely(changes: ChangeRows, wanted: ChangeFilter, chunk: int) -> Iterator[ChangeRow]:
    rows = changes.likely(wanted.who, wanted.words, chunk)
    while rows:
        yield from rows
        rows = changes.likely(wanted.who, wanted.words, chunk, rows[-1].key)


def older_changes(
    root: Path, found: Sequence[ChangeRow], limit: int, meant: ChangeFilter | None = None
) -> list[OlderChange]:
    """What the history has from before the last of the changes, up to `limit` lines with them."""
    if len(found) >= limit:
        return []
    wanted = meant or ChangeFilter()
    first = found[-1].at if found else None
    left = limit - len(found)
    lines = commits_before(root, first, _MOST_SEARCHED if wanted.words else left)
    return [OlderChange(at, what) for at, what in lines if wanted.has_older(what)][:left]
