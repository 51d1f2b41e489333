"""Messages arrive on Discord whole and once, whatever becomes of the requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.channel import ChannelContract
from tests.discord.draft_scene import NOON, DraftScene, outgoing_messages, part_of, texts_of

from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.events import TextStreamed
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable
from ollim_bot.ports import Channel
from ollim_bot.store.deliveries import DeliveryState
from ollim_bot.surfaces.discord.rendering import HistoryHidden

LONG = "One sentence of some words, as they come. " * 150


class TestContract(ChannelContract):
    def make(self) -> Channel:
        return DraftScene().surface


@pytest.fixture
async def scene() -> AsyncIterator[DraftScene]:
    scene = DraftScene()
    yield scene
    await scene.close()


async def test_a_draft_that_is_gone_is_replaced_by_a_new_message(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half an answer"))
    await scene.clock.advance(20)
    [draft] = scene.channel.bot
    del scene.channel.bot[draft]
    answer = scene.answer(turn, "whole")
    refs = await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert draft not in refs
    assert (list(scene.channel.bot), scene.channel.texts) == (refs, ["whole"])
    assert not scene.memory.refs


@pytest.mark.parametrize("error", [Unreachable("no"), DeliveryUncertain("lost")])
async def test_the_edit_of_a_draft_is_repeated_until_it_is_confirmed(
    scene: DraftScene, error: OllimError
) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed(LONG))
    await scene.clock.advance(20)
    drafts = list(scene.channel.bot)
    answer = scene.answer(turn, "Another beginning. " + LONG)
    scene.channel.fail("edit", None, error, error)
    refs = await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert refs[: len(drafts)] == drafts
    assert (list(scene.channel.bot), scene.channel.texts) == (refs, texts_of(answer))
    assert not scene.memory.refs


async def test_a_take_over_that_a_crash_has_cut_off_is_finished_in_the_next_run(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("half an answer"))
    await scene.clock.advance(5)
    [draft] = scene.channel.bot
    scene.channel.fail("edit", *[Unreachable("no")] * 3)
    answer = scene.answer(turn, "whole")
    scene.post(answer)
    scene.start()
    await scene.clock.advance(1)
    assert scene.delivery(answer.id).refs == (draft,)
    assert scene.channel.texts != ["whole"]
    await scene.restart()
    await scene.settle()
    assert (list(scene.channel.bot), scene.channel.texts) == ([draft], ["whole"])


async def test_an_edit_in_doubt_is_not_taken_for_what_stood_there_before(scene: DraftScene) -> None:
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


async def test_files_are_in_a_message_of_their_own_since_an_edit_brings_none(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    file = Attachment("a.txt", "attachments/a.txt", "text/plain", 3)
    answer = replace(scene.answer(turn, "here"), attachments=(file,))
    await scene.deliver(answer)
    await turn.end()
    await scene.settle()
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(answer)


async def test_a_message_that_is_refused_for_good_leaves_no_running_turn(scene: DraftScene) -> None:
    turn = await scene.begin()
    scene.channel.fail("edit", DeliveryFailed("no"))
    scene.channel.fail("send", DeliveryFailed("no"))
    answer = scene.answer(turn, "whole")
    scene.post(answer)
    await scene.settle()
    assert scene.delivery(answer.id).state is DeliveryState.REFUSED
    await turn.end()
    await scene.settle()
    assert scene.channel.texts == []


async def test_what_has_arrived_stays_when_the_rest_is_refused(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("A draft. " + LONG))
    await scene.clock.advance(3)
    answer = scene.answer(turn, LONG)
    scene.channel.fail("send", DeliveryFailed("no"))
    scene.post(answer)
    await turn.end()
    await scene.settle()
    assert scene.channel.texts[0] == texts_of(answer)[0]
    assert not scene.memory.refs


async def test_the_draft_of_another_turn_that_says_the_same_is_not_the_message(
    scene: DraftScene,
) -> None:
    first = await scene.begin()
    answer = scene.answer(first, "yes")
    await first.end()
    second = await scene.begin()
    await second.show(TextStreamed("yes"))
    await scene.clock.advance(5)
    scene.channel.bot[list(scene.channel.bot)[-1]].versions.append(outgoing_messages(answer)[0])
    assert await scene.surface.find(part_of(answer), NOON, ()) is None


async def test_what_came_long_ago_is_looked_for_where_it_may_be(scene: DraftScene) -> None:
    for _ in range(120):
        scene.channel.say("words")
    part = part_of(scene.answer(None, "stand up"))
    await scene.surface.find(part, NOON, ())
    await scene.surface.find(part, NOON - timedelta(hours=1), ())
    at = int((NOON - timedelta(hours=1)).timestamp() * 1000) - 1_420_070_400_000
    assert ("after", str(at << 22)) in scene.channel.calls


async def test_a_history_that_is_not_shown_leaves_it_unsure(scene: DraftScene) -> None:
    part = part_of(scene.answer(None, "stand up"))
    scene.channel.fail("newest", HistoryHidden("Discord refused it."), Unreachable("no"))
    with pytest.raises(DeliveryUncertain):
        await scene.surface.find(part, NOON, ())
    with pytest.raises(Unreachable):
        await scene.surface.find(part, NOON, ())
