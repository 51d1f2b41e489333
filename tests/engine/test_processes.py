"""The engine's processes: they may die at any time, and they never outlive the bot."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.engine.processes import command_of, engines_at, environment_of, eventually
from tests.engine.scene import SOON, Scene, ask, provider, spoken, texts

from ollim_bot.domain.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    SessionNamed,
    TextStreamed,
    TextWithdrawn,
    TurnEnded,
)
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.claude import ClaudeEngine
from ollim_bot.engine.connection import Connection
from ollim_bot.engine.options import child_environment, options_for
from ollim_bot.errors import EngineError
from ollim_bot.offline.messages import Hang, Reply, Say, Stall
from ollim_bot.ports import Prompt, Toolset

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


async def killed_at(
    stage: Scene, turn: AsyncIterator[AgentEvent], kind: type[AgentEvent]
) -> list[AgentEvent]:
    events: list[AgentEvent] = []
    async for event in turn:
        events.append(event)
        if isinstance(event, kind):
            (pid,) = engines_at(stage.home)
            os.kill(pid, signal.SIGKILL)
    return events


async def died(stage: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """The engine is killed between two turns, and that is known."""
    caplog.clear()
    (pid,) = engines_at(stage.home)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: "The engine died." in caplog.text, within=10)


async def test_a_killed_engine_ends_the_turn_and_the_next_one_goes_on(stage: Scene) -> None:
    """Also if it was the first one of a session that was given no name."""
    stage.model.when("first", Hang()).answers("Miso, noted.")
    stage.model.then(Stall(Reply((Say("It is"),)))).answers("Miso.")
    async with stage.session() as session:
        first = await killed_at(stage, session.turn(Prompt("first")), SessionNamed)
        await ask(session, "my cat is called Miso")
        named = session.id
        turn = session.turn(Prompt("what is it called?"))
        events = await killed_at(stage, turn, TextStreamed)
        after = await ask(session, "again")

    assert isinstance(first[-1], TurnEnded)
    assert first[-1].cause is EndCause.FAILED
    withdrawn, ended = events[-2:]
    assert withdrawn == TextWithdrawn()
    assert isinstance(ended, TurnEnded)
    assert ended.failure is not None
    assert (ended.cause, ended.failure.kind) == (EndCause.FAILED, FailureKind.ENGINE_DIED)
    assert session.id == named
    assert texts(after) == ["Miso."]
    heard = spoken(stage.model.requests[-1])
    at = heard.index("my cat is called Miso")
    assert heard[at + 1] == "Miso, noted."


async def test_an_engine_is_replaced_under_its_name_whenever_it_is_killed(
    stage: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    name = SessionId("11111111-2222-4333-8444-555555555555")
    stage.model.when("first", Hang())
    async with stage.session(begin=name) as session:
        await died(stage, caplog)
        turn = session.turn(Prompt("first"))
        events = await killed_at(stage, turn, SessionNamed)
        assert isinstance(events[-1], TurnEnded), "killed before its first turn"
        assert events[-1].cause is EndCause.FAILED
        assert texts(await ask(session, "second")) == ["ok"], "killed at its first breath"
        assert session.id == name
        await died(stage, caplog)
        assert texts(await ask(session, "third")) == ["ok"], "killed between turns"
        assert session.id == name


async def test_a_changed_session_has_a_new_process_and_none_is_left_behind(stage: Scene) -> None:
    """The system prompt may be long, is in no command line, and is told again in the new one."""
    long = "The owner's secret. " * 20_000
    async with stage.session(model="haiku", system_prompt=long) as session:
        (first,) = engines_at(stage.home)
        assert "secret" not in "".join(command_of(first))
        await session.reconfigure(model="haiku", thinking="off", system_prompt=long, skills=())
        await ask(session, "one")
        assert engines_at(stage.home) == [first], "to be told the same again costs nothing"
        await session.reconfigure(
            model=None, thinking="off", system_prompt="Another secret.", skills=()
        )
        await ask(session, "two")
        (second,) = engines_at(stage.home)
        assert second != first
    assert engines_at(stage.home) == []

    before, after = stage.model.requests
    assert before.system.rstrip().endswith(long.rstrip())
    assert after.system.endswith("Another secret.")
    assert [path.name for path in (stage.home / "run").iterdir()] == ["claude-launcher"]


async def test_the_engine_gets_none_of_our_secrets_and_no_proxy_for_this_machine(
    stage: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = ("DISCORD_TOKEN", "WEBHOOK_SECRET", "OLLIM_WEB_SECRET", "GOOGLE_CLIENT_SECRET")
    for name in ours:
        monkeypatch.setenv(name, "hush-hush")
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    async with stage.session() as session:
        (pid,) = engines_at(stage.home)
        environment = environment_of(pid)
        assert environment["CLAUDE_CODE_DISABLE_CRON"] == "1"
        assert "hush-hush" not in environment.values()
        assert texts(await ask(session, "hello")) == ["ok"], "the provider is on this machine"


async def test_a_start_without_a_place_for_the_prompt_says_so(stage: Scene) -> None:
    (stage.home / "run").write_text("no folder")
    engine = ClaudeEngine(child_environment({}, {}, Path("/bin")), stage.home / "run")
    with pytest.raises(EngineError, match="run: "):
        async with engine.open(stage.spec, Toolset()):
            pass


async def test_whoever_stops_waiting_for_a_session_leaves_no_process(stage: Scene) -> None:
    async def opened() -> None:
        async with stage.session():
            pass

    opening = asyncio.create_task(opened())
    await eventually(lambda: engines_at(stage.home) or opening.done(), within=20)
    opening.cancel()
    with suppress(asyncio.CancelledError):
        await opening
    await eventually(lambda: not engines_at(stage.home), within=20)


async def test_a_process_is_closed_quickly_though_it_is_busy(stage: Scene) -> None:
    stage.model.then(Stall(Reply((Say("for ever"),))))
    environment = child_environment(provider(stage.home, stage.url), os.environ, Path("/bin"))
    prompt = stage.home / "prompt"
    prompt.write_text("You help.")
    options = options_for(stage.spec, Toolset(), prompt=prompt, environment=environment, refused={})
    connection = await Connection.open(options)
    await connection.send({"type": "user", "message": {"role": "user", "content": "go on"}})
    await stage.model.seen(1)
    async with asyncio.timeout(SOON):
        await connection.close()

    assert engines_at(stage.home) == []


BOT = """
import asyncio, sys
from pathlib import Path
from ollim_bot.ports import Prompt, SessionSpec, Toolset
from tests.engine.processes import command_of, engines_at, environment_of, eventually
from tests.engine.scene import engine_at

async def main(home, url):
    engine = engine_at(home, url)
    async with engine.open(SessionSpec("", home / "data"), Toolset()) as session:
        async for event in session.turn(Prompt("hang")):
            pass

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


async def test_the_engine_dies_with_the_bot(stage: Scene) -> None:
    stage.model.when("hang", Hang())
    bot = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BOT, str(stage.home), stage.url, cwd=Path(__file__).parents[2]
    )
    try:
        await stage.model.seen(1, within=20)
        assert len(engines_at(stage.home)) == 1
    finally:
        bot.kill()
        await bot.wait()
    await eventually(lambda: not engines_at(stage.home), within=3)


async def test_an_engine_that_stands_still_can_be_interrupted(stage: Scene) -> None:
    """It is closed instead, and the next turn has a new one."""
    stage.model.then(Stall(Reply((Say("for ever"),)))).answers("I am back.")
    async with stage.session() as session:
        events: list[AgentEvent] = []
        async for event in session.turn(Prompt("go on")):
            events.append(event)
            if isinstance(event, TextStreamed):
                (pid,) = engines_at(stage.home)
                os.kill(pid, signal.SIGSTOP)
                await session.interrupt()
                os.kill(pid, signal.SIGCONT)

    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.INTERRUPTED
