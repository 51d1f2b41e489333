"""The engine's processes may be killed at any time, and never outlive the bot."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.engine.processes import engines_at, eventually
from tests.engine.scene import SOON, Scene, ask, provider, texts

from ollim_bot.domain.events import AgentEvent, EndCause, SessionNamed, TextStreamed, TurnEnded
from ollim_bot.domain.ids import SessionId
from ollim_bot.engine.connection import Connection
from ollim_bot.engine.engine import ClaudeEngine
from ollim_bot.engine.launcher import engine_variables
from ollim_bot.engine.session import ClaudeSession, options_for
from ollim_bot.errors import EngineError
from ollim_bot.offline.server import Hang, Reply, Say, Stall
from ollim_bot.ports import Prompt, Toolset

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


async def killed_at(
    scene: Scene, turn: AsyncIterator[AgentEvent], kind: type[AgentEvent]
) -> list[AgentEvent]:
    events: list[AgentEvent] = []
    async for event in turn:
        events.append(event)
        if isinstance(event, kind):
            (pid,) = engines_at(scene.home)
            os.kill(pid, signal.SIGKILL)
    return events


async def died(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """The engine is killed between two turns, and the session notices that."""
    caplog.clear()
    (pid,) = engines_at(scene.home)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: "The engine died." in caplog.text, within=60)


async def interrupted_while_it_stands_still(scene: Scene, session: ClaudeSession) -> TurnEnded:
    """The process is closed instead."""
    events: list[AgentEvent] = []
    async for event in session.turn(Prompt("go on")):
        events.append(event)
        if isinstance(event, TextStreamed):
            (pid,) = engines_at(scene.home)
            os.kill(pid, signal.SIGSTOP)
            await session.interrupt()
            os.kill(pid, signal.SIGCONT)
    end = events[-1]
    assert isinstance(end, TurnEnded)
    return end


async def test_an_engine_that_is_killed_or_stands_still_ends_the_turn_and_the_next_one_goes_on(
    scene: Scene,
) -> None:
    """This holds for the first turn of a session without a name too."""
    scene.model.when("first", Hang()).answers("Miso, noted.")
    async with scene.session() as session:
        first = await killed_at(scene, session.turn(Prompt("first")), SessionNamed)
        assert texts(await ask(session, "my cat is called Miso")) == ["Miso, noted."]
        scene.model.then(Stall(Reply((Say("for ever"),))))
        stopped = await interrupted_while_it_stands_still(scene, session)

    assert isinstance(first[-1], TurnEnded)
    assert first[-1].cause is EndCause.FAILED
    assert stopped.cause is EndCause.INTERRUPTED


async def test_an_engine_is_replaced_under_its_name_whenever_it_is_killed(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    name = SessionId("11111111-2222-4333-8444-555555555555")
    scene.model.when("first", Hang())
    async with scene.session(begin=name) as session:
        await died(scene, caplog)
        turn = session.turn(Prompt("first"))
        events = await killed_at(scene, turn, SessionNamed)
        assert isinstance(events[-1], TurnEnded), "killed before its first turn"
        assert events[-1].cause is EndCause.FAILED
        assert texts(await ask(session, "second")) == ["ok"], "killed at its first breath"
        assert session.id == name
        await died(scene, caplog)
        assert texts(await ask(session, "third")) == ["ok"], "killed between turns"
        assert session.id == name


async def test_a_start_without_a_place_for_the_prompt_says_so(scene: Scene) -> None:
    (scene.home / "run").write_text("no folder")
    engine = ClaudeEngine(engine_variables({}, {}, Path("/bin")), scene.home / "run")
    with pytest.raises(EngineError, match="run: "):
        async with engine.open(scene.spec, Toolset()):
            pass


async def test_whoever_stops_waiting_for_a_session_leaves_no_process(scene: Scene) -> None:
    async def opened() -> None:
        async with scene.session():
            pass

    opening = asyncio.create_task(opened())
    await eventually(lambda: engines_at(scene.home) or opening.done(), within=20)
    opening.cancel()
    with suppress(asyncio.CancelledError):
        await opening
    await eventually(lambda: not engines_at(scene.home), within=20)


@pytest.mark.real_engine
async def test_a_process_is_closed_quickly_though_it_is_busy(scene: Scene) -> None:
    scene.model.then(Stall(Reply((Say("for ever"),))))
    environment = engine_variables(provider(scene.home, scene.url), os.environ, Path("/bin"))
    prompt = scene.home / "prompt"
    prompt.write_text("You help.")
    options = options_for(scene.spec, Toolset(), prompt=prompt, environment=environment, refused={})
    connection = await Connection.open(options)
    await connection.send({"type": "user", "message": {"role": "user", "content": "go on"}})
    await scene.model.seen(1)
    async with asyncio.timeout(SOON):
        await connection.close()

    assert engines_at(scene.home) == []
