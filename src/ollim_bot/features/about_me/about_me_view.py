"""What the bot knows about the owner on the page: each line with Edit and Forget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date
from html import escape
from itertools import groupby
from pathlib import PurePosixPath

from ollim_bot.features.about_me.known_lines import change_lines, known_lines, memory_files
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.values.about_me import AboutMe, KnownLine
from ollim_bot.kernel.values.ports import Journal
from ollim_bot.kernel.values.views import ActingView, ViewAnswer
from ollim_bot.surfaces.web.marked import ViewPage, about, joined_parts, section, show_more, things

_NO_LINE = "There is no such line any more; nothing was written."
_ONE_LINE = "Write one line. To have it gone, press Forget."


@dataclass(eq=False)
class AboutMePage(ActingView[AboutMe]):
    """An `ActingView`. The actions are `edit` (with `words`) and `forget`.

    Both name the line by `file` and `line`, with its `text` as it was shown.
    """

    _store: Store
    _clock: Clock
    _paths: DataPaths
    _changes: FileChanges
    _journal: Journal

    async def look(self, _: Mapping[str, str]) -> AboutMe:
        now, problems = self._clock.now(), list[str]()
        lines = await asyncio.to_thread(known_lines, self._paths, now.tzinfo or UTC, problems)
        return AboutMe(now.date(), tuple(lines), tuple(problems))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, "changes")

    async def act(self, _: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        file, number, text = (fields.get(each, "") for each in ("file", "line", "text"))
        if action not in ("edit", "forget") or not (number.isdecimal() and len(number) < 8):
            return ViewAnswer(_NO_LINE, is_error=True)
        words = fields.get("words", "").strip() if action == "edit" else None
        if words is not None and len(words.splitlines()) != 1:
            return ViewAnswer(_ONE_LINE, is_error=True, field="words")
        line = KnownLine(file, int(number), text)
        try:
            is_made = await asyncio.to_thread(self._make, line, words)
        except (OllimError, OSError, UnicodeDecodeError) as refused:
            return ViewAnswer(f"{file} was not changed: {refused}", is_error=True)
        if not is_made:
            typed = f" You had typed: {words}" if words else ""
            sentence = f"Line {number} of {file} has changed since it was shown; nothing was"
            return ViewAnswer(f"{sentence} written.{typed}", is_error=True)
        did = "Forgotten" if words is None else "Saved"
        return ViewAnswer(f"{did}. Changes has a way back.")

    def _make(self, line: KnownLine, words: str | None) -> bool:
        """Change the line, and return whether it was still as it was shown."""
        if PurePosixPath(line.file) not in memory_files(self._paths) or line.number == 0:
            return False
        if not change_lines(self._paths, line.file, [line], words, self._changes):
            return False
        did = "forget" if words is None else "edit"
        self._journal.note(self._paths.root / line.file, f"{did}: {line.file}")
        return True


_EMPTY = (
    "It has written down nothing about you yet. What it remembers will stand here, line by line: "
    "tell it something in Chat that it should remember."
)
_EVERYWHERE = (
    "Forget takes a line out of the notes; the log, past runs and the history still have it. To "
    "have words gone everywhere, stop the bot and type "
    '<code>ollim-bot forget --everywhere "likes tea"</code> with your own: it lists the places '
    "first and asks, and it cannot be undone."
)


@joined_parts
def about_me_html(known: AboutMe, most: int) -> Iterator[str]:
    """The notes by file, each line with its source, Edit and Forget; `most` lines at most."""
    yield "<h2>About me</h2>"
    for problem in known.problems:
        yield f'<p class="problem"><bdi>{escape(problem)}</bdi></p>'
    if not known.lines:
        yield f'<p class="empty">{_EMPTY}</p>'
        return
    for number, (file, lines) in enumerate(groupby(known.lines[:most], lambda line: line.file)):
        shown = things(_line(each, known.today) for each in lines)
        yield section(f"about-{number}", f"<bdi>{escape(file)}</bdi>", shown)
    yield show_more(len(known.lines) - most)
    yield f'<p class="remark">{_EVERYWHERE}</p>'


def _line(line: KnownLine, today: date) -> str:
    name, text = escape(line.reference), escape(line.text)
    fields = (
        f'data-field-file="{escape(line.file)}" data-field-line="{line.number}" '
        f'data-field-text="{text}"'
    )
    return (
        f'<li class="thing"><p><bdi class="what">{text}</bdi>{about(line.origin(today))}</p>'
        '<div class="buttons">'
        f'<details class="more" data-fold="{name}"><summary aria-label="Edit: {name}">Edit'
        f'</summary><form data-action="edit" {fields}><label>Line {line.number} of '
        f'<bdi>{escape(line.file)}</bdi><input name="words" value="{text}" autocomplete="off" '
        f'required></label><button aria-label="Save: {name}">Save</button></form></details>'
        f'<button type="button" data-action="forget" {fields} aria-label="Forget: {name}">Forget'
        "</button></div></li>"
    )


PAGES = (ViewPage("about-me", "About me", about_me_html, "b"),)
