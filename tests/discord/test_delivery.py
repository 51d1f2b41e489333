"""Messages arrive on Discord whole and once, whatever becomes of the requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.discord.draft_scene import NOON, Scene, letters_of, nonce_of, texts_of

from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.events import TextStreamed
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable
from ollim_bot.ports import ConfirmedChannel
from ollim_bot.surfaces.discord.messages import HistoryHidden
from ollim_bot.testing.chat_service import CourierContract

LONG = "One sentence of some words, as they come. " * 150


class TestContract(CourierContract):
    def make(self) -> ConfirmedChannel:
        return Scene().courier


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


@pytest.mark.parametrize(
    "error", [DeliveryFailed("gone"), Unreachable("no"), DeliveryUncertain("lost")]
)
async def test_a_draft_that_cannot_be_edited_is_replaced_by_a_new_message(
    scene: Scene, error: OllimError
) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed(LONG))
    await scene.clock.advance(20)
    first, *_ = scene.channel.bot
    answer = scene.answer(turn, "Another beginning. " + LONG)
    scene.channel.fail("edit", None, error)
    refs = await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert refs[0] == first
    assert list(scene.channel.bot) == refs
    assert scene.channel.texts == texts_of(answer)
    assert not scene.memory.refs


async def test_the_words_of_a_draft_do_not_go_before_the_answer_is_there(scene: Scene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half an answer"))
    await scene.clock.advance(5)
    scene.channel.fail("edit", DeliveryFailed("no"))
    scene.channel.fail("send", *[Unreachable("no")] * 3)
    answer = scene.answer(turn, "whole")
    [part] = scene.courier.parts(answer)
    for _ in range(3):
        with pytest.raises(Unreachable):
            await scene.courier.deliver(part, nonce_of(answer, 0))
        await scene.clock.advance(20)
        assert len(scene.channel.bot) == 1
    await scene.courier.deliver(part, nonce_of(answer, 0))
    await scene.settle()
    assert scene.channel.texts == ["whole"]


async def test_an_edit_that_was_broken_off_is_not_trusted(scene: Scene) -> None:
    turn = await scene.begin()
    scene.channel.may_answer.clear()
    answer = scene.answer(turn, "whole")
    [part] = scene.courier.parts(answer)
    delivered = asyncio.create_task(scene.courier.deliver(part, nonce_of(answer, 0)))
    await scene.clock.advance(1)
    delivered.cancel()
    await asyncio.gather(delivered, return_exceptions=True)
    scene.channel.may_answer.set()
    ref = await scene.courier.deliver(part, nonce_of(answer, 0))
    await turn.end()
    await scene.settle()
    assert list(scene.channel.bot) == [ref]
    assert scene.channel.texts == ["whole"]


async def test_an_edit_that_hangs_leaves_time_to_send_it_anew(scene: Scene) -> None:
    turn = await scene.begin()
    [draft] = scene.channel.bot.values()
    scene.channel.may_answer.clear()
    answer = scene.answer(turn, "whole")
    [part] = scene.courier.parts(answer)
    delivered = asyncio.create_task(scene.courier.deliver(part, nonce_of(answer, 0)))
    await scene.clock.advance(21)
    assert scene.requests() == ["send", "edit", "send"]
    scene.channel.may_answer.set()
    async with asyncio.timeout(5):
        await delivered
    await scene.settle()
    assert len(draft.versions) == 1, "it comes to nothing when it is given up"
    assert scene.channel.texts == ["whole"]


async def test_the_same_part_has_the_same_id_however_often_it_is_delivered(scene: Scene) -> None:
    turn = await scene.begin()
    answer = scene.answer(turn, "whole")
    [part] = scene.courier.parts(answer)
    refs = {await scene.courier.deliver(part, nonce_of(answer, 0)) for _ in range(3)}
    assert len(refs) == 1
    assert refs == set(scene.channel.bot)
    assert await scene.courier.find(part, nonce_of(answer, 0), NOON, ()) in refs


async def test_an_edit_in_doubt_is_not_taken_for_what_stood_there_before(scene: Scene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("yes"))
    await scene.clock.advance(2)
    assert scene.channel.texts == ["yes"]
    scene.channel.lost_answers["edit"] = 1
    await turn.show(TextStreamed(", or no"))
    await scene.clock.advance(1.3)
    assert scene.channel.texts == ["yes, or no"]
    await scene.deliver(scene.answer(turn, "yes"))
    assert scene.channel.texts == ["yes"]


async def test_files_are_in_a_message_of_their_own_since_an_edit_brings_none(scene: Scene) -> None:
    turn = await scene.begin()
    file = Attachment("a.txt", "attachments/a.txt", "text/plain", 3)
    answer = replace(scene.answer(turn, "here"), attachments=(file,))
    await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert [each.outgoing for each in scene.channel.bot.values()] == letters_of(answer)


async def test_a_message_that_is_refused_for_good_leaves_no_running_turn(scene: Scene) -> None:
    turn = await scene.begin()
    scene.channel.fail("edit", DeliveryFailed("no"))
    scene.channel.fail("send", DeliveryFailed("no"))
    with pytest.raises(DeliveryFailed):
        await scene.deliver(scene.answer(turn, "whole"))
    await turn.end()
    await scene.settle()
    assert scene.channel.texts == []


async def test_what_has_arrived_stays_when_the_rest_is_refused(scene: Scene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("A draft. " + LONG))
    await scene.clock.advance(3)
    answer = scene.answer(turn, LONG)
    scene.channel.fail("send", DeliveryFailed("no"))
    with pytest.raises(DeliveryFailed):
        await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert scene.channel.texts[0] == texts_of(answer)[0]
    assert not scene.memory.refs


async def test_a_message_that_is_given_up_leaves_no_running_turn(scene: Scene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half an answer"))
    await scene.clock.advance(3)
    scene.channel.fail("edit", DeliveryFailed("no"))
    scene.channel.fail("send", DeliveryUncertain("lost"))
    answer = scene.answer(turn, "whole")
    [part] = scene.courier.parts(answer)
    with pytest.raises(DeliveryUncertain):
        await scene.courier.deliver(part, nonce_of(answer, 0))
    await turn.end()
    await scene.deliver(scene.answer(None, "stand up"))
    await scene.settle()
    assert scene.channel.texts == ["half an answer\n-# cut off here", "stand up"]
    assert not scene.memory.refs


async def test_a_part_in_a_draft_is_found_by_its_words(scene: Scene) -> None:
    """After a crash, where nobody knows that it had become the message."""
    turn = await scene.begin()
    answer = scene.answer(turn, "whole")
    refs = await scene.deliver(answer)
    next_life = Scene()
    next_life.channel = scene.channel
    courier = type(scene.courier)(
        scene.channel, next_life.drafts, next_life.background, next_life.clock
    )
    [part] = courier.parts(answer)
    assert await courier.find(part, nonce_of(answer, 0), NOON, ()) == refs[0]
    assert await courier.find(part, "2" * 24, NOON, set(refs)) is None


async def test_the_draft_of_another_turn_that_says_the_same_is_not_the_message(
    scene: Scene,
) -> None:
    first = await scene.begin()
    answer = scene.answer(first, "yes")
    [part] = scene.courier.parts(answer)
    await first.end()
    second = await scene.begin()
    await second.show(TextStreamed("yes"))
    await scene.clock.advance(5)
    scene.channel.bot[list(scene.channel.bot)[-1]].versions.append(letters_of(answer)[0])
    assert await scene.courier.find(part, nonce_of(answer, 0), NOON, ()) is None


async def test_what_came_long_ago_is_looked_for_where_it_may_be(scene: Scene) -> None:
    for _ in range(120):
        scene.channel.say("words")
    [part] = scene.courier.parts(scene.answer(None, "stand up"))
    await scene.courier.find(part, "0" * 24, NOON, ())
    await scene.courier.find(part, "0" * 24, NOON - timedelta(hours=1), ())
    at = int((NOON - timedelta(hours=1)).timestamp() * 1000) - 1_420_070_400_000
    assert ("after", str(at << 22)) in scene.channel.calls


async def test_a_history_that_is_not_shown_leaves_it_unsure(scene: Scene) -> None:
    [part] = scene.courier.parts(scene.answer(None, "stand up"))
    scene.channel.fail("newest", HistoryHidden("Discord refused it."), Unreachable("no"))
    with pytest.raises(DeliveryUncertain):
        await scene.courier.find(part, "0" * 24, NOON, ())
    with pytest.raises(Unreachable):
        await scene.courier.find(part, "0" * 24, NOON, ())
