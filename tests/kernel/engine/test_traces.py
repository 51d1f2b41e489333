"""The trace of a prompt, in each state that a crash can leave."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping

import pytest
from tests.kernel.engine.cases import new_name
from tests.kernel.engine.processes import engines_at, eventually
from tests.kernel.engine.scene import (
    Scene,
    ask,
    end_of,
    engine_at,
    interrupted,
    provider,
    spoken,
    texts,
)
from tests.kernel.engine.shared import PING, PING_SCHEMA, SharedSession, in_shared_loop

from ollim_bot.kernel.engine.engine import ClaudeEngine
from ollim_bot.kernel.engine.session import ClaudeSession
from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    TextStreamed,
    TextWithdrawn,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import Prompt, Tool, ToolAnswer, Toolset, Trace
from ollim_bot.offline.server import CallTool, Hang, Reply, Say, Stall

TAKEN = Trace(is_taken=True)

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def tools(run: object) -> Toolset:
    return Toolset({"chat": (Tool("ping", "Sends a message", PING_SCHEMA, run),)})  # type: ignore[arg-type]


async def trace(shared: SharedSession, prompt: str) -> Trace:
    assert shared.session.id is not None
    return await shared.engine.trace(shared.session.id, prompt)


@in_shared_loop
async def test_words_before_a_call_stand_there_while_it_runs(shared: SharedSession) -> None:
    seen, prompt = list[Trace](), new_name()

    async def look(_: Mapping[str, object]) -> ToolAnswer:
        while not (found := await trace(shared, prompt)).answer:  # noqa: ASYNC110 - it is a file
            await asyncio.sleep(0.02)
        seen.append(found)
        return ToolAnswer("done")

    calls = Reply((Say("I look."), CallTool(PING, {"message": "hi"})))
    shared.model.then(calls).answers("There it is.")
    shared.tools = tools(look)
    async with shared.limited() as session:
        await ask(session, "look", prompt)
        assert seen == [Trace(True, False, "I look.")]
        whole = Trace(True, True, "I look.\n\nThere it is.", ("chat: ping",))
        assert await trace(shared, prompt) == whole
        await ask(session, "something else", new_name())
        async for _ in session.command("/compact"):
            pass

    assert await trace(shared, prompt) == whole


@in_shared_loop
async def test_an_interrupted_answer_is_known_as_far_as_it_came(shared: SharedSession) -> None:
    prompt = new_name()
    shared.model.then(Stall(Reply((Say("for ever and"),))))
    async with shared.limited() as session:
        await interrupted(session, "go on", at=TextStreamed, name=prompt)
        assert await trace(shared, prompt) == Trace(True, False, "for ever and")
        await ask(session, "and now?")

    assert await trace(shared, prompt) == Trace(True, False, "for ever and")


@in_shared_loop
async def test_an_interrupted_call_is_no_end(shared: SharedSession) -> None:
    async def for_ever(_: Mapping[str, object]) -> ToolAnswer:
        await asyncio.Event().wait()
        return ToolAnswer("never")

    prompt = new_name()
    shared.model.then(Reply((Say("I call."), CallTool(PING, {"message": "hi"}))))
    shared.tools = tools(for_ever)
    async with shared.limited() as session:
        await interrupted(session, "call", at=ToolStarted, name=prompt)

    assert await trace(shared, prompt) == Trace(True, False, "I call.")


@in_shared_loop
async def test_a_subagent_says_nothing_in_the_answer(shared: SharedSession) -> None:
    prompt = new_name()
    task = {"description": "count", "prompt": "COUNT", "subagent_type": "counter"}
    shared.model.then(Reply((CallTool("Agent", task),))).answers("counted", "All counted.")
    async with shared.limited() as session:
        await ask(session, "count", prompt)

    assert await trace(shared, prompt) == Trace(True, True, "All counted.", ("Agent(counter)",))


class TracedPrompt:
    """A named session with one prompt, and the engine's trace of that prompt."""

    def __init__(self, scene: Scene) -> None:
        self.session, self.prompt = new_name(), new_name()
        self._engine: ClaudeEngine = engine_at(scene.home, scene.url)

    async def trace(self, prompt: str | None = None) -> Trace:
        return await self._engine.trace(self.session, prompt or self.prompt)


@pytest.fixture
def traced(scene: Scene) -> TracedPrompt:
    return TracedPrompt(scene)


def kill(scene: Scene) -> None:
    (pid,) = engines_at(scene.home)
    os.kill(pid, signal.SIGKILL)


async def ask_and_kill(
    scene: Scene, session: ClaudeSession, traced: TracedPrompt, amid: Hang | Stall
) -> list[AgentEvent]:
    """Ask, and kill the engine while the model is silent or amid its first words."""
    scene.model.then(amid)
    number = len(scene.model.requests) + 1
    prompt = Prompt("what is it called?", id=traced.prompt)
    events: list[AgentEvent] = []

    async def listen() -> None:
        async for event in session.turn(prompt):
            events.append(event)
            if isinstance(event, TextStreamed):
                has_begun.set()

    has_begun = asyncio.Event()
    turn = asyncio.create_task(listen())
    await scene.model.seen(number)
    if isinstance(amid, Stall):
        await has_begun.wait()
    kill(scene)
    await turn
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.failure is not None
    assert (ended.cause, ended.failure.kind) == (EndCause.FAILED, FailureKind.ENGINE_DIED)
    return events


@pytest.mark.real_process
@needs_proc
async def test_a_prompt_of_a_killed_engine_is_known_and_the_session_goes_on_under_its_name(
    scene: Scene, traced: TracedPrompt, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed before its first turn, at its first breath, when the next bot only knows the name of
    the session, and amid a turn."""
    async with scene.session(begin=traced.session) as session:
        kill(scene)
        await eventually(lambda: "The engine died." in caplog.text, within=60)
        await ask_and_kill(scene, session, traced, Hang())
        assert session.id == traced.session
        assert await traced.trace() == TAKEN
    scene.model.answers("Miso, noted.")
    async with scene.session(begin=traced.session) as session:
        await ask(session, "my cat is called Miso")
        assert session.id == traced.session
        first, traced.prompt = traced.prompt, new_name()
        events = await ask_and_kill(scene, session, traced, Stall(Reply((Say("It is"),))))
        assert events[-2] == TextWithdrawn()
        assert await traced.trace() == TAKEN
        scene.model.answers("It is Miso.")
        after = await ask(session, "go on")

    assert await traced.trace() == TAKEN
    assert await traced.trace(first) == TAKEN
    assert session.id == traced.session
    assert texts(after) == ["It is Miso."]
    asked = spoken(scene.model.requests[-1])
    at = asked.index("my cat is called Miso")
    assert "what is it called?" in asked[:at]
    assert asked[at + 1 : at + 3] == ["Miso, noted.", "what is it called?"]
    assert asked[-1] == "go on"


@pytest.mark.real_process
async def test_a_name_whose_record_is_empty_is_left_alone(
    scene: Scene, traced: TracedPrompt
) -> None:
    records = Transcripts(provider(scene.home, scene.url))
    torn = records.folder_of(scene.spec.working_directory) / f"{traced.session}.jsonl"
    torn.parent.mkdir(parents=True)
    torn.write_text('{"type":"queue-operation","opera')
    async with scene.session(begin=traced.session) as session:
        ended = await end_of(session, "hello")

    assert ended.cause is EndCause.COMPLETED
    assert session.id not in (None, traced.session)
    assert torn.read_text() == '{"type":"queue-operation","opera'
