"""Changes on the page: who changed what, with its difference and its Undo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import islice
from pathlib import Path

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import counted, shortened
from ollim_bot.kernel.changes.file_changes import (
    CUT,
    TASKS,
    FileChanges,
    UndoRefused,
    refuse_setting_undo,
    shared_file,
    undo_setting,
)
from ollim_bot.kernel.changes.item_answers import ItemAnswers
from ollim_bot.kernel.changes.task_undo import TaskUndoer
from ollim_bot.kernel.store.change_rows import newest_changes
from ollim_bot.kernel.store.job_folder import read_text
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.journal import older_changes
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.values.answers import state_text, state_words
from ollim_bot.kernel.values.changes import (
    ANSWER,
    CHANGERS,
    SETTING,
    TASK,
    ChangeFilter,
    ChangeLine,
    ChangeList,
    Changer,
    ChangeRow,
    KeptChange,
    file_undone,
    setting_undone,
    task_undone,
    why_elsewhere,
)
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.ports import TaskList
from ollim_bot.kernel.values.run_words import address_of_run
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS
from ollim_bot.kernel.values.shared_files import JobFile, ProfileFile
from ollim_bot.kernel.values.views import ActingView, ViewAnswer
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    fold,
    joined_parts,
    list_section,
    select,
    things,
    time_html,
)

_GONE = "This change is not kept any more, so nothing was undone."
# Characters of both texts of a change whose difference is looked for.
_LONGEST_COMPARED = 40_000
_MOST_LINES = 200


@dataclass(eq=False)
class ChangesPage(ActingView[ChangeList]):
    """An `ActingView`. The action is `undo` (`id`), as `ollim-bot undo` does it.

    The words of the address are `who`, `words`, and how many are wanted at `most`.
    """

    _store: Store
    _clock: Clock
    _root: Path
    _files: FileChanges
    _answers: ItemAnswers
    _tasks: Callable[[], TaskList]

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


_EMPTY = (
    "Nothing was changed yet. What you, the bot or an editor change from now on stands here, with "
    'a way back. Begin with a setting: <a href="/settings">Settings</a>.'
)
_NOTHING_FITS = 'No change fits. <a href="/changes">Show all</a>'
_LONGEST_LINE = 300
_FIRST_LINES = 6


@joined_parts
def changes_html(listed: ChangeList, _: int) -> Iterator[str]:
    """The changes, each with Undo or the reason why not, and the older history below them."""
    yield "<h2>Changes</h2>"
    meant, changers = listed.meant, [("", "anyone"), *zip(CHANGERS, CHANGERS, strict=True)]
    yield (
        f'<form data-filter="1"><label>Who{select("who", changers, meant.who)}</label>'
        f'<label>Find<input name="words" value="{escape(meant.words)}" autocomplete="off">'
        "</label></form>"
    )
    if not listed.lines and not listed.older:
        yield f'<p class="empty">{_EMPTY if meant == ChangeFilter() else _NOTHING_FITS}</p>'
    if listed.lines:
        yield things(_line(each, listed.now) for each in listed.lines)
    older = [
        f'<li class="thing"><p>{time_html(at, describe(at, listed.now))} '
        f'<bdi class="what">{_short(what)}</bdi></p></li>'
        for at, what in listed.older
    ]
    yield list_section("changes-older", "Older, from the history in git", older)
    if listed.has_more:
        yield '<button type="button" class="plain" data-most>Show more</button>'


def _line(line: ChangeLine, now: datetime) -> str:
    change = line.change
    notes = [change.key]
    notes += [f"undoes {change.undoes}"] if change.undoes else []
    notes += ["undone"] if line.is_undone else []
    notes += [f"with words of others: {change.untrusted}"] if change.untrusted else []
    # Who made the change, and in which turn or run; a run leads to its own page.
    cause = f"<bdi>{_short(change.cause)}</bdi>"
    with suppress(ValueError):
        run = Occurrence.parse(change.cause).id
        cause = f'<a href="{escape(address_of_run(run))}">{cause}</a>'
    by = f"{change.by}, {cause}" if change.cause else change.by
    return (
        f'<li class="thing"><p>{time_html(change.at, describe(change.at, now))} {_did(change)} '
        f'<bdi class="what">{_short(change.what)}</bdi> <span class="about">by {by}'
        f"{''.join(f' · <bdi>{_short(note)}</bdi>' for note in notes)}</span>"
        f"</p>{_difference(line, now)}{_undo(line)}</li>"
    )


def _did(change: ChangeRow) -> str:
    return "answered" if change.kind == ANSWER else change.did


def _difference(line: ChangeLine, now: datetime) -> str:
    change = line.change
    if change.kind in (ANSWER, SETTING):
        before, after = str(change.before), str(change.after)
        if change.kind == ANSWER:
            before, after = state_words(change.before, now), state_words(change.after, now)
        return (
            f"<p>was <del><bdi>{_short(before)}</bdi></del>, "
            f"is <ins><bdi>{_short(after)}</bdi></ins></p>"
        )
    if not line.difference:
        command = f"<code>ollim-bot changes {escape(change.key)}</code>"
        return "" if change.is_cut else f'<p class="about">{command} shows it whole.</p>'
    first, rest = line.difference[:_FIRST_LINES], line.difference[_FIRST_LINES:]
    shown = f'<ul class="difference">{"".join(map(_changed, first))}</ul>'
    if not rest:
        return shown
    more = f'<ul class="difference">{"".join(map(_changed, rest))}</ul>'
    return shown + fold(escape(change.key), counted(len(rest), "more line"), more)


def _changed(line: str) -> str:
    tag, word = ("ins", "added") if line.startswith("+") else ("del", "removed")
    return f"<li><span>{word}</span> <{tag}><bdi>{_short(line[1:])}</bdi></{tag}></li>"


def _undo(line: ChangeLine) -> str:
    if line.is_undone:
        return ""
    if line.refusal:
        edit = f' <a href="{escape(line.edit)}">Edit</a>' if line.edit else ""
        return f'<p class="about">Undo is not possible: <bdi>{escape(line.refusal)}</bdi>{edit}</p>'
    change = line.change
    name = escape(f"Undo: {_did(change)} {shortened(change.what, _LONGEST_LINE)}, {change.key}")
    return (
        '<div class="buttons"><button type="button" data-action="undo" '
        f'data-field-id="{escape(change.key)}" aria-label="{name}">Undo</button></div>'
    )


def _short(text: str) -> str:
    return escape(shortened(text, _LONGEST_LINE))


PAGES = (ViewPage("changes", "Changes", changes_html, "v", "changes.css", is_paged=True),)
