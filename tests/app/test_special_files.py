"""With a pipe or device instead of a file, the bot starts, answers, and names it to the owner."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import NOW, running, settings, until, until_told

from ollim_bot.app.app import Adapters, App
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage

NAMES = (
    ".gitignore",
    "IDENTITY.md",
    "USER.md",
    "routines/odd.md",
    "state/bot.pid",
    "state/config.json",
    "state/fork.json",
    "state/pending_updates.json",
    "state/sessions.json",
)
RIGHT = "---\nid: right\ncron: 0 9 * * *\n---\nPlan the day.\n"


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1_500_000_000)


@pytest.mark.parametrize("make", [os.mkfifo, make_huge])
async def test_everything_goes_on_and_each_is_named(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    some = settings(tmp_path)
    prepare_data_directory(some.paths)
    (some.paths.routines / "right.md").write_text(RIGHT)
    # The PID file is read without a size limit, so an endless file cannot replace it.
    names = [name for name in NAMES if make is os.mkfifo or name != "state/bot.pid"]
    for name in names:
        (some.paths.root / name).unlink(missing_ok=True)
        make(some.paths.root / name)
    surface, clock = RecordingSurface(), ManualClock(NOW)
    engine = ScriptedEngine().answers("Hello, Ada.")
    app = App(
        some, Adapters(clock=clock, engine=engine, surfaces=[surface], journal=RecordingJournal())
    )
    async with running(app):
        await until(lambda: surface.receptions)
        await surface.receptions[0].receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await until(lambda: surface.posted_by(Author.ASSISTANT))
        for name in names:
            await until_told(name, surface, clock)
    assert surface.posted_by(Author.ASSISTANT) == ["Hello, Ada."]
