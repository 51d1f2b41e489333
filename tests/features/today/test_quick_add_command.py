"""A line on the page sets what the command line sets, in the same file, as a change of the page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from devtools.doubles.clock import ManualClock
from devtools.doubles.journal import RecordingJournal
from tests.file_changes import file_changes
from tests.patience import patience
from tests.stores import memory_stores
from tests.terminal import BERLIN, Terminal

from ollim_bot.features.today.quick_add_box import QuickAdds
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.values.changes import Changer

# Each line with the command that means the same.
LINES = {
    "call mum tomorrow 9am": ("reminder", "-m", "call mum", "--at", "tomorrow 9am"),
    "tea in 20 minutes": ("reminder", "-m", "tea", "--in", "20m"),
    "25 minutes": ("reminder", "-m", "the timer is over", "--in", "25m", "--timer"),
    "check the news friday 3pm": ("reminder", "-m", "check the news", "--at", "friday 3pm"),
    "take my pills today 9pm, and nag me every 5 minutes": (
        *("reminder", "-m", "take my pills, and nag me every 5 minutes", "--at", "today 9pm"),
    ),
    "water the plants every monday at 9": (
        *("routine", "-m", "remind me to water the plants", "--every", "monday at 9"),
    ),
    "every 2 weeks on friday at 9am bins": (
        *("routine", "-m", "remind me of bins", "--every", "2 weeks on friday at 9am"),
    ),
}


def _files(root: Path) -> set[str]:
    found = (each.read_text() for each in root.glob("re*/*.md"))
    return {re.sub(r"^id: .*$", "", text, flags=re.MULTILINE) for text in found}


async def test_a_line_sets_what_the_command_line_sets(terminal: Terminal, tmp_path: Path) -> None:
    typed, page = terminal, Terminal(tmp_path / "page")
    page.make_directory()
    for noun, *words in LINES.values():
        typed.done(noun, "add", *words)
    typed.done("tasks", "add", "milk", "--due", "tomorrow")
    clock = ManualClock(page.now, zone=BERLIN)
    journal = ChangeJournal(RecordingJournal(), page.paths.root, clock)
    changes = file_changes(page.paths, journal)
    repositories = open_repositories(page.paths, journal, changes=changes)
    tasks = TaskFile(page.paths, journal, clock.now)
    adds = QuickAdds(memory_stores(clock.now).state, repositories, lambda: tasks, clock)
    rows = changes._rows
    keeping = asyncio.create_task(journal.run(changes, partial(asyncio.sleep, 0)))
    await _until(lambda: rows.query(lambda tx: tx.changes.known("")))
    for line in (*LINES, "+ milk tomorrow"):
        answer = await adds.add(line, "", line)
        assert not answer.is_error, answer
    await _until(lambda: rows.query(lambda tx: tx.changes.last_of("tasks.md")))
    keeping.cancel()
    assert _files(page.paths.root) == _files(typed.paths.root)
    assert page.paths.tasks.read_text() == typed.paths.tasks.read_text()
    kept = rows.query(lambda tx: tx.changes.newest(100))
    assert [each.by for each in kept] == [Changer.PAGE] * (len(LINES) + 1)


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patience()):
        for _ in count():
            if condition():
                return
            await asyncio.sleep(0.001)
