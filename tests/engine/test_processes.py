"""The engine's processes: they may die at any time, and they never outlive the bot."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engine.scene import Scene, ask, provider, spoken, texts

from ollim_bot.agent import Prompt, Toolset
from ollim_bot.domain.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    SessionNamed,
    TextStreamed,
    TextWithdrawn,
    TurnEnded,
)
from ollim_bot.engine.connection import Connection
from ollim_bot.engine.options import child_environment, options_for
from ollim_bot.offline.messages import Hang, Reply, Say, Stall

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def engines_at(home: Path) -> list[int]:
    """The processes of engines that work in this home."""
    return [pid for pid in _pids() if environment_of(pid).get("HOME") == str(home)]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def environment_of(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


async def eventually(condition: Callable[[], object], within: float) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - the kernel rings no bell
            await asyncio.sleep(0.02)


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


async def test_an_engine_killed_at_its_first_breath_is_replaced(stage: Scene) -> None:
    stage.model.when("first", Hang())
    async with stage.session() as session:
        turn = session.turn(Prompt("first"))
        events = await killed_at(stage, turn, SessionNamed, signal.SIGKILL)
        after = await ask(session, "second")

    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.FAILED
    assert texts(after) == ["ok"]


async def test_an_engine_that_died_between_turns_is_not_noticed(stage: Scene) -> None:
    async with stage.session() as session:
        await ask(session, "one")
        (pid,) = engines_at(stage.home)
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: not engines_at(stage.home), within=5)
        await asyncio.sleep(0.1)
        assert texts(await ask(session, "two")) == ["ok"]


async def test_no_process_is_left_behind(stage: Scene) -> None:
    async with stage.session() as session:
        await ask(session, "one")
        assert len(engines_at(stage.home)) == 1
        await session.reconfigure(model="haiku", thinking="adaptive")
        await ask(session, "two")
        assert len(engines_at(stage.home)) == 1

    assert engines_at(stage.home) == []


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


async def test_a_process_is_closed_quickly_though_it_is_busy(stage: Scene) -> None:
    stage.model.then(Stall(Reply((Say("for ever"),))))
    environment = child_environment(provider(stage.home, stage.url), os.environ, Path("/bin"))
    options = options_for(stage.spec, Toolset(), environment=environment, refused={})
    connection = await Connection.open(options)
    await connection.send({"type": "user", "message": {"role": "user", "content": "go on"}})
    await stage.model.seen(1)
    async with asyncio.timeout(2):
        await connection.close()

    assert engines_at(stage.home) == []


BOT = """
import asyncio, sys
from pathlib import Path
from ollim_bot.agent import Prompt, SessionSpec, Toolset
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
