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
from tests.kernel.engine.processes import engines_at, eventually
from tests.kernel.engine.scene import Scene, ask, texts

from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.launcher import engine_variables
from ollim_bot.kernel.engine.session import ClaudeSession
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    SessionNamed,
    TextStreamed,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import Prompt, Toolset
from ollim_bot.offline.server import Hang, Reply, Say, Stall

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
