"""The engine's processes: they may die at any time, and they never outlive the bot."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
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
    stage: Scene, turn: object, kind: type[AgentEvent], number: signal.Signals
) -> list[AgentEvent]:
    events: list[AgentEvent] = []
    async for event in turn:  # type: ignore[attr-defined]
        events.append(event)
        if isinstance(event, kind):
            (pid,) = engines_at(stage.home)
            os.kill(pid, number)
    return events


async def test_a_killed_engine_ends_the_turn_and_the_next_one_goes_on(stage: Scene) -> None:
    stage.model.answers("Miso, noted.").then(Stall(Reply((Say("It is"),)))).answers("Miso.")
    async with stage.session() as session:
        await ask(session, "my cat is called Miso")
        named = session.id
        turn = session.turn(Prompt("what is it called?"))
        events = await killed_at(stage, turn, TextStreamed, signal.SIGKILL)
        after = await ask(session, "again")

    withdrawn, ended = events[-2:]
    assert withdrawn == TextWithdrawn()
    assert isinstance(ended, TurnEnded)
    assert ended.failure is not None
    assert (ended.cause, ended.failure.kind) == (EndCause.FAILED, FailureKind.ENGINE_DIED)
    assert session.id == named
    assert texts(after) == ["Miso."]
    assert spoken(stage.model.requests[-1])[:2] == ["my cat is called Miso", "Miso, noted."]


@pytest.mark.parametrize("name", [None, SessionId("11111111-2222-4333-8444-555555555555")])
async def test_an_engine_killed_at_its_first_breath_is_replaced(
    stage: Scene, name: SessionId | None
) -> None:
    stage.model.when("first", Hang())
    async with stage.session(begin=name) as session:
        turn = session.turn(Prompt("first"))
        events = await killed_at(stage, turn, SessionNamed, signal.SIGKILL)
        after = await ask(session, "second")

    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.FAILED
    assert texts(after) == ["ok"]
    assert session.id == (name or session.id)


async def test_an_engine_killed_before_its_first_turn_is_replaced_under_its_name(
    stage: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    name = SessionId("11111111-2222-4333-8444-555555555555")
    async with stage.session(begin=name) as session:
        (pid,) = engines_at(stage.home)
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: "The engine died." in caplog.text, within=10)
        assert texts(await ask(session, "hello")) == ["ok"]
        assert session.id == name


async def test_an_engine_that_died_between_turns_is_not_noticed(
    stage: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.session() as session:
        await ask(session, "one")
        (pid,) = engines_at(stage.home)
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: "The engine died." in caplog.text, within=10)
        assert texts(await ask(session, "two")) == ["ok"]


async def test_no_process_is_left_behind(stage: Scene) -> None:
    async with stage.session() as session:
        await ask(session, "one")
        assert len(engines_at(stage.home)) == 1
        await session.reconfigure(model="haiku", thinking="adaptive", system_prompt="")
        await ask(session, "two")
        assert len(engines_at(stage.home)) == 1

    assert engines_at(stage.home) == []


async def test_to_be_told_the_same_again_costs_nothing(stage: Scene) -> None:
    async with stage.session(model="haiku") as session:
        await ask(session, "one")
        before = engines_at(stage.home)
        await session.reconfigure(model="haiku", thinking="off", system_prompt="You help.")
        await ask(session, "two")
        assert engines_at(stage.home) == before


async def test_the_engine_gets_none_of_our_secrets(
    stage: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = ("DISCORD_TOKEN", "WEBHOOK_SECRET", "OLLIM_WEB_SECRET", "GOOGLE_CLIENT_SECRET")
    for name in ours:
        monkeypatch.setenv(name, "hush-hush")
    async with stage.session():
        (pid,) = engines_at(stage.home)
        environment = environment_of(pid)

    assert environment["CLAUDE_CODE_DISABLE_CRON"] == "1"
    assert "hush-hush" not in environment.values()


async def test_nobody_can_read_the_system_prompt(stage: Scene) -> None:
    """It may be long, and it is told again to a session that is resumed."""
    long = "The owner's secret. " * 20_000
    async with stage.session(system_prompt=long) as session:
        (pid,) = engines_at(stage.home)
        assert "secret" not in "".join(command_of(pid))
        await ask(session, "one")
        await session.reconfigure(model=None, thinking="off", system_prompt="Another secret.")
        await ask(session, "two")

    first, second = stage.model.requests
    assert first.system.rstrip().endswith(long.rstrip())
    assert second.system.endswith("Another secret.")
    assert [path.name for path in (stage.home / "run").iterdir()] == ["claude-launcher"]


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_engine_dies_with_the_bot(stage: Scene, number: signal.Signals) -> None:
    stage.model.when("hang", Hang())
    bot = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BOT, str(stage.home), stage.url, cwd=Path(__file__).parents[2]
    )
    try:
        await stage.model.seen(1, within=20)
        assert len(engines_at(stage.home)) == 1
    finally:
        bot.send_signal(number)
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
