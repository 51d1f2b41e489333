"""The real engine and its doubles, each with a script for what happens in its next turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from tests.e2e.model_engine import ModelEngine
from tests.engine.scene import engine_at, scene

from ollim_bot.clock import SystemClock
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.sessions import SessionId
from ollim_bot.offline.messages import CallTool, Fail, Hang, Reply, Say
from ollim_bot.offline.scripted import ScriptedModel
from ollim_bot.ports import AgentEngine, SessionSpec, Tool, ToolAnswer
from ollim_bot.testing.engine import CallsTool, Fails, Says, ScriptedEngine, Waits

PING = "mcp__chat__ping"


class Script(Protocol):
    """What the next turn does, whoever does it."""

    def says(self, text: str) -> None: ...

    def calls_ping_and_says(self, text: str) -> None: ...

    def waits(self) -> None: ...

    async def is_waiting(self) -> None: ...

    def is_refused_at_the_door(self) -> None: ...


@dataclass
class ModelScript:
    model: ScriptedModel

    def says(self, text: str) -> None:
        self.model.answers(text)

    def calls_ping_and_says(self, text: str) -> None:
        self.model.then(Reply((CallTool(PING, {}),)), Reply((Say(text),)))

    def waits(self) -> None:
        self.model.then(Hang())

    async def is_waiting(self) -> None:
        await self.model.seen(1)

    def is_refused_at_the_door(self) -> None:
        self.model.then(Fail(403, "permission_error", "no"))


@dataclass
class DoubleScript:
    engine: ScriptedEngine

    def says(self, text: str) -> None:
        self.engine.answers(text)

    def calls_ping_and_says(self, text: str) -> None:
        self.engine.then(CallsTool(PING), Says(text))

    def waits(self) -> None:
        self.engine.then(Waits())

    async def is_waiting(self) -> None:
        while not self.engine.prompts:  # noqa: ASYNC110 - the double rings no bell
            await asyncio.sleep(0)

    def is_refused_at_the_door(self) -> None:
        self.engine.then(Fails(FailureKind.LOGIN))


@dataclass
class Case:
    engine: AgentEngine
    script: Script
    spec: SessionSpec


@asynccontextmanager
async def real(home: Path) -> AsyncIterator[Case]:
    async with scene(home) as stage:
        yield Case(engine_at(home, stage.url), ModelScript(stage.model), stage.spec)


@asynccontextmanager
async def double(home: Path) -> AsyncIterator[Case]:
    engine = ScriptedEngine()
    yield Case(engine, DoubleScript(engine), SessionSpec("You help.", home))


@asynccontextmanager
async def modelled(home: Path) -> AsyncIterator[Case]:
    model = ScriptedModel()
    engine = ModelEngine(model, SystemClock(UTC))
    yield Case(engine, ModelScript(model), SessionSpec("You help.", home))


def new_name() -> SessionId:
    return SessionId(str(uuid4()))


def chat(*answers: ToolAnswer) -> Mapping[str, tuple[Tool, ...]]:
    given = list(answers)

    async def ping(_: Mapping[str, object]) -> ToolAnswer:
        return given.pop(0)

    schema = {"type": "object", "properties": {}}
    return {"chat": (Tool("ping", "Sends a message", schema, ping),)}
