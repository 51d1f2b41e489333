"""The real engine and its fakes, each with a script for its next turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from devtools.doubles.engine import CallsTool, Fails, Says, ScriptedEngine, Waits
from devtools.scripted_model import ScriptedModel
from tests.e2e.killable_bot import PersistentModelEngine, serve_model
from tests.e2e.model_engine import ModelEngine
from tests.kernel.engine.scene import engine_at
from tests.kernel.engine.scene import scene as open_scene
from tests.kernel.engine.shared import PING, PING_SCHEMA, SharedSession, changing_toolset

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.events import FailureKind
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    AgentSession,
    SessionSpec,
    Tool,
    ToolAnswer,
    Toolset,
)
from ollim_bot.offline.server import CallTool, Fail, Hang, Reply

_PING_CALL = {"message": "hi"}


class Script(Protocol):
    """Scripts the next turn, for a real engine or a fake one."""

    def says(self, text: str) -> None: ...

    def calls_ping(self) -> None: ...

    def calls_ping_and_says(self, text: str) -> None: ...

    def waits(self) -> None: ...

    async def is_waiting(self) -> None: ...

    def is_refused_by_provider(self) -> None: ...


@dataclass
class ModelScript:
    model: ScriptedModel

    def says(self, text: str) -> None:
        self.model.answers(text)

    def calls_ping(self) -> None:
        self.model.then(Reply((CallTool(PING, _PING_CALL),)))

    def calls_ping_and_says(self, text: str) -> None:
        self.calls_ping()
        self.says(text)

    def waits(self) -> None:
        self.model.then(Hang())

    async def is_waiting(self) -> None:
        await self.model.seen(1)

    def is_refused_by_provider(self) -> None:
        self.model.then(Fail(403, "permission_error", "no"))


@dataclass
class DoubleScript:
    engine: ScriptedEngine

    def says(self, text: str) -> None:
        self.engine.answers(text)

    def calls_ping(self) -> None:
        self.engine.then(CallsTool(PING, _PING_CALL))

    def calls_ping_and_says(self, text: str) -> None:
        self.engine.then(CallsTool(PING, _PING_CALL), Says(text))

    def waits(self) -> None:
        self.engine.then(Waits())

    async def is_waiting(self) -> None:
        while not self.engine.prompts:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)

    def is_refused_by_provider(self) -> None:
        self.engine.then(Fails(FailureKind.LOGIN))


@dataclass
class Case:
    engine: AgentEngine
    script: Script
    spec: SessionSpec


@dataclass
class OpenCase:
    """A session that is open; `use` sets the tools of its next turns."""

    engine: AgentEngine
    script: Script
    session: AgentSession
    use: Callable[[Toolset], None]

    @property
    def id(self) -> SessionId:
        assert self.session.id is not None
        return self.session.id


@asynccontextmanager
async def real(home: Path) -> AsyncIterator[Case]:
    async with open_scene(home) as scene:
        yield Case(engine_at(home, scene.url), ModelScript(scene.model), scene.spec)


@asynccontextmanager
async def double(home: Path) -> AsyncIterator[Case]:
    engine = ScriptedEngine()
    yield Case(engine, DoubleScript(engine), SessionSpec("You help.", home))


@asynccontextmanager
async def modelled(home: Path) -> AsyncIterator[Case]:
    model = ScriptedModel()
    engine = ModelEngine(model, SystemClock(UTC))
    yield Case(engine, ModelScript(model), SessionSpec("You help.", home))


@asynccontextmanager
async def killable(home: Path) -> AsyncIterator[Case]:
    model = ScriptedModel()
    async with serve_model(model) as port:
        engine = PersistentModelEngine(port, SystemClock(UTC), home / "engine")
        yield Case(engine, ModelScript(model), SessionSpec("You help.", home))


@asynccontextmanager
async def opened(case: Case) -> AsyncIterator[OpenCase]:
    tools = [Toolset()]
    async with case.engine.open(case.spec, changing_toolset(lambda: tools[-1])) as session:
        yield OpenCase(case.engine, case.script, session, tools.append)


def opened_in(shared: SharedSession) -> OpenCase:
    def use(tools: Toolset) -> None:
        shared.tools = tools

    return OpenCase(shared.engine, ModelScript(shared.model), shared.session, use)


def new_name() -> SessionId:
    return SessionId(str(uuid4()))


def chat(*answers: ToolAnswer) -> Mapping[str, tuple[Tool, ...]]:
    given = list(answers)

    async def ping(_: Mapping[str, object]) -> ToolAnswer:
        return given.pop(0)

    return {"chat": (Tool("ping", "Sends a message", PING_SCHEMA, ping),)}
