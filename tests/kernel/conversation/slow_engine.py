"""Engines that take several passes of the event loop, or record images; a test acts in between.

A moment is one pass of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count

from devtools.doubles.engine import Says, ScriptedEngine, ScriptedSession, Step, Waits
from tests.kernel.conversation.scene import HOME, Scene

from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, TextStreamed
from ollim_bot.kernel.values.ports import Image, Prompt, SessionSpec, Toolset


class SlowEngine(ScriptedEngine):
    """Takes a few moments to open a session, like a process that has to start.

    It never finishes its answer to a prompt that ends in `one`.
    """

    def next_script(self) -> Sequence[Step]:
        return (Says("Half"), Waits()) if self.prompts[-1].endswith("one") else (Says("ok"),)

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        await pass_moments(3)
        async with super().open(spec, tools) as session:
            await pass_moments(3)
            yield session


async def slow_spec() -> SessionSpec:
    await pass_moments(3)
    return SessionSpec("You help.", HOME)


async def pass_moments(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class ImageRecordingEngine(ScriptedEngine):
    """`seen` has the images of each prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Image, ...]] = []

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        async with super().open(spec, tools) as session:
            seeing = ImageRecordingSession(self, session.spec, session.tools)
            self.opened[-1] = seeing
            yield seeing


class ImageRecordingSession(ScriptedSession):
    def __init__(self, engine: ImageRecordingEngine, spec: SessionSpec, tools: Toolset) -> None:
        super().__init__(engine, spec, tools)
        self._seen = engine.seen

    def turn(self, prompt: Prompt) -> AsyncIterator[AgentEvent]:
        self._seen.append(prompt.images)
        return super().turn(prompt)


class EveryMoment:
    """The numbers of moments from 0 on, until `is_over` is set: there the last one is tried."""

    def __init__(self, at_least: int = 10) -> None:
        self.is_over = False
        self._at_least = at_least

    def __iter__(self) -> Iterator[int]:
        for moment in count():
            yield moment
            if self.is_over:
                assert moment > self._at_least
                return


def has_begun(at: Scene) -> bool:
    turns = [start.turn for start in at.surface.starts if "one" in start.inputs]
    shown = at.surface.events[turns[0]] if turns else []
    return any(isinstance(event, TextStreamed) for event in shown)


async def accepted(at: Scene, text: str) -> asyncio.Task[ChatMessage]:
    """Send it and return as soon as it is in the inbox, while the rest of `send` goes on."""
    sending = asyncio.create_task(at.send(text))
    await at.until(lambda: at.talk.state.inbox.is_busy)
    return sending


async def half_way(at: Scene) -> None:
    """Wait until the turn has begun its answer, which it does not finish."""
    await at.until(lambda: has_begun(at))
