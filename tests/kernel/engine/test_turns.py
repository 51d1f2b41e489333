"""Turns of the real engine: what happens in them, in order."""

from __future__ import annotations

import asyncio

import pytest
from tests.kernel.engine.scene import ask, end_of, interrupted, spoken, texts, tiny_png
from tests.kernel.engine.shared import SharedSession, in_shared_loop

from ollim_bot.kernel.values.events import EndCause, SessionNamed, TextStreamed, TurnEnded
from ollim_bot.kernel.values.ports import Image, Prompt
from ollim_bot.offline.server import Hang, Reply, Say, Stall


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


@in_shared_loop
async def test_blank_words_are_a_turn_like_any_other(shared: SharedSession) -> None:
    async with shared.limited() as session:
        assert (await end_of(session, "")).cause is EndCause.COMPLETED
        assert (await end_of(session, "  ")).cause is EndCause.COMPLETED


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
