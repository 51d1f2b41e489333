"""The ways through the bot stay short: distinct functions and files of ours on each.

A reader who follows a message to its answer meets every function on the way. Doubles, and functions
that run while the bot idles, are not counted. The limits may only fall.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from devtools.scripted_model import ScriptedModel
from tests.e2e.conftest import running
from tests.e2e.in_process_bot import InProcessBot
from tests.virtual_loop import LoopClock

import ollim_bot
from ollim_bot.offline.server import CallTool, Reply, Say

_SOURCE = Path(ollim_bot.__file__).parent
_OURS, _MODEL = str(_SOURCE), str(_SOURCE / "offline")
_IDLE_SECONDS = 45
# What the watcher of the files still has to see of one way is not part of the next.
_TAIL_SECONDS = 10
_PING = CallTool("mcp__discord__ping_user", {"message": "Drink now."})

# Functions and files. The bar of a short way is 250 and 60, 280 and 65, 200 and 50, 450 and 90,
# 330 and 70 for the first five; a little is added, since the watcher of the files looks at its own
# pace.
LIMITS = {
    "message": (275, 60),
    "plain reminder": (350, 78),
    "done": (183, 52),
    "reminder through the agent": (566, 110),
    "fork": (344, 68),
    "save": (217, 53),
}


class PathProfiler:
    """Notes the functions that run, in this thread and in those started meanwhile."""

    def __init__(self) -> None:
        self._seen: set[CodeType] | None = None

    @contextmanager
    def following_new_threads(self) -> Iterator[None]:
        threading.setprofile(self._note)
        try:
            yield
        finally:
            threading.setprofile(None)

    @contextmanager
    def seeing(self) -> Iterator[set[CodeType]]:
        seen: set[CodeType] = set()
        self._seen = seen
        sys.setprofile(self._note)
        try:
            yield seen
        finally:
            sys.setprofile(None)
            self._seen = None

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if self._seen is not None and event == "call" and _is_ours(frame.f_code):
            self._seen.add(frame.f_code)


def _is_ours(code: CodeType) -> bool:
    file = code.co_filename
    is_named = not code.co_name.startswith("<")
    return is_named and file.startswith(_OURS) and not file.startswith(_MODEL)


class Tab:
    """A tab of the page, which sees what it is sent without asking the bot again."""

    def __init__(self, bot: InProcessBot, model: ScriptedModel, clock: LoopClock) -> None:
        self._bot = bot
        self._model = model
        self._clock = clock
        self._frames: list[dict[str, Any]] = []
        self._from = 0
        self._reminders = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with self._bot.socket() as socket:
            reading = asyncio.create_task(self._read(socket))
            try:
                yield
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading

    async def message(self) -> None:
        self._model.answers("It is noted.")
        await self._bot.say("My cat is called Miso.")
        await self._sees("It is noted.")

    async def plain_reminder(self) -> None:
        name = self._write_reminder("plain: true")
        await self._sees(f"Water {name}")

    async def done(self) -> None:
        await self._press("Done")
        await self._sees("✓")

    async def agent_reminder(self) -> None:
        self._model.then(Reply((_PING,)), Reply((Say("It is said."),)))
        self._write_reminder("background: true")
        await self._sees("Drink now.")

    async def fork(self) -> None:
        self._model.answers("Rome is fine.")
        await self._bot.command("/fork Rome")
        await self._sees("Rome is fine.")

    async def save(self) -> None:
        await self._press("Keep all of it")
        await self._sees("all of it kept")

    def forget(self) -> None:
        """Wait for new frames only, from now on."""
        self._from = len(self._frames)

    async def _press(self, label: str) -> None:
        """Press the button of this label on the newest card that has it."""
        message, button = next(
            (message, button)
            for message in (each.get("message") for each in reversed(self._frames))
            if message and message["card"]
            for button in message["card"]["buttons"]
            if button["label"] == label
        )
        await self._bot.click(message["id"], button["custom_id"])

    def _write_reminder(self, head: str) -> str:
        self._reminders += 1
        name = f"r{self._reminders}"
        at = (self._clock.now() + timedelta(seconds=20)).replace(microsecond=0)
        folder = self._bot.data / "reminders"
        folder.mkdir(exist_ok=True)
        text = f'---\nid: {name}\nrun-at: "{at.isoformat()}"\n{head}\n---\nWater {name}.\n'
        (folder / f"{name}.md").write_text(text)
        return name

    async def _sees(self, text: str) -> None:
        await self._bot.until(lambda: any(text in each for each in self._new_frames()))

    def _new_frames(self) -> list[str]:
        return [json.dumps(each, ensure_ascii=False) for each in self._frames[self._from :]]

    async def _read(self, socket: Any) -> None:
        async for frame in socket:
            self._frames.append(json.loads(frame.data))


async def test_each_way_through_the_bot_is_short(tmp_path: Path) -> None:
    model, clock, profiler = ScriptedModel(), LoopClock(UTC), PathProfiler()
    lengths: dict[str, tuple[int, int]] = {}
    with profiler.following_new_threads():
        async with running(bot := InProcessBot(tmp_path, model, {}, clock)):
            tab = Tab(bot, model, clock)
            ways: dict[str, Callable[[], Awaitable[None]]] = {
                "message": tab.message,
                "plain reminder": tab.plain_reminder,
                "done": tab.done,
                "reminder through the agent": tab.agent_reminder,
                "fork": tab.fork,
                "save": tab.save,
            }
            async with tab.opened():
                for go in ways.values():
                    tab.forget()
                    await go()
                await asyncio.sleep(_IDLE_SECONDS)
                with profiler.seeing() as idle:
                    await asyncio.sleep(_IDLE_SECONDS)
                for name, go in ways.items():
                    tab.forget()
                    with profiler.seeing() as seen:
                        await go()
                        await asyncio.sleep(0.5)
                    await asyncio.sleep(_TAIL_SECONDS)
                    functions = seen - idle
                    lengths[name] = len(functions), len({each.co_filename for each in functions})
    too_long = {
        name: found
        for name, found in lengths.items()
        if any(length > limit for length, limit in zip(found, LIMITS[name], strict=True))
    }
    assert not too_long, lengths
