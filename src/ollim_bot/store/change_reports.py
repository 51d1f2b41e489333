"""Reads the changes for `ollim-bot changes` and for the page, and whether each can be undone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from ollim_bot.domain.change_list import ChangeLine, KeptChange, why_elsewhere
from ollim_bot.domain.changes import ANSWER, SETTING, TASK, ChangeRow, NotUndone
from ollim_bot.domain.runtime_config import CONFIG_KEYS
from ollim_bot.store.changes import CUT, FileChanges, Rows, UndoRefused, refuse_setting_undo
from ollim_bot.store.transaction import Transaction

# Characters of both texts of a change whose difference is looked for.
_LONGEST_COMPARED = 40_000
_MOST_LINES = 200

# Raises `UndoRefused` if the answer cannot be taken back.
RefuseAnswer = Callable[[ChangeRow], None]


class UndoChances:
    """Says of each change whether it can be undone as things are now. All of it may block."""

    def __init__(self, rows: Rows, files: FileChanges, refuse_answer: RefuseAnswer) -> None:
        self._rows = rows
        self._files = files
        self._refuse_answer = refuse_answer

    def line(self, kept: KeptChange) -> ChangeLine:
        """The change with its difference, and with the reason why it cannot be undone."""
        refusal = "" if kept.is_undone else self._refusal(kept.change)
        return ChangeLine(kept.change, _difference(kept.change), kept.is_undone, refusal)

    def _refusal(self, change: ChangeRow) -> str:
        if change.is_cut:
            return CUT
        if why := why_elsewhere(change):
            return why
        try:
            self._refuse(change)
        except UndoRefused as refused:
            return refused.reason
        return ""

    def _refuse(self, change: ChangeRow) -> None:
        if change.kind == ANSWER:
            self._refuse_answer(change)
        elif change.kind == SETTING and change.name in CONFIG_KEYS:
            self._rows.query(lambda tx: refuse_setting_undo(tx, change))
        elif not change.kind and _size(change) <= _LONGEST_COMPARED:
            self._files.refuse_undo(change)
        elif change.kind == TASK:
            self._rows.query(lambda tx: _refuse_task(tx, change))


def _refuse_task(tx: Transaction, change: ChangeRow) -> None:
    """Refuse what is known to have changed since; the list itself is asked when it is pressed."""
    last = tx.changes.last_of(change.place)
    if last is not None and last.after not in (change.after, change.before):
        raise UndoRefused(NotUndone.CHANGED_SINCE, f"The task was changed since ({last.key}).")


def _difference(change: ChangeRow) -> tuple[str, ...]:
    """Its changed lines; of texts that are too long to compare, none."""
    if change.is_cut or change.kind in (SETTING, ANSWER) or _size(change) > _LONGEST_COMPARED:
        return ()
    return tuple(islice(change.changed_lines(), _MOST_LINES))


def _size(change: ChangeRow) -> int:
    return len(change.before or "") + len(change.after or "")
