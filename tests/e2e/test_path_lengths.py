"""The ways through the bot stay short: distinct functions and files of ours on each.

A reader who follows a message to its answer meets every function on the way. Doubles, and functions
that run while the bot idles, are not counted. The limits may only fall.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.discord.discord_scene import account, custom_id, words
from tests.e2e.in_process_bot import InProcessBot, app_with
from tests.patience import patience
from tests.surfaces.discord.connection_scene import restored_addresses
from tests.virtual_loop import LoopClock

import ollim_bot
from ollim_bot.app.app import Adapters
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.offline.server import CallTool, MessagesServer, Reply, Say

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


# Of the same ways through Discord and the engine's own program, which tells its events in other
# pieces each time.
LIMITS_ON_DISCORD = {
    "message": (465, 75),
    "plain reminder": (435, 90),
    "reminder that the agent sets": (725, 125),
    "reminder through the agent": (680, 126),
    "done": (210, 58),
    "fork": (545, 88),
}

Ways = Mapping[str, Callable[[], Awaitable[None]]]
Lengths = dict[str, tuple[int, int]]


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
        await self._sees(write_reminder(self._bot, self._clock.now(), "plain: true"))

    async def done(self) -> None:
        await self._press("Done")
        await self._sees("✓")

    async def agent_reminder(self) -> None:
        self._model.then(Reply((_PING,)), Reply((Say("It is said."),)))
        write_reminder(self._bot, self._clock.now(), "background: true")
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

    async def _sees(self, text: str) -> None:
        await self._bot.until(lambda: any(text in each for each in self._new_frames()))

    def _new_frames(self) -> list[str]:
        return [json.dumps(each, ensure_ascii=False) for each in self._frames[self._from :]]

    async def _read(self, socket: Any) -> None:
        async for frame in socket:
            self._frames.append(json.loads(frame.data))


def write_reminder(bot: Bot, now: datetime, head: str) -> str:
    """Due in twenty seconds; returns its words."""
    at = (now + timedelta(seconds=20)).replace(microsecond=0)
    folder = bot.data / "reminders"
    folder.mkdir(exist_ok=True)
    name = f"r{at:%H%M%S}"
    text = f'---\nid: {name}\nrun-at: "{at.isoformat()}"\n{head}\n---\nWater {name}.\n'
    (folder / f"{name}.md").write_text(text)
    return f"Water {name}"


class DirectMessages:
    """The owner on Discord."""

    def __init__(self, bot: Bot, model: ScriptedModel, local: LocalDiscord) -> None:
        self._bot = bot
        self._model = model
        self._local = local
        self._seen: set[str] = set()

    async def message(self) -> None:
        self._model.answers("It is noted.")
        self._local.say("My cat is called Miso.")
        await self._sees("It is noted.")

    async def plain_reminder(self) -> None:
        await self._sees(write_reminder(self._bot, datetime.now(UTC), "plain: true"))

    async def done(self) -> None:
        card = next(each for each in reversed(self._local.said) if each.buttons)
        self._local.click(card.id, custom_id(card, "Done"))
        await self._local.until(lambda: words(card).startswith("✓"), patience())

    async def agent_sets_reminder(self) -> None:
        given = {"prompt": "Drink tea.", "delay_minutes": 600}
        call = CallTool("mcp__discord__add_reminder", given)
        self._model.then(Reply((call,)), Reply((Say("It is set."),)))
        self._local.say("Remind me to drink tea in ten hours.")
        await self._sees("It is set.")

    async def agent_reminder(self) -> None:
        self._model.then(Reply((_PING,)), Reply((Say("It is said."),)))
        write_reminder(self._bot, datetime.now(UTC), "background: true")
        await self._sees("Drink now.")

    async def fork(self) -> None:
        self._model.when("Rome", Reply((Say("Rome is fine."),)))
        self._local.call("fork", {"topic": "Rome"})
        await self._sees("Rome is fine.")

    async def leave(self) -> None:
        card = next(each for each in self._local.said if "Leave it" in _enabled(each))
        self._local.click(card.id, custom_id(card, "Leave it"))
        await self._sees("nothing kept")

    def forget(self) -> None:
        self._seen = {each.id for each in self._local.said}

    async def _sees(self, text: str) -> None:
        def is_there() -> bool:
            new = [each for each in self._local.said if each.id not in self._seen]
            return any(text in words(each) for each in new)

        await self._local.until(is_there, patience())


def _enabled(message: Message) -> list[str]:
    return [str(each["label"]) for each in message.buttons if not each.get("disabled")]


async def measured(ways: Ways, forget: Callable[[], None], profiler: PathProfiler) -> Lengths:
    """Go each way once, so that what is made at first use is there, and then count on it."""
    for go in ways.values():
        forget()
        await go()
    await asyncio.sleep(_IDLE_SECONDS)
    with profiler.seeing() as idle:
        await asyncio.sleep(_IDLE_SECONDS)
    lengths: Lengths = {}
    for name, go in ways.items():
        forget()
        with profiler.seeing() as seen:
            await go()
            await asyncio.sleep(0.5)
        await asyncio.sleep(_TAIL_SECONDS)
        functions = seen - idle
        lengths[name] = len(functions), len({each.co_filename for each in functions})
    return lengths


def assert_short(lengths: Lengths, limits: Mapping[str, tuple[int, int]]) -> None:
    too_long = {
        name: lengths[name]
        for name, allowed in limits.items()
        if any(length > limit for length, limit in zip(lengths[name], allowed, strict=True))
    }
    assert not too_long, lengths


async def test_each_way_through_the_bot_is_short(tmp_path: Path) -> None:
    model, clock, profiler = ScriptedModel(), LoopClock(UTC), PathProfiler()
    with profiler.following_new_threads():
        async with running(bot := InProcessBot(tmp_path, model, {}, clock)):
            tab = Tab(bot, model, clock)
            ways: Ways = {
                "message": tab.message,
                "plain reminder": tab.plain_reminder,
                "done": tab.done,
                "reminder through the agent": tab.agent_reminder,
                "fork": tab.fork,
                "save": tab.save,
            }
            async with tab.opened():
                lengths = await measured(ways, tab.forget, profiler)
    assert_short(lengths, LIMITS)


@pytest.mark.minutes
@pytest.mark.real_engine
async def test_each_way_through_discord_and_the_engines_program_is_short(tmp_path: Path) -> None:
    model, profiler = ScriptedModel(), PathProfiler()
    with profiler.following_new_threads(), restored_addresses():
        async with LocalDiscord() as local, MessagesServer(model) as server:
            bot = Bot(tmp_path, server.url, account(local))
            settings = Settings.from_env(bot.environment(), cwd=tmp_path)
            app = app_with(settings, Adapters(end=lambda _: None), lambda _: None)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(app.run())
                await local.connected(patience())
                await local.until(lambda: local.said)
                owner = DirectMessages(bot, model, local)
                ways: Ways = {
                    "message": owner.message,
                    "plain reminder": owner.plain_reminder,
                    "done": owner.done,
                    "reminder that the agent sets": owner.agent_sets_reminder,
                    "reminder through the agent": owner.agent_reminder,
                    "fork": owner.fork,
                    "leaving the fork": owner.leave,
                }
                lengths = await measured(ways, owner.forget, profiler)
                app.stop()
    print(lengths)  # With `-s`, this is the report.
    assert_short(lengths, LIMITS_ON_DISCORD)
