"""What is still known of a prompt, in each state in which a crash can leave it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from uuid import uuid4

import pytest
from tests.engine.processes import engines_at
from tests.engine.scene import Scene, ask, end_of, engine_at, interrupted, spoken, texts
from tests.engine.shared import COUNTER

from ollim_bot.domain.events import EndCause, FailureKind, TextStreamed, ToolStarted
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.claude import ClaudeEngine
from ollim_bot.engine.session import ClaudeSession
from ollim_bot.offline.messages import CallTool, Fail, Hang, Reply, Say, Stall
from ollim_bot.ports import Prompt, Tool, ToolAnswer, Toolset, Trace

PING = "mcp__chat__ping"
NOT_TAKEN = Trace(is_taken=False)
TAKEN = Trace(is_taken=True)

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Witness:
    """A session with a name from the start, and what the engine knows of one prompt in it."""

    def __init__(self, stage: Scene) -> None:
        self.session = SessionId(str(uuid4()))
        self.prompt = str(uuid4())
        self._engine: ClaudeEngine = engine_at(stage.home, stage.url)

    async def trace(self) -> Trace:
        return await self._engine.trace(self.session, self.prompt)


@pytest.fixture
def witness(stage: Scene) -> Witness:
    return Witness(stage)


def tools(run: object) -> Toolset:
    ping = Tool("ping", "Sends a message", {}, run)  # type: ignore[arg-type]
    return Toolset({"chat": (ping,)})


async def killed(stage: Scene, session: ClaudeSession, witness: Witness) -> None:
    """Ask, and kill the engine while the model is silent."""
    stage.model.then(Hang())
    number = len(stage.model.requests) + 1
    turn = asyncio.create_task(end_of(session, "what is it called?", witness.prompt))
    await stage.model.seen(number)
    (pid,) = engines_at(stage.home)
    os.kill(pid, signal.SIGKILL)
    ended = await turn
    assert ended.failure is not None
    assert ended.failure.kind is FailureKind.ENGINE_DIED


async def test_nothing_stands_there_before_it_is_asked(stage: Scene, witness: Witness) -> None:
    async with stage.session(begin=witness.session):
        assert await witness.trace() == NOT_TAKEN


async def test_a_prompt_stands_there_when_the_model_hears_it(
    stage: Scene, witness: Witness
) -> None:
    stage.model.then(Hang())
    async with stage.session(begin=witness.session) as session:
        turn = asyncio.create_task(end_of(session, "hello", witness.prompt))
        await stage.model.seen(1)
        assert await witness.trace() == TAKEN
    await turn


async def test_words_before_a_call_stand_there_while_it_runs(
    stage: Scene, witness: Witness
) -> None:
    seen: list[Trace] = []

    async def look(_: Mapping[str, object]) -> ToolAnswer:
        async with asyncio.timeout(10):
            while not (trace := await witness.trace()).answer:  # noqa: ASYNC110 - it is a file
                await asyncio.sleep(0.02)
        seen.append(trace)
        return ToolAnswer("done")

    calls = Reply((Say("I look."), CallTool(PING)))
    stage.model.then(calls).answers("There it is.")
    async with stage.session(tools(look), begin=witness.session) as session:
        await ask(session, "look", witness.prompt)
        assert seen == [Trace(True, False, "I look.")]
        assert await witness.trace() == Trace(True, True, "I look.\n\nThere it is.")
        await ask(session, "something else", str(uuid4()))
        async for _ in session.command("/compact"):
            pass

    assert await witness.trace() == Trace(True, True, "I look.\n\nThere it is.")


async def test_an_interrupted_answer_is_known_as_far_as_it_came(
    stage: Scene, witness: Witness
) -> None:
    stage.model.then(Stall(Reply((Say("for ever and"),))))
    async with stage.session(begin=witness.session) as session:
        turn = session.turn(Prompt("go on", id=witness.prompt))
        async for event in turn:
            if isinstance(event, TextStreamed):
                await session.interrupt()
        assert await witness.trace() == Trace(True, False, "for ever and")
        await ask(session, "and now?")

    assert await witness.trace() == Trace(True, False, "for ever and")


async def test_an_interrupted_call_is_no_end(stage: Scene, witness: Witness) -> None:
    async def for_ever(_: Mapping[str, object]) -> ToolAnswer:
        await asyncio.Event().wait()
        return ToolAnswer("never")

    stage.model.then(Reply((Say("I call."), CallTool(PING))))
    async with stage.session(tools(for_ever), begin=witness.session) as session:
        await interrupted(session, "call", at=ToolStarted, name=witness.prompt)

    assert await witness.trace() == Trace(True, False, "I call.")


async def test_a_failure_of_the_provider_is_no_answer(stage: Scene, witness: Witness) -> None:
    stage.model.when("hello", Fail(403, "permission_error", "no"))
    async with stage.session(begin=witness.session) as session:
        await ask(session, "hello", witness.prompt)
        assert await witness.trace() == TAKEN
        await ask(session, "again")

    assert await witness.trace() == TAKEN


async def test_a_subagent_says_nothing_in_the_answer(stage: Scene, witness: Witness) -> None:
    task = {"description": "count", "prompt": "COUNT", "subagent_type": "counter"}
    stage.model.then(Reply((CallTool("Agent", task),))).answers("counted", "All counted.")
    tools = Toolset(builtin=("Agent",))
    async with stage.session(tools, begin=witness.session, subagents=COUNTER) as session:
        await ask(session, "count", witness.prompt)

    assert await witness.trace() == Trace(True, True, "All counted.")


@needs_proc
async def test_a_prompt_of_a_killed_engine_is_known_and_the_session_goes_on(
    stage: Scene, witness: Witness
) -> None:
    stage.model.answers("Miso, noted.")
    async with stage.session(begin=witness.session) as session:
        await ask(session, "my cat is called Miso")
        await killed(stage, session, witness)
        assert await witness.trace() == TAKEN
        stage.model.answers("It is Miso.")
        after = await ask(session, "go on")

    assert await witness.trace() == TAKEN
    assert session.id == witness.session
    assert texts(after) == ["It is Miso."]
    asked = spoken(stage.model.requests[-1])
    assert asked[:3] == ["my cat is called Miso", "Miso, noted.", "what is it called?"]
    assert asked[-1] == "go on"


@needs_proc
async def test_a_new_session_whose_engine_was_killed_goes_on_under_its_name(
    stage: Scene, witness: Witness
) -> None:
    """In this bot, and in the next one that only knows the name that it chose."""
    async with stage.session(begin=witness.session) as session:
        await killed(stage, session, witness)
    async with stage.session(begin=witness.session) as session:
        ended = await end_of(session, "again")

    assert session.id == witness.session
    assert ended.cause is EndCause.COMPLETED
    assert "what is it called?" in spoken(stage.model.requests[-1])


async def test_a_name_whose_record_is_empty_is_left_alone(stage: Scene, witness: Witness) -> None:
    async with stage.session() as session:
        await ask(session, "makes the folder")
    (folder,) = (stage.home / "claude" / "projects").iterdir()
    torn = folder / f"{witness.session}.jsonl"
    torn.write_text('{"type":"queue-operation","opera')
    async with stage.session(begin=witness.session) as session:
        ended = await end_of(session, "hello")

    assert ended.cause is EndCause.COMPLETED
    assert session.id not in (None, witness.session)
    assert torn.read_text() == '{"type":"queue-operation","opera'
