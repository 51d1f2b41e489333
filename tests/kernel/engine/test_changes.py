"""A session that is changed goes on in another process, and nothing is left of either."""

from __future__ import annotations

import asyncio
import sys

import pytest
from tests.kernel.engine.cases import chat
from tests.kernel.engine.processes import command_of, engines_at, environment_of
from tests.kernel.engine.scene import SOON, Scene, ask, end_of, spoken, texts
from tests.kernel.engine.shared import PING

from ollim_bot.kernel.engine.session import ClaudeSession
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    TextStreamed,
    ThinkingStreamed,
    ToolFailed,
)
from ollim_bot.kernel.values.ports import Toolset
from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say, Stall, Think

pytestmark = pytest.mark.real_process

OURS = ("DISCORD_TOKEN", "WEBHOOK_SECRET", "OLLIM_WEB_SECRET", "GOOGLE_CLIENT_SECRET")
PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY")
LONG_PROMPT = "The owner's secret. " * 20_000
LONG_ANSWER = "0123456789" * 200_000
THINKING = Reply((Think("First this, then that."), Say("Yes.")), chunk=12)


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of the bot, and a proxy that does not exist."""
    for name in OURS:
        monkeypatch.setenv(name, "hush-hush")
    for name in PROXIES:
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)


def processes(scene: Scene) -> list[int]:
    """The processes of the engine, on Linux only."""
    return engines_at(scene.home) if sys.platform == "linux" else []


def assert_nothing_is_told_to(pid: int) -> None:
    """It has neither the bot's secrets nor the system prompt, since every account can read it."""
    environment = environment_of(pid)
    assert environment["CLAUDE_CODE_DISABLE_CRON"] == "1"
    assert "hush-hush" not in environment.values()
    assert "secret" not in "".join(command_of(pid))


def assert_thoughts_are_apart(request: ModelRequest, events: list[AgentEvent]) -> None:
    """Thinking is streamed as a summary."""
    assert events[:2] == [ThinkingStreamed("First this, "), ThinkingStreamed("then that.")]
    assert texts(events) == ["Yes."]
    streamed = [event.text for event in events if isinstance(event, TextStreamed)]
    assert "First" not in "".join(streamed)
    wanted = request.body["thinking"]
    assert isinstance(wanted, dict)
    assert wanted["display"] == "summarized"


async def check_that_only_the_named_tools_exist(scene: Scene, session: ClaudeSession) -> None:
    scene.model.then(Reply((CallTool("Bash", {"command": "echo hi"}),)))
    events = await ask(session, "run it")
    assert set(scene.model.requests[-2].tools) == {"Read", PING}
    assert any(isinstance(event, ToolFailed) for event in events)


@pytest.mark.usefixtures("surroundings")
async def test_another_model_takes_over_the_same_session_with_a_new_process_and_none_is_left(
    scene: Scene,
) -> None:
    """The system prompt may be long, is in no command line, and is passed again to the new process.

    The provider is on this machine, and is reached without the proxy.
    """
    loop = asyncio.get_running_loop()
    scene.model.then(THINKING, THINKING)
    tools = Toolset(chat(), builtin=("Read",))
    async with scene.session(
        tools, model="sonnet", thinking=4000, system_prompt=LONG_PROMPT
    ) as session:
        first = processes(scene)
        for pid in first:
            assert_nothing_is_told_to(pid)
        await session.reconfigure(
            model="sonnet", thinking=4000, system_prompt=LONG_PROMPT, skills=()
        )
        _, *by_budget = await ask(session, "one")
        assert processes(scene) == first, "to be told the same again costs nothing"
        named = session.id
        await session.reconfigure(
            model="haiku", thinking="adaptive", system_prompt="Another secret.", skills=()
        )
        _, *adaptive = await ask(session, "two")
        second = processes(scene)
        assert len(second) == len(first)
        assert set(second).isdisjoint(first)

        before, after = scene.model.requests
        assert session.id == named
        assert "sonnet" in before.model
        assert "haiku" in after.model
        assert spoken(after) == ["one", "Yes.", "two"]
        assert_thoughts_are_apart(before, by_budget)
        assert_thoughts_are_apart(after, adaptive)
        assert before.system.rstrip().endswith(LONG_PROMPT.rstrip())
        assert after.system.endswith("Another secret.")

        await check_that_only_the_named_tools_exist(scene, session)
        scene.model.then(Reply((Say(LONG_ANSWER),), chunk=500_000))
        assert texts(await ask(session, "everything")) == [LONG_ANSWER], "whole"
        scene.model.then(Stall(Reply((Say("for ever"),))))
        number = len(scene.model.requests) + 1
        turn = asyncio.create_task(end_of(session, "go on"))
        await scene.model.seen(number)
        began = loop.time()
    took = loop.time() - began

    assert took < SOON, "closed amid a turn"
    assert processes(scene) == []
    assert (await turn).cause is EndCause.INTERRUPTED
    assert [path.name for path in (scene.home / "run").iterdir()] == ["claude-launcher"]
