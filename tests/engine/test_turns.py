"""Turns of the real engine: what happens in them, in order."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.scene import Scene, ask, end_of, interrupted, spoken, texts, tiny_png
from tests.engine.shared import SharedSession, in_shared_loop

from ollim_bot.domain.events import (
    Compacted,
    CompactionStarted,
    EndCause,
    SessionNamed,
    TextCompleted,
    TextStreamed,
    ThinkingStreamed,
    TurnEnded,
    UsageReported,
)
from ollim_bot.domain.runtime_config import Thinking
from ollim_bot.errors import SessionLost
from ollim_bot.offline.messages import Hang, Reply, Say, Stall, Think
from ollim_bot.ports import Image, Prompt


async def test_a_turn_streams_its_text_and_ends_with_it(stage: Scene) -> None:
    stage.model.then(Reply((Say("Good morning."),), chunk=5))
    async with stage.session() as session:
        assert session.id is None
        named, *streamed, whole, usage, ended = await ask(session, "hello")

    assert isinstance(named, SessionNamed)
    assert streamed == [TextStreamed("Good "), TextStreamed("morni"), TextStreamed("ng.")]
    assert whole == TextCompleted("Good morning.")
    assert isinstance(usage, UsageReported)
    assert isinstance(ended, TurnEnded)
    assert (ended.cause, ended.text, ended.failure) == (EndCause.COMPLETED, "Good morning.", None)
    assert ended.usage.context > 0
    assert ended.usage.window
    assert session.id == named.session_id


@pytest.mark.parametrize("thinking", ["adaptive", 4000])
async def test_thinking_is_told_apart_from_the_answer(stage: Scene, thinking: Thinking) -> None:
    """In summary, as it comes."""
    stage.model.then(Reply((Think("First this, then that."), Say("Yes.")), chunk=12))
    async with stage.session(thinking=thinking) as session:
        _, *events = await ask(session, "well?")

    assert events[:2] == [ThinkingStreamed("First this, "), ThinkingStreamed("then that.")]
    assert texts(events) == ["Yes."]
    assert "First" not in "".join(event.text for event in events if isinstance(event, TextStreamed))
    wanted = stage.model.requests[0].body["thinking"]
    assert isinstance(wanted, dict)
    assert wanted["display"] == "summarized"


@in_shared_loop
async def test_what_somebody_typed_arrives_as_it_was_written(shared: SharedSession) -> None:
    typed = ["/cost", "@/etc/hostname", "/compact now", "!ls", "#note"]
    async with shared.limited() as session:
        for text in typed:
            await ask(session, text)

    assert [request.last_user_text for request in shared.model.requests] == typed


@in_shared_loop
async def test_an_image_arrives_before_the_words_about_it(shared: SharedSession) -> None:
    async with shared.limited() as session:
        prompt = Prompt("What is this?", (Image("image/png", tiny_png()),))
        ended = [event async for event in session.turn(prompt)][-1]

    request = shared.model.requests[-1]
    (pictured,) = (one for one in request.messages if any(one.of_type("image")))
    kinds = [block["type"] for block in pictured.blocks]
    assert isinstance(ended, TurnEnded)
    assert ended.cause is EndCause.COMPLETED
    assert kinds.index("image") < len(kinds) - 1
    assert spoken(request)[-1] == "What is this?"


async def test_a_long_answer_comes_through_whole(stage: Scene) -> None:
    long = "0123456789" * 200_000
    stage.model.then(Reply((Say(long),), chunk=500_000))
    async with stage.session() as session:
        events = await ask(session, "everything")

    assert texts(events) == [long]


@in_shared_loop
async def test_blank_words_are_a_turn_like_any_other(shared: SharedSession) -> None:
    async with shared.limited() as session:
        assert (await end_of(session, "")).cause is EndCause.COMPLETED
        assert (await end_of(session, "  ")).cause is EndCause.COMPLETED


async def test_a_session_is_resumed_with_its_history(stage: Scene) -> None:
    stage.model.answers("I will remember.")
    async with stage.session() as session:
        await ask(session, "my cat is called Miso")
        first = session.id
    async with stage.session(resume=first, system_prompt="You are new.") as session:
        assert session.id == first
        await ask(session, "what is my cat called?")

    asked = stage.model.requests[-1]
    assert session.id == first
    assert spoken(asked) == [
        "my cat is called Miso",
        "I will remember.",
        "what is my cat called?",
    ]
    assert asked.system.endswith("You are new.")


async def test_an_unknown_session_is_lost(stage: Scene) -> None:
    unknown = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(SessionLost):
        async with stage.session(resume=unknown):
            pass


async def test_a_command_of_the_engine_makes_room_in_the_same_session(stage: Scene) -> None:
    async with stage.session() as session:
        await ask(session, "hello")
        named = session.id
        events = [event async for event in session.command("/compact keep names")]
        await ask(session, "and now?")

    kinds = [type(event) for event in events]
    compacted = next(event for event in events if isinstance(event, Compacted))
    assert kinds.index(CompactionStarted) < kinds.index(Compacted)
    assert compacted.session_id == named == session.id
    assert compacted.tokens_before is not None
    assert kinds[-1] is TurnEnded


async def test_another_model_takes_over_the_same_session(stage: Scene) -> None:
    async with stage.session(model="sonnet") as session:
        await ask(session, "one")
        named = session.id
        await session.reconfigure(model="haiku", thinking="off", system_prompt="You help.")
        await ask(session, "two")

    before, after = stage.model.requests
    assert session.id == named
    assert "sonnet" in before.model
    assert "haiku" in after.model
    assert spoken(after) == ["one", "ok", "two"]


@in_shared_loop
async def test_an_interrupted_turn_ends_at_once_and_the_next_one_works(
    shared: SharedSession,
) -> None:
    shared.model.then(Stall(Reply((Say("for ever and"),)))).answers("I am back.")
    async with shared.limited() as session:
        events = await interrupted(session, "go on", at=TextStreamed)
        after = await ask(session, "still there?")

    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.INTERRUPTED
    assert texts(after) == ["I am back."]


@in_shared_loop
async def test_an_interrupt_counts_from_the_first_moment_of_a_turn(shared: SharedSession) -> None:
    shared.model.when("hang", Hang()).answers("I am back.")
    async with shared.limited() as session:
        events = await interrupted(session, "hang", at=SessionNamed)
        await session.interrupt()
        after = await ask(session, "still there?")

    assert isinstance(events[-1], TurnEnded)
    assert events[-1].cause is EndCause.INTERRUPTED
    assert texts(after) == ["I am back."]


@in_shared_loop
async def test_a_turn_that_nobody_listens_to_any_more_leaves_nothing_behind(
    shared: SharedSession,
) -> None:
    shared.model.then(Stall(Reply((Say("for ever"),)))).answers("I am back.")
    async with shared.limited() as session:
        turn = session.turn(Prompt("go on"))
        async for event in turn:
            if isinstance(event, TextStreamed):
                break
        del turn
        after = await ask(session, "still there?")

    assert texts(after) == ["I am back."]


@in_shared_loop
async def test_turns_asked_at_the_same_time_are_taken_one_after_the_other(
    shared: SharedSession,
) -> None:
    shared.model.when("one", Reply((Say("first answer"),), pace=0.02, chunk=2))
    shared.model.when("two", Reply((Say("second answer"),)))
    async with shared.limited() as session:
        first, second = await asyncio.gather(ask(session, "one"), ask(session, "two"))

    assert (texts(first), texts(second)) == (["first answer"], ["second answer"])


async def test_closing_in_the_middle_of_a_turn_is_quick(stage: Scene) -> None:
    stage.model.then(Stall(Reply((Say("for ever"),))))
    loop = asyncio.get_running_loop()
    async with stage.session() as session:
        turn = asyncio.create_task(end_of(session, "go on"))
        await stage.model.seen(1)
        began = loop.time()
    took = loop.time() - began

    assert took < 2
    assert (await turn).cause is EndCause.INTERRUPTED


@in_shared_loop
async def test_a_cancelled_turn_leaves_the_session_in_order(shared: SharedSession) -> None:
    shared.model.when("hang", Hang())
    async with shared.limited() as session:
        turn = asyncio.create_task(end_of(session, "hang"))
        await shared.model.seen(1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert session.id is not None
        assert texts(await ask(session, "still there?")) == ["ok"]
