"""Messages arrive on Discord whole and once, and are edited when they have changed since."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, timedelta

import pytest
from devtools.doubles.channel import ChannelContract
from devtools.localdiscord.faults import AnswerLost
from devtools.localdiscord.server import LocalDiscord
from tests.surfaces.discord.connection_scene import ConnectionScene, connection_scene
from tests.surfaces.discord.draft_scene import (
    NOON,
    DraftScene,
    FakeDraftMemory,
    FakeSurface,
    outgoing_messages,
    part_of,
    texts_of,
)
from tests.virtual_loop import LoopClock

from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.events import TextStreamed
from ollim_bot.kernel.values.ports import Channel
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.drafts import Drafts
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
    turn = await scene.begin(TextStreamed("half an answer"), seconds=20)
    [draft] = scene.channel.bot
    del scene.channel.bot[draft]
    answer = scene.answer(turn, "whole")
    refs = await scene.deliver(answer)
    await scene.finish(turn)
    assert draft not in refs
    assert (list(scene.channel.bot), scene.channel.texts) == (refs, ["whole"])
    assert not scene.memory.refs


@pytest.mark.parametrize("error", [Unreachable("no"), DeliveryUncertain("lost")])
async def test_the_edit_of_a_draft_is_repeated_until_it_is_confirmed(
    scene: DraftScene, error: OllimError
) -> None:
    turn = await scene.begin(TextStreamed(LONG), seconds=20)
    drafts = list(scene.channel.bot)
    answer = scene.answer(turn, "Another beginning. " + LONG)
    scene.channel.fail("edit", None, error, error)
    refs = await scene.deliver(answer)
    await scene.finish(turn)
    assert refs[: len(drafts)] == drafts
    assert (list(scene.channel.bot), scene.channel.texts) == (refs, texts_of(answer))
    assert not scene.memory.refs


async def test_a_take_over_that_a_crash_has_cut_off_is_finished_in_the_next_run(
    scene: DraftScene,
) -> None:
    turn = await scene.begin(TextStreamed("half an answer"), seconds=5)
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
    turn = await scene.begin(TextStreamed("yes"), seconds=2)
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
    await scene.finish(turn)
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(answer)


async def test_a_message_that_is_refused_for_good_leaves_no_running_turn(scene: DraftScene) -> None:
    turn = await scene.begin()
    scene.channel.fail("edit", DeliveryFailed("no"))
    scene.channel.fail("send", DeliveryFailed("no"))
    answer = scene.answer(turn, "whole")
    scene.post(answer)
    await scene.settle()
    assert scene.delivery(answer.id).state is DeliveryState.REFUSED
    await scene.finish(turn)
    assert scene.channel.texts == []


async def test_what_has_arrived_stays_when_the_rest_is_refused(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("A draft. " + LONG), seconds=3)
    answer = scene.answer(turn, LONG)
    scene.channel.fail("send", DeliveryFailed("no"))
    scene.post(answer)
    await scene.finish(turn)
    assert scene.channel.texts[0] == texts_of(answer)[0]
    assert not scene.memory.refs


async def test_the_draft_of_another_turn_that_says_the_same_is_not_the_message(
    scene: DraftScene,
) -> None:
    first = await scene.begin()
    answer = scene.answer(first, "yes")
    await first.end()
    await scene.begin(TextStreamed("yes"), seconds=5)
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


PING = ChatMessage(MessageId("7"), NOON, Author.BACKGROUND, "Call the dentist.", job="dentist")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "-# ⏰ dentist\nCall the dentist."),
        (59, "-# ⏰ dentist\nCall the dentist."),
        (60, "-# late · written today 12:00\n-# ⏰ dentist\nCall the dentist."),
        (86400, "-# late · written yesterday 12:00\n-# ⏰ dentist\nCall the dentist."),
    ],
)
async def test_over_a_minute_late_is_said_in_the_first_line(
    scene: DraftScene, seconds: int, text: str
) -> None:
    await scene.clock.advance(seconds)
    await scene.deliver(PING)
    assert scene.channel.texts == [text]


async def test_a_card_says_it_at_its_foot(scene: DraftScene) -> None:
    await scene.clock.advance(3600)
    await scene.deliver(replace(PING, card=Card("Dentist"), job=""))
    [posted] = scene.channel.bot.values()
    assert posted.outgoing.card_footer == "late · written today 12:00"


async def test_only_the_first_part_says_it_and_a_full_one_keeps_its_words(
    scene: DraftScene,
) -> None:
    await scene.clock.advance(3600)
    long = replace(PING, text="word " * 700)
    await scene.deliver(long)
    parts = scene.surface.parts(long)
    assert len(parts) == 2
    assert all(len(text) <= 2000 for text in scene.channel.texts)
    assert scene.channel.texts[1] == parts[1].text


async def test_a_late_message_whose_answer_was_lost_is_found_by_its_words(
    scene: DraftScene,
) -> None:
    await scene.clock.advance(3600)
    part = part_of(PING)
    scene.channel.lost_answers["send"] = 1
    with pytest.raises(DeliveryUncertain):
        await scene.surface.deliver(part)
    [posted] = scene.channel.bot.values()
    assert posted.outgoing.text.startswith("-# late")
    posted.nonce = ""
    since = NOON - timedelta(hours=1)
    assert await scene.surface.find(part, since, ()) == posted.ref


CARD = Card("Done?", buttons=(Button("Yes", "agent", "1"), Button("No", "dismiss")))


def with_used_buttons(message: ChatMessage) -> ChatMessage:
    used = tuple(each._replace(is_used=True) for each in CARD.buttons)
    return replace(message, card=CARD._replace(buttons=used))


async def test_a_message_that_was_changed_is_edited_once(scene: DraftScene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    await scene.deliver(question)
    scene.post(question)
    await scene.settle()
    assert scene.requests() == ["send"], "it stands there already"
    changed = with_used_buttons(question)
    scene.post(changed)
    scene.post(changed)
    await scene.settle()
    scene.post(changed)
    await scene.settle()
    assert scene.requests() == ["send", "edit"]
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(changed)


@pytest.mark.parametrize("text", ["", LONG], ids=["a card", "several parts"])
async def test_a_change_counts_though_the_log_does_not_say_yet_where_it_stands(
    scene: DraftScene, text: str
) -> None:
    """The message has arrived, but the row with its id is not written yet."""
    question = replace(scene.answer(None, text), card=CARD)
    changed = with_used_buttons(question)
    last = texts_of(question)[-1] if text else ""
    scene.post(question)
    scene.start()
    while not scene.channel.bot or scene.channel.texts[-1] != last:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert scene.delivery(question.id).state is DeliveryState.OPEN
    scene.post(changed)
    await scene.settle()
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(changed)


async def test_a_change_that_a_crash_has_cut_off_is_made_in_the_next_run(scene: DraftScene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    await scene.deliver(question)
    scene.channel.is_down = True
    scene.post(with_used_buttons(question))
    await scene.settle()
    scene.channel.is_down = False
    await scene.restart()
    await scene.settle()
    assert [each.outgoing for each in scene.channel.bot.values()] == outgoing_messages(
        with_used_buttons(question)
    )
    edits = len(scene.requests("edit"))
    await scene.settle()
    assert len(scene.requests("edit")) == edits


async def test_the_newest_change_wins(scene: DraftScene) -> None:
    message = scene.answer(None, "one")
    await scene.deliver(message)
    scene.channel.fail("edit", Unreachable("no"), DeliveryUncertain("lost"), Unreachable("no"))
    for text in ("two", "three", "four"):
        scene.post(replace(message, text=text))
        await scene.clock.advance(0.5)
    await scene.settle()
    assert scene.channel.texts == ["four"]
    scene.channel.may_answer.clear()
    scene.post(replace(message, text="five"))
    await scene.clock.advance(1)
    scene.post(message)
    scene.post(replace(message, text="four"))
    scene.channel.may_answer.set()
    await scene.settle()
    assert scene.channel.texts == ["four"]


async def test_a_change_of_a_message_that_is_gone_is_dropped(scene: DraftScene) -> None:
    message = scene.answer(None, "one")
    refs = await scene.deliver(message)
    del scene.channel.bot[refs[0]]
    scene.post(replace(message, text="two"))
    await scene.settle()
    assert scene.requests() == ["send", "edit"]


async def test_what_changes_on_its_way_is_changed_when_it_has_arrived(scene: DraftScene) -> None:
    question = replace(scene.answer(None, ""), card=CARD)
    scene.channel.may_answer.clear()
    scene.post(question)
    scene.start()
    await scene.clock.advance(1)
    assert scene.requests() == ["send"]
    scene.post(with_used_buttons(question))
    await scene.clock.advance(10)
    scene.channel.may_answer.set()
    await scene.settle()
    [posted] = scene.channel.bot.values()
    assert posted.outgoing == outgoing_messages(with_used_buttons(question))[0]


@pytest.mark.parametrize("text", [LONG + LONG, "short"])
async def test_a_change_with_another_number_of_parts_shows_what_it_can(
    scene: DraftScene, text: str
) -> None:
    message = scene.answer(None, LONG)
    refs = await scene.deliver(message)
    before = scene.channel.texts
    changed = replace(message, text=text)
    scene.post(changed)
    await scene.settle()
    now = texts_of(changed)[: len(refs)]
    assert scene.channel.texts == [*now, *before[len(now) :]]


SEND = "POST /channels/*/messages"


class TestOnTheWire(ChannelContract):
    scene: ConnectionScene
    clock: LoopClock

    @pytest.fixture(autouse=True)
    async def connected(self) -> AsyncIterator[None]:
        async with connection_scene(LocalDiscord()) as scene, scene.served():
            self.scene, self.clock = scene, LoopClock(UTC)
            yield

    def make(self) -> Channel:
        """A surface that was just started and remembers nothing of an earlier run."""
        background = BackgroundTasks(self.clock)
        drafts = Drafts(self.scene.dm, self.clock, background, FakeDraftMemory())
        return FakeSurface(self.scene.dm, drafts, self.clock)

    async def test_what_arrived_without_an_answer_is_found_by_the_next_run(self) -> None:
        before, after = self.make(), self.make()
        part = self.part(before)
        self.scene.local.next_fail(SEND, AnswerLost(), times=None)
        with pytest.raises(DeliveryUncertain):
            await before.deliver(part)
        self.scene.local.mend()
        [there] = self.scene.local.said
        assert await after.find(part, self.message.at, ()) == there.id
        assert await after.deliver(part) == there.id
        assert self.scene.local.said == [there]

    @pytest.mark.parametrize("shows_nonces", [True, False])
    async def test_a_message_whose_nonce_is_forgotten_is_found_by_its_words(
        self, shows_nonces: bool
    ) -> None:
        self.scene.local.history_has_nonces = shows_nonces
        before, after = self.make(), self.make()
        part = self.part(before)
        ref = await before.deliver(part)
        self.scene.local.say(part.content.text)
        self.scene.local.forget_nonces()
        assert await after.find(part, self.message.at, ()) == ref
        assert await after.find(self.part(after, "1" * 24), self.message.at, {ref}) is None
