"""An answer takes over its drafts, and answers are shown in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.discord.draft_scene import DraftScene, texts_of

from ollim_bot.domain.chat import Author
from ollim_bot.domain.events import EndCause, TextStreamed
from ollim_bot.domain.ids import MessageId
from ollim_bot.errors import Unreachable
from ollim_bot.surfaces.discord.rendering import undated

LONG = "One sentence of some words, as they come. " * 150


@pytest.fixture
async def scene() -> AsyncIterator[DraftScene]:
    scene = DraftScene()
    yield scene
    await scene.close()


async def test_an_answer_takes_the_place_of_its_drafts(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed(LONG))
    await scene.clock.advance(20)
    drafts = list(scene.channel.bot)
    answer = scene.answer(turn, LONG)
    assert await scene.deliver(answer) == drafts
    await turn.end()
    await scene.settle()
    assert scene.channel.texts == texts_of(answer)
    assert scene.memory.ever == set(drafts)
    assert not scene.memory.refs


async def test_an_answer_stands_below_the_question_from_the_page(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("Blue"))
    await scene.clock.advance(5)
    question = replace(
        scene.answer(None, "which colour?"), id=MessageId("in-1"), author=Author.OWNER
    )
    await scene.deliver(question)
    answer = scene.answer(turn, "Blue.")
    await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert scene.channel.texts == [*texts_of(question), "Blue."]


async def test_an_answer_that_is_longer_than_what_was_drawn_goes_on_below(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    answer = scene.answer(turn, LONG)
    await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert scene.channel.texts == texts_of(answer)
    assert scene.requests() == ["send", "edit", "send", "send", "send"]


async def test_drafts_beyond_the_end_of_the_answer_go_with_its_last_part(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed(LONG))
    await scene.clock.advance(20)
    answer = scene.answer(turn, "short")
    await scene.deliver(answer)
    await scene.clock.advance(1)
    assert scene.channel.texts == ["short"]
    await turn.end()
    await scene.settle()
    assert not scene.memory.refs


async def test_nothing_is_drawn_over_an_answer(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half"))
    await scene.deliver(scene.answer(turn, "whole"))
    await turn.show(TextStreamed(" an answer"))
    await scene.clock.advance(60)
    assert scene.channel.texts == ["whole"]
    await turn.end(EndCause.INTERRUPTED)
    await scene.settle()
    assert scene.channel.texts == ["whole"]


async def test_a_request_under_way_is_waited_for_before_the_answer_takes_over(
    scene: DraftScene,
) -> None:
    scene.channel.may_answer.clear()
    turn = await scene.begin()
    delivered = asyncio.create_task(scene.deliver(scene.answer(turn, "whole")))
    await scene.clock.advance(0)
    assert scene.requests() == ["send"]
    scene.channel.may_answer.set()
    await delivered
    assert scene.channel.texts == ["whole"]
    assert scene.requests() == ["send", "edit"]


async def test_a_request_that_hangs_does_not_hold_the_answer_up_for_long(scene: DraftScene) -> None:
    turn = await scene.begin()
    scene.channel.may_answer.clear()
    await turn.show(TextStreamed("half"))
    await scene.clock.advance(2)
    answer = scene.answer(turn, "whole")
    delivered = asyncio.create_task(scene.deliver(answer))
    await scene.clock.advance(4)
    assert scene.requests() == ["send", "edit"]
    await scene.clock.advance(2)
    assert scene.requests() == ["send", "edit", "send"]
    scene.channel.may_answer.set()
    await delivered
    await scene.settle()
    assert scene.channel.texts == ["whole"]


async def test_a_note_takes_the_place_of_a_status_line(scene: DraftScene) -> None:
    turn = await scene.begin()
    [draft] = scene.channel.bot
    note = scene.note(turn, "I stopped.")
    assert await scene.deliver(note) == [draft]
    await turn.end(EndCause.INTERRUPTED)
    await scene.settle()
    assert scene.channel.texts == texts_of(note)


async def test_a_note_never_takes_the_place_of_words(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half an answer"))
    await scene.clock.advance(5)
    note = scene.note(turn, "The engine stopped.")
    await scene.deliver(note)
    await turn.end(EndCause.FAILED)
    await scene.settle()
    assert scene.channel.texts == ["half an answer\n-# cut off here", *texts_of(note)]


async def test_a_note_after_an_answer_stands_below_it(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half"))
    answer, note = scene.answer(turn, "half"), scene.note(turn, "The engine stopped.")
    await scene.deliver(answer)
    await scene.deliver(note)
    await turn.end(EndCause.FAILED)
    await scene.settle()
    assert scene.channel.texts == [*texts_of(answer), *texts_of(note)]


async def test_an_announced_answer_is_waited_for_after_the_end_of_its_turn(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half"))
    await scene.clock.advance(5)
    [draft] = scene.channel.bot
    answer = scene.answer(turn, "whole")
    scene.post(answer)
    await turn.end()
    await scene.clock.advance(60)
    assert list(scene.channel.bot) == [draft]
    assert await scene.deliver(answer) == [draft]
    assert scene.channel.texts == ["whole"]


async def test_an_answer_that_nobody_announced_is_new_after_the_end_of_its_turn(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half"))
    await scene.clock.advance(5)
    await turn.end(EndCause.INTERRUPTED)
    await scene.clock.advance(60)
    [draft] = scene.channel.bot.values()
    assert draft.outgoing.text == "half\n-# cut off here"
    assert draft.ref not in await scene.deliver(scene.answer(turn, "whole"))
    await scene.settle()
    assert scene.channel.texts == ["whole"]


async def test_an_answer_that_comes_long_after_stands_below_the_question_that_came_meanwhile(
    scene: DraftScene,
) -> None:
    first = await scene.begin()
    await first.show(TextStreamed("half"))
    await scene.clock.advance(5)
    answer = scene.answer(first, "first answer")
    scene.post(answer)
    await first.end()
    scene.channel.is_down = True
    await scene.clock.advance(600)
    asked = scene.channel.say("and?")
    second = await scene.begin()
    await second.show(TextStreamed("second"))
    scene.channel.is_down = False
    await scene.clock.advance(31)
    [ref] = await scene.deliver(answer)
    assert int(ref) > int(asked.ref)
    await scene.clock.advance(10)
    assert undated(scene.channel.texts[0]) == "first answer"
    assert scene.channel.texts[1].startswith("second")
    await scene.deliver(scene.answer(second, "second answer"))
    await second.end()
    await scene.settle()
    assert [undated(text) for text in scene.channel.texts] == ["first answer", "second answer"]


async def test_the_next_turn_does_not_make_an_answer_jump_that_comes_at_once(
    scene: DraftScene,
) -> None:
    first = await scene.begin()
    await first.show(TextStreamed("half"))
    await scene.clock.advance(5)
    [draft] = scene.channel.bot
    answer = scene.answer(first, LONG)
    scene.post(answer)
    await first.end()
    second = await scene.begin()
    refs = await scene.deliver(answer)
    assert refs[0] == draft
    await scene.clock.advance(10)
    *texts, status = scene.channel.texts
    assert texts == texts_of(answer), "the status of the next turn moves below it"
    assert status.startswith("-# Thinking…")
    await scene.deliver(scene.answer(second, "second answer"))
    await scene.settle()
    assert scene.channel.texts == [*texts_of(answer), "second answer"]


async def test_the_status_of_the_next_turn_moves_once_for_all_parts_of_an_answer(
    scene: DraftScene,
) -> None:
    scene.channel.pause = 0.0
    first = await scene.begin()
    answer = scene.answer(first, LONG)
    scene.post(answer)
    await first.end()
    second = await scene.begin()
    await second.show(TextStreamed("second "))
    parts = await scene.deliver(answer)
    await scene.clock.advance(10)
    assert len(parts) > 2
    assert len(scene.requests("send")) == len(parts) + 2, "one took the first status over"
    assert scene.channel.texts[:-1] == texts_of(answer)


async def test_two_answers_after_an_outage_stand_in_the_order_in_which_they_were_given(
    scene: DraftScene,
) -> None:
    answers = []
    for text in ("first answer", "second answer"):
        turn = await scene.begin()
        await turn.show(TextStreamed(text))
        await scene.clock.advance(5)
        answers.append(scene.answer(turn, text))
        scene.post(answers[-1])
        await turn.end()
        await scene.clock.advance(60)
    for answer in answers:
        await scene.deliver(answer)
    await scene.settle()
    assert [undated(text) for text in scene.channel.texts] == ["first answer", "second answer"]


async def test_a_ping_during_a_turn_leaves_words_where_they_are(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("wh"))
    await scene.clock.advance(5)
    [draft] = scene.channel.bot
    await scene.deliver(scene.answer(None, "stand up"))
    await scene.clock.advance(10)
    assert await scene.deliver(scene.answer(turn, "whole")) == [draft]
    assert scene.channel.texts == ["whole", "stand up"]


async def test_a_status_line_moves_below_what_comes_while_no_word_can_be_read(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await scene.deliver(scene.answer(None, "may I?"))
    await turn.show(TextStreamed("wh"))
    await scene.clock.advance(10)
    assert scene.channel.texts == ["may I?", "wh"]
    await scene.deliver(scene.answer(turn, "whole"))
    await scene.settle()
    assert scene.channel.texts == ["may I?", "whole"]


async def test_a_status_line_that_a_card_overtook_costs_a_second_message_only_if_the_turn_lasts(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await scene.deliver(scene.answer(None, "a card"))
    await scene.clock.advance(3)
    assert scene.channel.texts == ["a card"]
    await scene.clock.advance(3)
    assert scene.channel.texts == ["a card", "-# Thinking… (5s)"]
    [_, draft] = scene.channel.bot
    assert await scene.deliver(scene.answer(turn, "whole")) == [draft]


async def test_answers_stand_in_order_though_the_first_draft_came_after_the_second(
    scene: DraftScene,
) -> None:
    """For example because sending the first draft took several tries."""
    scene.channel.pause = 0.0
    scene.channel.fail("send", Unreachable("not yet"))
    first = await scene.begin()
    second = await scene.begin()
    await scene.clock.advance(5)
    above, below = list(scene.channel.bot)
    one, two = scene.answer(first, "one"), scene.answer(second, "two")
    assert await scene.deliver(one) == [below]
    await first.end()
    await scene.deliver(two)
    await second.end()
    await scene.settle()
    assert scene.channel.texts == ["one", "two"]
    assert above not in scene.channel.bot
