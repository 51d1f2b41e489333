"""What every engine promises, held by the real one and by its double."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest
from tests.engine.scene import ask, end_of, engine_at, scene, texts

from ollim_bot.agent import AgentEngine, Refusal, SessionSpec, Tool, ToolAnswer, ToolCall, Toolset
from ollim_bot.domain.events import (
    EndCause,
    FailureKind,
    SessionNamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import SessionLost
from ollim_bot.offline.messages import CallTool, Fail, Hang, Reply, Say
from ollim_bot.offline.scripted import ScriptedModel
from ollim_bot.testing.engine import Calls, Fails, Says, ScriptedEngine, Waits

PING = "mcp__chat__ping"


class Script(Protocol):
    """What the next turn does, whoever does it."""

    def says(self, text: str) -> None: ...

    def calls_ping_and_says(self, text: str) -> None: ...

    def waits(self) -> None: ...

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

    def is_refused_at_the_door(self) -> None:
        self.model.then(Fail(403, "permission_error", "no"))


@dataclass
class DoubleScript:
    engine: ScriptedEngine

    def says(self, text: str) -> None:
        self.engine.answers(text)

    def calls_ping_and_says(self, text: str) -> None:
        self.engine.then(Calls(PING), Says(text))

    def waits(self) -> None:
        self.engine.then(Waits())

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


@pytest.fixture(params=[real, double], ids=["real", "double"])
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    async with asyncio.timeout(30), request.param(tmp_path) as made:
        yield made


def chat(*answers: ToolAnswer) -> Mapping[str, tuple[Tool, ...]]:
    given = list(answers)

    async def ping(_: Mapping[str, object]) -> ToolAnswer:
        return given.pop(0)

    schema = {"type": "object", "properties": {}}
    return {"chat": (Tool("ping", "Sends a message", schema, ping),)}


async def test_a_turn_names_its_session_first_and_ends_once(case: Case) -> None:
    case.script.says("Hello.")
    async with case.engine.open(case.spec, Toolset()) as session:
        assert session.id is None
        events = await ask(session, "hi")

    assert events[0] == SessionNamed(SessionId(str(session.id)))
    assert texts(events) == ["Hello."]
    assert [type(event) for event in events].count(TurnEnded) == 1
    assert isinstance(events[-1], TurnEnded)
    assert (events[-1].cause, events[-1].text) == (EndCause.COMPLETED, "Hello.")


async def test_a_session_can_be_resumed_and_an_unknown_one_is_lost(case: Case) -> None:
    async with case.engine.open(case.spec, Toolset()) as session:
        await ask(session, "hi")
    first = session.id
    async with case.engine.open(replace(case.spec, resume=first), Toolset()) as session:
        await ask(session, "hi again")
        assert session.id == first

    unknown = SessionId("11111111-2222-3333-4444-555555555555")
    with pytest.raises(SessionLost):
        async with case.engine.open(replace(case.spec, resume=unknown), Toolset()):
            pass


async def test_calls_go_through_the_gate(case: Case) -> None:
    verdicts = [None, Refusal("not now"), None]

    async def gate(call: ToolCall) -> Refusal | None:
        assert call.tool == PING
        return verdicts.pop(0)

    ends = []
    tools = chat(ToolAnswer("sent"), ToolAnswer("the line is dead", is_error=True))
    async with case.engine.open(case.spec, Toolset(tools, gate=gate)) as session:
        for _ in range(3):
            case.script.calls_ping_and_says("done")
            events = await ask(session, "ping")
            started = next(event for event in events if isinstance(event, ToolStarted))
            ends += [event for event in events if getattr(event, "call_id", "") == started.call_id]

    kinds = [type(event) for event in ends if not isinstance(event, ToolStarted)]
    assert kinds == [ToolEnded, ToolRefused, ToolFailed]


async def test_a_turn_that_may_not_end_goes_on(case: Case) -> None:
    reasons = ["Report first."]

    async def may_end() -> str | None:
        return reasons.pop() if reasons else None

    case.script.says("Done.")
    case.script.says("Reported.")
    async with case.engine.open(case.spec, Toolset(may_end=may_end)) as session:
        events = await ask(session, "do it")

    assert texts(events) == ["Done.", "Reported."]


async def test_an_interrupt_ends_the_turn_and_the_next_one_works(case: Case) -> None:
    case.script.waits()
    async with case.engine.open(case.spec, Toolset()) as session:
        await session.interrupt()
        turn = asyncio.create_task(end_of(session, "wait"))
        await asyncio.sleep(0.3)
        await session.interrupt()
        assert (await turn).cause is EndCause.INTERRUPTED
        case.script.says("I am back.")
        assert (await end_of(session, "again")).text == "I am back."


async def test_a_failure_has_its_kind_and_the_next_turn_works(case: Case) -> None:
    case.script.is_refused_at_the_door()
    case.script.says("I am back.")
    async with case.engine.open(case.spec, Toolset()) as session:
        failed = await end_of(session, "hi")
        assert failed.failure is not None
        assert failed.failure.kind is FailureKind.LOGIN
        assert (await end_of(session, "again")).text == "I am back."
