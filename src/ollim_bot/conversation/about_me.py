"""What the bot knows about the owner, on the page: each line can be changed and forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC
from pathlib import PurePosixPath

from ollim_bot.domain.about_me import AboutMe, KnownLine
from ollim_bot.domain.views import Preview, ViewAnswer
from ollim_bot.errors import OllimError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock, Journal
from ollim_bot.store.changes import FileChanges
from ollim_bot.store.known_lines import change_lines, known_lines, memory_files
from ollim_bot.store.store import Store, changes_of

_NO_LINE = "There is no such line any more; nothing was written."
_ONE_LINE = "Write one line. To have it gone, press Forget."


class AboutMePage:
    """An `ActingView`. The actions are `edit` (with `words`) and `forget`.

    Both name the line by `file` and `line`, with its `text` as it was shown.
    """

    def __init__(
        self, store: Store, clock: Clock, paths: DataPaths, changes: FileChanges, journal: Journal
    ) -> None:
        self._store = store
        self._clock = clock
        self._paths = paths
        self._changes = changes
        self._journal = journal

    async def look(self, _: Mapping[str, str]) -> AboutMe:
        return await asyncio.to_thread(self._read)

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

    async def preview(self, _: str, _fields: Mapping[str, str]) -> Preview:
        return Preview()

    def _read(self) -> AboutMe:
        now, problems = self._clock.now(), list[str]()
        lines = known_lines(self._paths, now.tzinfo or UTC, problems)
        return AboutMe(now.date(), tuple(lines), tuple(problems))

    def _make(self, line: KnownLine, words: str | None) -> bool:
        """Change the line, and return whether it was still as it was shown."""
        if PurePosixPath(line.file) not in memory_files(self._paths) or line.number == 0:
            return False
        if not change_lines(self._paths, line.file, [line], words, self._changes):
            return False
        did = "forget" if words is None else "edit"
        self._journal.note(self._paths.root / line.file, f"{did}: {line.file}")
        return True
