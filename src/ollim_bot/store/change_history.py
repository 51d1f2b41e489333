"""Reads what was changed before the first change that is kept, from the history in git."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ollim_bot.domain.change_list import ChangeFilter, OlderChange
from ollim_bot.domain.changes import ChangeRow
from ollim_bot.store.journal import commits_before

# Lines of the history in which words are looked for.
_MOST_SEARCHED = 5000


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
