"""The changes on the page: who changed what, and the undo of each as long as it applies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from ollim_bot.domain.answer_undo import state_text, state_words
from ollim_bot.domain.change_list import (
    CHANGERS,
    ChangeFilter,
    ChangeList,
    file_undone,
    setting_undone,
    task_undone,
    why_elsewhere,
)
from ollim_bot.domain.changes import ANSWER, SETTING, TASK, Changer, ChangeRow
from ollim_bot.domain.views import Preview, ViewAnswer
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock, TaskList
from ollim_bot.store.change_reports import UndoChances
from ollim_bot.store.change_rows import newest_changes
from ollim_bot.store.changes import FileChanges, undo_setting
from ollim_bot.store.item_answers import ItemAnswers
from ollim_bot.store.journal import older_changes
from ollim_bot.store.store import Store, changes_of
from ollim_bot.store.task_undo import TaskUndoer

_GONE = "This change is not kept any more, so nothing was undone."


class ChangesPage:
    """An `ActingView`. The action is `undo` (`id`), as `ollim-bot undo` does it.

    The words of the address are `who`, `words`, and how many are wanted at `most`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        root: Path,
        files: FileChanges,
        answers: ItemAnswers,
        tasks: Callable[[], TaskList],
    ) -> None:
        self._store = store
        self._clock = clock
        self._root = root
        self._files = files
        self._answers = answers
        self._tasks = tasks
        self._chances = UndoChances(
            store, files, lambda change: answers.refuse_undo(change, clock.now())
        )

    async def look(self, asked: Mapping[str, str]) -> ChangeList:
        return await asyncio.to_thread(self._read, asked)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, "changes")

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        key = fields.get("id", "")
        change = await self._store.read(lambda tx: tx.changes.find(key))
        if action != "undo" or change is None:
            return ViewAnswer(_GONE, is_error=True)
        if why := why_elsewhere(change):
            return ViewAnswer(why, is_error=True)
        try:
            return ViewAnswer(await self._undo(change))
        except OllimError as refused:
            return ViewAnswer(str(refused), is_error=True)

    async def preview(self, _: str, _fields: Mapping[str, str]) -> Preview:
        return Preview()

    async def _undo(self, change: ChangeRow) -> str:
        """Undo the change, and return what there is to say. Raises `OllimError`."""
        if change.kind == ANSWER:
            item = await self._answers.undo_change(change, Changer.PAGE)
            words = state_words(state_text(item), self._clock.now())
            return f"Undone. “{item.owner_title}” is {words} again."
        if change.kind == SETTING:
            await self._store.transact(lambda tx: undo_setting(tx, change, Changer.PAGE))
            return setting_undone(change)
        if change.kind == TASK:
            undoer = TaskUndoer(self._tasks(), self._store, self._clock.now)
            return task_undone(change, await asyncio.to_thread(undoer.undo, change, Changer.PAGE))
        after = await asyncio.to_thread(self._files.undo_file, change, Changer.PAGE)
        return file_undone(change, after)

    def _read(self, asked: Mapping[str, str]) -> ChangeList:
        who, words, most = (asked.get(each, "") for each in ("who", "words", "most"))
        meant = ChangeFilter(who if who in CHANGERS else "", words.strip())
        limit = int(most) if most.isdecimal() else 100
        kept = self._store.query(lambda tx: newest_changes(tx.changes, limit + 1, meant))
        shown = kept[:limit]
        rows = [each.change for each in kept]
        older = older_changes(self._root, rows, limit + 1, meant)
        return ChangeList(
            self._clock.now(),
            meant,
            tuple(map(self._chances.line, shown)),
            tuple(older[: limit - len(shown)]),
            len(kept) + len(older) > limit,
        )
