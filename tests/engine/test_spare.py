"""A session that was expected is there at once; one that was not is opened as always."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.engine.processes import engines_at, eventually
from tests.engine.scene import Scene, ask, end_of, engine_at, texts

from ollim_bot.agent import Refusal, SessionSpec, Tool, ToolAnswer, ToolCall, Toolset
from ollim_bot.domain.events import EndCause, ToolRefused
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.claude import ClaudeEngine
from ollim_bot.offline.messages import CallTool, Reply

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PING = "mcp__chat__ping"
WHERE: ContextVar[str] = ContextVar("where", default="nowhere")


@pytest.fixture
async def engine(stage: Scene) -> AsyncIterator[ClaudeEngine]:
    made = engine_at(stage.home, stage.url)
    async with asyncio.timeout(60):
        yield made
        await made.close()
    assert engines_at(stage.home) == []


def tools(answer: str, heard: list[str] | None = None) -> Toolset:
    async def ping(_: Mapping[str, object]) -> ToolAnswer:
        (heard if heard is not None else []).append(WHERE.get())
        return ToolAnswer(answer)

    return Toolset({"chat": (Tool("ping", "Sends a message", {}, ping),)}, builtin=("Read",))


async def warmed(stage: Scene, engine: ClaudeEngine, spec: SessionSpec, some: Toolset) -> int:
    """The id of the process that waits."""
    engine.warm(spec, some)
    await eventually(lambda: engine.is_warm, within=20)
    (pid,) = engines_at(stage.home)
    return pid


async def test_an_expected_session_has_the_process_that_waited(
    stage: Scene, engine: ClaudeEngine
) -> None:
    pid = await warmed(stage, engine, stage.spec, tools("a"))
    async with engine.open(stage.spec, tools("b")) as session:
        assert session.id is None
        assert texts(await ask(session, "hello")) == ["ok"]
        assert engines_at(stage.home) == [pid]
        async with engine.open(stage.spec, tools("c")) as second:
            await ask(second, "hello")
            assert len(engines_at(stage.home)) == 2
    assert second.id != session.id


async def test_it_has_the_tools_of_whoever_opens_it(stage: Scene, engine: ClaudeEngine) -> None:
    """And they run in the context of whoever does."""
    verdicts = [None, Refusal("not now")]
    reasons = ["Report first."]
    heard: list[str] = []

    async def gate(_: ToolCall) -> Refusal | None:
        heard.append(f"gate {WHERE.get()}")
        return verdicts.pop(0)

    async def may_end() -> str | None:
        return reasons.pop() if reasons else None

    WHERE.set("long before")
    await warmed(stage, engine, stage.spec, tools("of the spare", heard))
    WHERE.set("here")
    stage.model.then(*[Reply((CallTool(PING),))] * 2).answers("Done.", "Reported.")
    mine = replace(tools("of mine", heard), gate=gate, may_end=may_end)
    async with engine.open(stage.spec, mine) as session:
        events = await ask(session, "ping")

    assert heard == ["gate here", "here", "gate here"]
    assert [one.text for one in stage.model.requests[1].tool_results] == ["of mine"]
    assert [event.reason for event in events if isinstance(event, ToolRefused)] == ["not now"]
    assert texts(events) == ["Done.", "Reported."]


async def test_it_begins_under_the_name_that_was_chosen(stage: Scene, engine: ClaudeEngine) -> None:
    spec = replace(stage.spec, begin=SessionId(str(uuid4())))
    pid = await warmed(stage, engine, spec, tools("a"))
    async with engine.open(spec, tools("a")) as session:
        await ask(session, "hello")
        assert engines_at(stage.home) == [pid]
    assert session.id == spec.begin


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"system_prompt": "You are another."}, id="prompt"),
        pytest.param({"model": "haiku"}, id="model"),
        pytest.param({"begin": SessionId("11111111-2222-4333-8444-555555555555")}, id="name"),
    ],
)
async def test_what_was_not_expected_has_a_process_of_its_own(
    stage: Scene, engine: ClaudeEngine, changes: Mapping[str, object]
) -> None:
    pid = await warmed(stage, engine, stage.spec, tools("a"))
    other = replace(stage.spec, **changes)  # type: ignore[arg-type]
    async with engine.open(other, tools("a")) as session:
        assert (await end_of(session, "hello")).cause is EndCause.COMPLETED
        assert len(engines_at(stage.home)) == 2
    assert engines_at(stage.home) == [pid]


async def test_other_tools_have_a_process_of_their_own(stage: Scene, engine: ClaudeEngine) -> None:
    await warmed(stage, engine, stage.spec, tools("a"))
    async with engine.open(stage.spec, Toolset(builtin=("Read",))) as session:
        await ask(session, "hello")
    assert stage.model.requests[-1].tools == ("Read",)


async def test_only_the_last_hint_counts(stage: Scene, engine: ClaudeEngine) -> None:
    first = await warmed(stage, engine, stage.spec, tools("a"))
    engine.warm(stage.spec, tools("b"))
    assert engines_at(stage.home) == [first]
    engine.warm(replace(stage.spec, model="haiku"), tools("a"))
    await eventually(lambda: engine.is_warm, within=20)
    await eventually(lambda: first not in engines_at(stage.home), within=10)
    assert len(engines_at(stage.home)) == 1


async def test_a_session_to_resume_is_not_prepared(stage: Scene, engine: ClaudeEngine) -> None:
    async with engine.open(stage.spec, tools("a")) as session:
        await ask(session, "hello")
    pid = await warmed(stage, engine, stage.spec, tools("a"))
    engine.warm(replace(stage.spec, resume=session.id), tools("a"))
    assert engine.is_warm
    assert engines_at(stage.home) == [pid]


async def test_a_spare_that_died_is_replaced(stage: Scene, engine: ClaudeEngine) -> None:
    os.kill(await warmed(stage, engine, stage.spec, tools("a")), signal.SIGKILL)
    await eventually(lambda: not engine.is_warm, within=10)
    async with engine.open(stage.spec, tools("a")) as session:
        assert (await end_of(session, "hello")).cause is EndCause.COMPLETED


async def test_a_hint_replaces_a_spare_that_died(stage: Scene, engine: ClaudeEngine) -> None:
    os.kill(await warmed(stage, engine, stage.spec, tools("a")), signal.SIGKILL)
    await eventually(lambda: not engine.is_warm, within=10)
    await warmed(stage, engine, stage.spec, tools("a"))


async def test_a_spare_that_cannot_be_started_is_nobodys_trouble(
    stage: Scene, engine: ClaudeEngine
) -> None:
    nowhere = replace(stage.spec, working_directory=stage.home / "later")
    engine.warm(nowhere, tools("a"))
    (stage.home / "later").mkdir()
    async with engine.open(nowhere, tools("a")) as session:
        assert (await end_of(session, "hello")).cause is EndCause.COMPLETED


async def test_whoever_stops_waiting_for_it_leaves_no_process(
    stage: Scene, engine: ClaudeEngine
) -> None:
    async def opened() -> None:
        async with engine.open(stage.spec, tools("a")):
            pass

    engine.warm(stage.spec, tools("a"))
    opening = asyncio.create_task(opened())
    await eventually(lambda: engines_at(stage.home), within=10)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening


async def test_a_spare_that_is_still_starting_ends_with_the_engine(
    stage: Scene, engine: ClaudeEngine
) -> None:
    engine.warm(stage.spec, tools("a"))
    await eventually(lambda: engines_at(stage.home), within=10)
    async with asyncio.timeout(6):
        await engine.close()
    assert engines_at(stage.home) == []


async def test_a_spare_that_hangs_keeps_nobody(stage: Scene, engine: ClaudeEngine) -> None:
    engine.warm(stage.spec, tools("a"))
    await eventually(lambda: engines_at(stage.home), within=10)
    (pid,) = engines_at(stage.home)
    os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(6):
            await engine.close()
        await eventually(lambda: not engines_at(stage.home), within=20)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
