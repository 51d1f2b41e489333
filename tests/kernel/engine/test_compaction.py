"""A compaction, requested or automatic, repeats no prompt and no tool call."""

from __future__ import annotations

from collections.abc import Mapping

from tests.kernel.engine.cases import new_name
from tests.kernel.engine.scene import ask, spoken, texts
from tests.kernel.engine.shared import PING, PING_SCHEMA, SharedSession, in_shared_loop

from ollim_bot.kernel.values.events import (
    AgentEvent,
    Compacted,
    CompactionStarted,
    EndCause,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import Tool, ToolAnswer, Toolset, Trace
from ollim_bot.offline.rules import OfflineModel, asks_for_summary
from ollim_bot.offline.server import CallTool, ModelRequest, Reply, Say
from ollim_bot.offline.texts import GREETING, WHAT_I_CAN_DO

NEARLY_FULL = 980_000


def kinds(events: list[AgentEvent]) -> list[type[AgentEvent]]:
    return [type(event) for event in events]


def summaries(shared: SharedSession) -> list[ModelRequest]:
    return [request for request in shared.model.requests if asks_for_summary(request)]


@in_shared_loop
async def test_a_full_conversation_makes_room_in_the_middle_of_a_turn(
    shared: SharedSession,
) -> None:
    pings: list[str] = []
    prompt = new_name()

    async def ping(arguments: Mapping[str, object]) -> ToolAnswer:
        pings.append(str(arguments["message"]))
        return ToolAnswer("sent")

    shared.tools = Toolset({"chat": (Tool("ping", "Sends a message", PING_SCHEMA, ping),)})
    async with shared.limited() as session:
        await ask(session, "hello")
        named = session.id
        shared.model.then(
            Reply((Say("First."), CallTool(PING, {"message": "a"})), input_tokens=NEARLY_FULL),
            Reply((Say("Second."), CallTool(PING, {"message": "b"}))),
        ).answers("Both are sent.")
        events = await ask(session, "ping twice", prompt)
        after = await ask(session, "thanks")

    order = [kind for kind in kinds(events) if kind in (ToolEnded, CompactionStarted, Compacted)]
    assert order == [ToolEnded, CompactionStarted, Compacted, ToolEnded]
    assert kinds(events).count(ToolStarted) == 2
    assert pings == ["a", "b"]
    assert texts(events) == ["First.", "Second.", "Both are sent."]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.COMPLETED
    assert kinds(events).count(TurnEnded) == 1
    assert len(summaries(shared)) == 1
    assert session.id == named
    assert texts(after) == ["ok"]
    assert named is not None
    answer = "First.\n\nSecond.\n\nBoth are sent."
    trace = await shared.engine.trace(named, prompt)
    assert trace == Trace(True, True, answer, ("chat: ping", "chat: ping"))


@in_shared_loop
async def test_room_is_made_on_demand_with_what_is_to_be_kept(shared: SharedSession) -> None:
    prompt = new_name()
    async with shared.limited() as session:
        await ask(session, "my cat is called Miso", prompt)
        named = session.id
        events = [event async for event in session.command("/compact keep the cat")]
        await ask(session, "and now?")

    (asked,) = summaries(shared)
    assert "keep the cat" in asked.last_user_text
    compacted = next(event for event in events if isinstance(event, Compacted))
    assert kinds(events).index(CompactionStarted) < kinds(events).index(Compacted)
    assert compacted.session_id == named == session.id
    assert (compacted.tokens_before or 0) > 0
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.COMPLETED
    assert "my cat is called Miso" not in spoken(shared.model.requests[-1])
    assert named is not None
    trace = await shared.engine.trace(named, prompt)
    assert trace == Trace(is_taken=True, is_complete=True, answer="ok")


@in_shared_loop
async def test_the_built_in_model_knows_a_compaction_and_goes_on(shared: SharedSession) -> None:
    shared.other_model = OfflineModel()
    async with shared.limited() as session:
        assert texts(await ask(session, "hello")) == [GREETING]
        events = [event async for event in session.command("/compact")]
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].cause is EndCause.COMPLETED
        assert texts(await ask(session, "what can you do?")) == [WHAT_I_CAN_DO]
