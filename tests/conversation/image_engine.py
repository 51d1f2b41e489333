"""A scripted engine that records the images of its prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from devtools.doubles.engine import ScriptedEngine, ScriptedSession

from ollim_bot.domain.events import AgentEvent
from ollim_bot.ports import Image, Prompt, SessionSpec, Toolset


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
