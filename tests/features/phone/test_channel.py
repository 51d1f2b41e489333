"""What rings on the phone comes once, whatever happens to the bot, the server and the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from devtools.doubles.channel import ChannelContract
from devtools.localdiscord.faults import AnswerLost, Dropped
from devtools.localntfy.protocol import Refusal
from devtools.localntfy.server import LocalNtfy
from tests.features.phone.scene import REPLY, TOPIC, PhoneScene, secret_account

from ollim_bot.features.phone.ntfy_channel import NtfyChannel
from ollim_bot.kernel.base.errors import DeliveryUncertain
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.ports import Channel
from ollim_bot.kernel.values.push import Pairing
from ollim_bot.kernel.values.surface_state import day_of

SEND = "POST /"


async def test_what_may_have_arrived_is_looked_up_by_the_bot_that_comes_after_a_kill(
    scene: PhoneScene,
) -> None:
    async with scene.bot():
        first = scene.ask("water")
        await scene.confirmed(first)
        scene.ntfy.next_fail(SEND, AnswerLost())
        arrived = scene.ask("tea")
        await scene.until(lambda: len(scene.published) == 2)
    scene.ntfy.next_fail(SEND, Dropped())
    async with scene.bot():
        await scene.confirmed(arrived)
        lost = scene.ask("milk")
        await scene.until(lambda: scene.ntfy.requests[-1].status == 0)
    async with scene.bot():
        await scene.confirmed(first, arrived, lost)
    assert scene.published == ["water", "tea", "milk"]
    assert scene.push.sent >= 3


async def test_without_a_witness_in_the_topic_only_an_unbroken_stream_tells_that_it_is_not_there(
    scene: PhoneScene,
) -> None:
    async with scene.bot():
        await scene.ntfy.followed(REPLY)
        faults: tuple[Dropped | AnswerLost, ...] = (Dropped(), AnswerLost())
        for number, fault in enumerate(faults):
            scene.ntfy.topics.forget()
            scene.ntfy.next_fail(SEND, fault)
            asked = scene.ask(f"water {number}")
            await scene.confirmed(asked)
        scene.ntfy.next_fail(SEND, AnswerLost())
        forgotten = scene.ask("tea")
        await scene.until(lambda: len(scene.published) == 3)
        await scene.ntfy.restart()
        after = scene.ask("milk")
        begun = scene.clock.now()
        await scene.confirmed(after)
        # What can never be found out keeps nothing waiting.
        assert scene.clock.now() - begun < timedelta(seconds=30)
    assert scene.state_of(forgotten) is DeliveryState.UNKNOWN
    assert scene.published == ["water 0", "water 1", "tea", "milk"]


async def test_after_an_hour_without_the_server_all_comes_once_and_what_must_first(
    scene: PhoneScene,
) -> None:
    async with scene.bot():
        await scene.ntfy.go_away(3600)
        written = scene.clock.now()
        asked = [scene.ask(words, must=words == "pill") for words in ("water", "pill", "tea")]
        await asyncio.sleep(3500)
        assert scene.published == []
        assert scene.service.status.trouble.startswith("Your phone gets nothing now:")
        await scene.confirmed(*asked)
        await scene.until(lambda: not scene.service.status.trouble)
    async with scene.phone() as phone:
        await phone.until(lambda: len(phone.shown) == 3)
    # `today`, or another day if the hour goes over midnight.
    day = describe(written, scene.clock.now()).rpartition(" ")[0]
    assert all(each.text.startswith(f"late · written {day} ") for each in phone.shown)
    assert [each.priority for each in phone.shown] == [4, 3, 3]
    assert (scene.published, scene.push.sent) == (["pill", "water", "tea"], 3)


async def test_a_press_answers_its_card_once_on_one_of_two_phones(scene: PhoneScene) -> None:
    async with scene.bot(), scene.phone() as android, scene.phone(is_iphone=True) as iphone:
        asked = scene.ask("water", must=True)
        await android.shows("water")
        await iphone.shows("water")
        assert android.shown[0].labels == ["Done", "10 min", "1 h"]
        assert android.shown[0].title == "water"
        bodies = [each["body"] for each in android.shown[0].actions]
        assert len({*bodies}) == 3
        assert not any(asked in each or "done" in each for each in bodies)
        kept = android.shown[0]
        assert await iphone.press(iphone.shown[0], "10 min") == 200
        await scene.until(lambda: scene.service.presses)
        await android.shows()
        for _ in range(2):
            assert await android.press(kept, "Done") == 200
        assert await android.press(kept, "10 min") == 200
        await scene.until(lambda: scene.push.wrong == 3)
    assert scene.service.presses == [("water", "snooze")]
    assert scene.push.last_press is not None


async def test_a_card_answered_elsewhere_is_cleared_and_its_buttons_do_nothing(
    scene: PhoneScene,
) -> None:
    async with scene.bot(), scene.phone() as android, scene.phone(is_iphone=True) as iphone:
        asked = scene.ask("water")
        await android.shows("water")
        await iphone.shows("water")
        scene.settle(asked)
        await android.shows()
        scene.settle(asked)
        assert await iphone.press(iphone.shown[0], "Done") == 200
        await scene.until(lambda: scene.push.wrong == 1)
        assert len([each for each in scene.ntfy.requests if each.path.endswith("/clear")]) == 1
    assert scene.service.presses == []


async def test_a_press_while_the_bot_is_away_counts_when_it_is_back(scene: PhoneScene) -> None:
    async with scene.phone() as phone:
        async with scene.bot():
            scene.ask("water")
            await phone.shows("water")
        await phone.press(phone.shown[0], "Done")
        async with scene.bot():
            await scene.until(lambda: scene.service.presses == [("water", "done")])
        async with scene.bot():
            await scene.ntfy.followed(REPLY)
            await asyncio.sleep(60)
    assert len(scene.service.presses) == 1
    assert scene.push.wrong == 0


async def test_a_card_that_is_open_again_comes_back_without_a_sound_and_with_new_nonces(
    scene: PhoneScene,
) -> None:
    async with scene.bot(), scene.phone() as phone:
        asked = scene.ask("water")
        await phone.shows("water")
        before = phone.shown[0]
        card = scene.store.query(lambda tx: tx.messages.get(asked))
        assert card is not None
        await phone.press(before, "Done")
        await scene.until(lambda: scene.service.presses)
        await scene.until(lambda: scene.ntfy.published(TOPIC)[-1].event == "message_clear")
        scene.store.run(lambda tx: tx.messages.add(card))
        await phone.shows("water")
        again = phone.shown[0]
        assert again.priority == 2
        assert again.action("Done")["body"] != before.action("Done")["body"]
        await phone.press(before, "Done")
        await scene.until(lambda: scene.push.wrong == 1)
        await phone.press(again, "Done")
        await scene.until(lambda: len(scene.service.presses) == 2)


async def test_what_strangers_write_is_no_command_and_no_word_of_the_owner(
    scene: PhoneScene,
) -> None:
    words = ("done", "/config push_what all", "A" * 16, "act:done:x", '{"id":"x"}', "", "é")
    # The longest that an ntfy server takes, each character of which it writes as six.
    lines = (*words, "\x01" * 4096)
    async with scene.bot(), scene.phone() as phone:
        scene.ask("water")
        await phone.shows("water")
        for line in lines:
            scene.ntfy.write(REPLY, line)
            scene.ntfy.write(TOPIC, line, sequence_id="x")
        await scene.until(lambda: scene.push.wrong == len(lines))
    log = scene.store.query(lambda tx: tx.messages.page(9))
    assert [each.message.author for each in log] == [Author.BACKGROUND]
    assert scene.service.presses == []
    assert scene.push.dropped == 0, "no flood"


async def test_a_flood_is_dropped_counted_and_told_once(scene: PhoneScene) -> None:
    async with scene.bot(), scene.phone() as phone:
        scene.ask("water")
        await phone.shows("water")
        scene.ntfy.write(REPLY, "x" * 70_000)
        for number in range(100):
            scene.ntfy.write(REPLY, f"flood {number}")
        await scene.until(lambda: scene.push.wrong == 60)
        await asyncio.sleep(61)
        for _ in range(100):
            scene.ntfy.write(REPLY, "flood")
        await asyncio.sleep(61)
        await phone.press(phone.shown[0], "Done")
        await scene.until(lambda: scene.service.presses)
    assert (scene.push.wrong, scene.push.dropped) == (120, 81)
    told = scene.store.query(lambda tx: tx.notices.get()).untold
    assert ["push setup --new" in each.text for each in told] == [True]


async def test_the_token_of_the_bot_is_in_no_message_and_buttons_have_that_of_the_replies(
    scene: PhoneScene,
) -> None:
    access = scene.ntfy.access
    access.close_to_strangers()
    token, reply = access.new_token(), access.new_limited_token({REPLY: "write"})
    scene.account = secret_account(scene.ntfy.url, token, reply)
    async with scene.bot(), scene.phone(token=token) as phone:
        scene.ask("water")
        await phone.shows("water")
        assert await phone.press(phone.shown[0], "Done") == 200
        await scene.until(lambda: scene.service.presses == [("water", "done")])
    assert {each.token for each in scene.ntfy.named(SEND)} == {token}
    assert not any(token.encode() in each.body for each in scene.ntfy.requests)
    scene.account = replace(scene.account, url="https://other.example")
    async with scene.bot():
        before = len(scene.ntfy.requests)
        scene.ask("tea")
        await scene.until(lambda: len(scene.ntfy.requests) > before + 3)
        assert {each.token for each in scene.ntfy.requests[before:]} == {""}
        assert scene.published == ["water"]


async def test_a_server_that_lost_its_sequences_doubles_nothing(tmp_path: Path) -> None:
    async with LocalNtfy(version=(2, 15)) as ntfy:
        scene = PhoneScene(tmp_path, ntfy)
        scene.pair()
        async with scene.bot():
            first = scene.ask("water")
            await scene.confirmed(first)
            ntfy.next_fail(SEND, AnswerLost())
            unknown = scene.ask("tea")
            await scene.until(lambda: len(scene.published) == 2)
        async with scene.bot():
            await scene.until(lambda: scene.state_of(unknown) is DeliveryState.UNKNOWN)
            scene.settle(first)
            later = scene.ask("milk")
            await scene.confirmed(later)
    assert scene.published == ["water", "tea", "milk"]


async def test_after_a_refusal_nothing_is_sent_before_its_time(scene: PhoneScene) -> None:
    def waited(seconds: float) -> float:
        return (scene.push.quiet_until - scene.clock.now()).total_seconds() - seconds  # type: ignore[operator]

    async with scene.bot():
        await scene.ntfy.followed(REPLY)
        for refusal, seconds in ((Refusal(429, 42901, 300.0), 300), (Refusal(429, 42901), 10)):
            scene.ntfy.next_fail(SEND, refusal)
            asked = scene.ask(f"{seconds}", must=True)
            await scene.until(lambda: scene.push.quiet_until is not None and waited(0) > 0)
            assert abs(waited(seconds)) < 2
            count = len(scene.ntfy.requests)
            await asyncio.sleep(waited(0) - 1)
            assert len(scene.ntfy.requests) == count
            await scene.confirmed(asked)
        scene.ntfy.next_fail(SEND, Refusal(429, 42908))
        asked = scene.ask("tomorrow", must=True)
        await scene.until(lambda: waited(0) > 60)
        midnight = scene.push.quiet_until
        assert midnight is not None
        assert (midnight.hour, midnight.minute) == (0, 0)
    near = scene.clock.now() + timedelta(minutes=10)
    scene.store.run(lambda tx: tx.push.put(replace(tx.push.get(), quiet_until=near)))
    async with scene.bot():
        count = len(scene.ntfy.requests)
        await asyncio.sleep(waited(0) - 1)
        assert (len(scene.ntfy.requests), scene.ntfy.topics.followers) == (count, [])
        await scene.confirmed(asked)
    assert scene.published == ["300", "10", "tomorrow"]


async def test_the_last_of_a_day_are_for_what_must_come(scene: PhoneScene) -> None:
    day = day_of(scene.clock.now())
    scene.store.run(lambda tx: tx.push.put(replace(tx.push.get(), day=day, sent=199)))
    async with scene.bot():
        last = scene.ask("the last")
        await scene.confirmed(last)
        cleared, must = scene.ask("too many"), scene.ask("pill", must=True)
        await scene.confirmed(must)
        await scene.until(partial(scene.is_over, cleared))
        assert scene.state_of(cleared) is DeliveryState.CLOSED
        scene.settle(must)
        scene.store.run(lambda tx: tx.push.change(lambda state: replace(state, sent=250)))
        waiting = scene.ask("dose", must=True)
        await asyncio.sleep(120)
        assert scene.state_of(waiting) is DeliveryState.OPEN
        scene.store.run(lambda tx: tx.push.change(lambda state: replace(state, day="2026-01-01")))
        await scene.confirmed(waiting)
    assert scene.published == ["the last", "pill", "dose"]
    told = [each.text for each in scene.store.query(lambda tx: tx.notices.get()).untold]
    assert len(told) == 1
    assert told[0].startswith("Your phone got 200 messages today, and its server takes 250 a day.")


async def test_a_phone_is_paired_and_removed_while_the_bot_runs(scene: PhoneScene) -> None:
    scene.file.remove()
    async with scene.bot() as channel:
        assert scene.store.query(lambda tx: tx.channels.all()) == []
        before = scene.ask("before")
        await asyncio.sleep(5)
        assert scene.state_of(before) is None
        assert scene.ntfy.requests == []
        pairing = scene.pair()
        first = scene.ask("water")
        await scene.confirmed(first)
        assert await channel.connected() == pairing.identity
        scene.file.remove()
        scene.store.run(lambda tx: tx.channels.leave("ntfy"))
        scene.ask("after")
        await asyncio.sleep(5)
        scene.pair("ollim-other")
        other = scene.ask("tea")
        await scene.confirmed(other)
        scene.ntfy.write(REPLY, scene.ntfy.published(TOPIC)[0].actions[0]["body"])
        await scene.until(lambda: scene.push.wrong == 1)
    assert scene.service.presses == []
    assert scene.published == ["water"]
    assert [each.title for each in scene.ntfy.published("ollim-other")] == ["tea"]
    assert scene.push.identity not in ("", pairing.identity)


async def test_nothing_goes_to_an_old_phone_before_the_new_one_is_noticed(
    scene: PhoneScene,
) -> None:
    """Another process has paired; the commit counts, though its file is read a moment later."""
    async with scene.bot():
        await scene.confirmed(scene.ask("water"))
        new = Pairing(scene.ntfy.url, "ollim-new", REPLY, scene.clock.now())
        scene.store.run(lambda tx: tx.channels.join("ntfy", new.identity))
        tea = scene.ask("tea", must=True)
        await asyncio.sleep(30)
        assert scene.state_of(tea) is DeliveryState.OPEN
        scene.pair("ollim-new")
        await scene.confirmed(tea)
    assert scene.published == ["water"]
    assert [each.title for each in scene.ntfy.published("ollim-new")] == ["tea"]


async def test_a_burst_waits_for_the_server_instead_of_being_refused(scene: PhoneScene) -> None:
    async with scene.bot():
        await scene.ntfy.followed(REPLY)
        began = scene.clock.now()
        asked = [scene.ask(f"{number}") for number in range(64)]
        await scene.confirmed(asked[-1])
        took = scene.clock.now() - began
    assert scene.ntfy.limits.refused == 0
    assert timedelta(seconds=20) < took < timedelta(seconds=60)
    assert len(scene.published) == 64


async def test_only_what_is_chosen_rings_and_never_the_conversation(scene: PhoneScene) -> None:
    async with scene.bot(page="https://bot.example/"):
        for what in ("asks", "must", "all"):
            await scene.choose("push_what", what)
            scene.say(f"{what}: mine", Author.OWNER)
            scene.say(f"{what}: an answer", Author.ASSISTANT)
            scene.say(f"{what}: a ping", job="news")
            scene.ask(f"{what}: must", must=True)
            last = scene.ask(f"{what}: asks")
            await scene.until(partial(scene.is_over, last))
    assert scene.published == [
        *("asks: must", "asks: asks", "must: must"),
        *("all: must", "all: a ping", "all: asks"),
    ]
    sent = [json.loads(each.body) for each in scene.ntfy.named(SEND)]
    assert {*sent[0]} <= {"topic", "message", "priority", "sequence_id", "title", "tags", "actions"}


class TestOnTheWire(ChannelContract):
    scene: PhoneScene
    channels: list[NtfyChannel]

    @pytest.fixture(autouse=True)
    async def connected(self, scene: PhoneScene) -> AsyncIterator[None]:
        """Two bots, of which the second remembers nothing of the first."""
        self.scene = scene
        # What the pairing has left in the topic.
        scene.ntfy.write(TOPIC, "This is a test.")
        self.message = replace(self.message, at=scene.clock.now() + timedelta(minutes=1))
        async with scene.bot() as first, scene.bot() as second:
            self.channels = [first, second]
            await first.connected()
            await second.connected()
            yield

    def make(self) -> Channel:
        return self.channels.pop(0)

    async def test_what_arrived_without_an_answer_is_found_by_the_next_run(self) -> None:
        before, after = self.make(), self.make()
        part = self.part(before)
        self.scene.ntfy.next_fail("POST /", AnswerLost())
        with pytest.raises(DeliveryUncertain):
            await before.deliver(part)
        there = self.scene.ntfy.published(TOPIC)[-1]
        assert await after.find(part, self.message.at, ()) == there.id
        assert await before.deliver(part) == there.id
        assert self.scene.published.count(part.content.text) == 1
