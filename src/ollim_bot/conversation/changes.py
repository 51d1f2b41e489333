"""The changes on the page: who changed what, and the undo of each as long as it applies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import islice
from pathlib import Path

from ollim_bot.domain.answer_words import state_text, state_words
from ollim_bot.domain.change_list import (
    CHANGERS,
    ChangeFilter,
    ChangeLine,
    ChangeList,
    KeptChange,
    file_undone,
    setting_undone,
    task_undone,
    why_elsewhere,
)
from ollim_bot.domain.changes import ANSWER, SETTING, TASK, Changer, ChangeRow
from ollim_bot.domain.job_form import address_of
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.runtime_config import CONFIG_KEYS
from ollim_bot.domain.shared_files import JobFile, ProfileFile
from ollim_bot.domain.views import Preview, ViewAnswer
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock, TaskList
from ollim_bot.store.change_rows import newest_changes
from ollim_bot.store.changes import (
    CUT,
    TASKS,
    FileChanges,
    UndoRefused,
    refuse_setting_undo,
    shared_file,
    undo_setting,
)
from ollim_bot.store.item_answers import ItemAnswers
from ollim_bot.store.job_folder import read_text
from ollim_bot.store.job_types import JOB_TYPES
from ollim_bot.store.journal import older_changes
from ollim_bot.store.store import Store, changes_of
from ollim_bot.store.task_undo import TaskUndoer

_GONE = "This change is not kept any more, so nothing was undone."
# Characters of both texts of a change whose difference is looked for.
_LONGEST_COMPARED = 40_000
_MOST_LINES = 200


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
            tuple(map(self._line, shown)),
            tuple(older[: limit - len(shown)]),
            len(kept) + len(older) > limit,
        )

    def _line(self, kept: KeptChange) -> ChangeLine:
        """The change with its difference, and with the reason why it cannot be undone now."""
        change, lines = kept.change, tuple[str, ...]()
        is_short = len(change.before or "") + len(change.after or "") <= _LONGEST_COMPARED
        if is_short and not change.is_cut and change.kind not in (SETTING, ANSWER):
            lines = tuple(islice(change.changed_lines(), _MOST_LINES))
        if kept.is_undone:
            return ChangeLine(change, lines, is_undone=True)
        try:
            self._refuse(change, is_short=is_short)
        except UndoRefused as refused:
            return ChangeLine(change, lines, refusal=refused.reason, edit=_place_to_edit(change))
        return ChangeLine(change, lines)

    def _refuse(self, change: ChangeRow, *, is_short: bool) -> None:
        """Raise `UndoRefused` if the change cannot be undone as things are now."""
        if why := CUT if change.is_cut else why_elsewhere(change):
            raise UndoRefused(why)
        if change.kind == ANSWER:
            self._answers.refuse_undo(change, self._clock.now())
        elif change.kind == SETTING and change.name in CONFIG_KEYS:
            self._store.query(lambda tx: refuse_setting_undo(tx, change))
        elif change.kind == TASK:
            # The list itself is asked when it is pressed.
            last = self._store.query(lambda tx: tx.changes.last_of(change.place))
            if last is not None and last.after not in (change.after, change.before):
                raise UndoRefused(f"The task was changed since ({last.key}).")
        elif not change.kind and is_short:
            # The lines of a very long text are only compared when it is undone.
            self._files.refuse_undo(change)


def _place_to_edit(change: ChangeRow) -> str:
    """The address of what was changed, of a job with what it was before; empty if there is none."""
    if change.kind == SETTING:
        return "/settings"
    file = shared_file(change.place)
    if isinstance(file, ProfileFile):
        return "/about-me"
    if not isinstance(file, JobFile) or file.is_skill or change.after is None:
        return "/today" if change.place == TASKS else ""
    kind = next(each for each in JobKind if each.plural == file.folder)
    job = read_text(JOB_TYPES[kind], change.after).job
    return f"{address_of(f'{kind}:{job.spec.id}')}?change={change.key}" if job else ""
