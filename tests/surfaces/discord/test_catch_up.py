"""What happened while the bot was away is answered once, in order, and repaired."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.surfaces.discord.input_scene import (
    POLL,
    SILENT,
    InputScene,
    after_an_earlier_run,
    reads,
    until_next_poll,
)

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.surfaces.discord.rendering import (
    Forwarded,
    OutgoingMessage,
    ReceivedMessage,
    input_of,
)
from ollim_bot.surfaces.discord.status_line import EYES


@pytest.fixture
def scene(tmp_path: Path) -> InputScene:
    return InputScene(tmp_path)


async def test_at_the_first_start_of_all_nothing_old_is_answered(scene: InputScene) -> None:
    scene.channel.say("to somebody else")
    last = scene.channel.say("long ago")
    async with scene.connected():
        await scene.until(lambda: scene.last_seen == last.ref)
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])


async def test_but_what_comes_while_it_begins_is(scene: InputScene) -> None:
    scene.catch_up.ready()
    scene.say("hello")
    async with scene.running():
        await scene.until(lambda: scene.received == ["hello"])


async def test_where_nobody_has_spoken_yet_the_first_word_is_answered(scene: InputScene) -> None:
    async with scene.connected():
        await scene.until(lambda: scene.last_seen == "0")
    scene.restart()
    scene.channel.say("hello")
    async with scene.connected():
        await scene.until(lambda: scene.received == ["hello"])


async def test_nothing_is_taken_before_the_first_round(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    scene.channel.say("missed")
    async with scene.running():
        scene.say("live")
        scene.catch_up.ready()
        await scene.until(lambda: scene.received == ["missed", "live"])


async def test_all_of_an_outage_is_answered_in_order_and_once(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    said = [scene.channel.say(str(number)) for number in range(150)]
    scene.channel.may_answer.clear()
    async with scene.connected():
        await scene.until(lambda: reads(scene))
        said += [scene.say(str(number)) for number in (150, 151)]
        scene.inbound.message(said[149])
        scene.channel.may_answer.set()
        await scene.until(lambda: scene.last_seen == said[-1].ref)
        scene.catch_up.ready()
        scene.inbound.message(said[7])
        fence = scene.say("fence")
        await scene.until(lambda: scene.last_seen == fence.ref)
    assert scene.received == [*map(str, range(152)), "fence"]


async def test_what_another_run_has_taken_is_not_taken_again(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    before = scene.store.discord
    scene.channel.say("hello")
    async with scene.connected():
        await scene.until(lambda: scene.received == ["hello"])
    scene.store.run(lambda tx: tx.discord.put(before))
    await scene.reception.change(is_busy=True)
    scene.restart()
    scene.channel.say("more")
    async with scene.connected():
        await scene.until(lambda: scene.received == ["hello", "more"])
        await scene.until(lambda: scene.is_marked(scene.channel.owner["1003"]))
    assert not scene.is_marked(scene.channel.owner["1002"])


async def test_what_may_have_been_answered_before_the_state_was_lost_is_told_and_not_answered(
    scene: InputScene,
) -> None:
    await after_an_earlier_run(scene)
    scene.channel.say("how are you?")
    scene.channel.say("", forwarded=Forwarded("a server"))
    last = scene.channel.say("and the plants?")
    told = replace(scene.store.discord, told_until=last.ref)
    scene.store.run(lambda tx: tx.discord.put(told))
    scene.channel.say("said while the bot was off")
    for _ in range(2):
        async with scene.connected():
            await scene.until(lambda: scene.received == ["said while the bot was off"])
        scene.restart()
    (notice,) = scene.store.query(lambda tx: tx.notices.get()).untold
    listed = "“how are you?”; “a forwarded message”; “and the plants?”"
    assert notice.text.startswith(f"Since this copy you wrote on Discord: {listed}. None of it")
    assert scene.store.discord.told_until is None


async def test_messages_of_others_and_our_own_are_not_answered(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    await scene.channel.send(OutgoingMessage("from the bot"), "nonce")
    scene.channel.say("from a stranger", is_owners=False)
    scene.channel.say("from the owner")
    async with scene.connected():
        await scene.until(lambda: scene.received == ["from the owner"])


async def test_it_is_tried_again_with_growing_pauses(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    scene.channel.say("missed")
    scene.channel.is_down = True
    scene.catch_up.ready()
    tried_at = []
    async with scene.running():
        scene.say("live")
        await scene.until_asleep()
        for _ in range(9):
            tried = reads(scene)
            tried_at.append(scene.clock.monotonic())
            while reads(scene) == tried:
                await scene.clock.advance(1)
                await scene.until_asleep()
        assert scene.received == []
        scene.channel.is_down = False
        await scene.until_asleep()
        await scene.clock.advance(60)
        await scene.until(lambda: scene.received == ["missed", "live"])
    pauses = [later - earlier for earlier, later in pairwise(tried_at)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_a_newer_connection_takes_the_place_of_a_round_that_waits(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    scene.channel.say("missed")
    scene.channel.is_down = True
    async with scene.connected():
        for _ in range(5):
            await scene.until_asleep()
            await scene.clock.advance(60)
        await scene.until_asleep()
        scene.channel.is_down = False
        scene.catch_up.ready()
        await scene.until(lambda: scene.received == ["missed"])


async def test_a_newer_connection_takes_the_place_of_a_round_that_hangs(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    scene.channel.may_answer.clear()
    scene.catch_up.ready()
    before = reads(scene)
    async with scene.running():
        await scene.until(lambda: reads(scene) == before + 1)
        scene.channel.say("missed")
        scene.catch_up.ready()
        await scene.until(lambda: reads(scene) == before + 2)
        scene.channel.may_answer.set()
        await scene.until(lambda: scene.received == ["missed"])


async def test_what_comes_after_a_loss_stands_behind_what_was_missed(scene: InputScene) -> None:
    async with scene.connected():
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])
        scene.catch_up.lost()
        scene.channel.say("missed")
        scene.say("live")
        scene.catch_up.ready()
        await scene.until(lambda: scene.received == ["hello", "missed", "live"])


async def test_a_poll_finds_what_was_never_brought_and_has_the_connection_made_anew(
    scene: InputScene,
) -> None:
    async with scene.connected():
        await scene.until(lambda: scene.last_seen)
        await until_next_poll(scene)
        scene.channel.say("anybody there?")
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["anybody there?"])
        await scene.until(lambda: scene.reconnects == 1)
        scene.channel.say("hello?")
        await until_next_poll(scene)
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["anybody there?", "hello?"])
        assert scene.reconnects == 1
        scene.catch_up.ready()
        await until_next_poll(scene)
        scene.channel.say("deaf again?")
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.reconnects == 2)


async def test_one_between_two_that_were_brought_is_found_too(scene: InputScene) -> None:
    async with scene.connected():
        await until_next_poll(scene)
        scene.channel.say("lost on the way")
        scene.say("brought")
        await scene.until(lambda: scene.received == ["brought"])
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["brought", "lost on the way"])


async def test_one_that_may_still_be_brought_is_no_reason_to_reconnect(scene: InputScene) -> None:
    async with scene.connected():
        await until_next_poll(scene)
        await scene.clock.advance(POLL - 10)
        scene.channel.say("just now")
        await scene.clock.advance(10)
        await scene.until(lambda: scene.received == ["just now"])
    assert scene.reconnects == 0


async def test_what_was_brought_is_no_reason_to_reconnect(scene: InputScene) -> None:
    async with scene.connected():
        await until_next_poll(scene)
        scene.say("/model opus")
        scene.say("brought")
        await scene.until(lambda: scene.received)
        before = reads(scene)
        await scene.clock.advance(POLL)
        await scene.until(lambda: reads(scene) > before)
        await until_next_poll(scene)
    assert scene.reconnects == 0
    assert scene.received == ["brought"]
    assert len(scene.reception.lines) == 1


async def test_what_was_missed_with_the_connection_is_no_reason_either(scene: InputScene) -> None:
    await after_an_earlier_run(scene)
    scene.channel.say("missed")
    await scene.clock.advance(3600)
    async with scene.connected():
        await scene.until(lambda: scene.received == ["missed"])
        await until_next_poll(scene)
    assert scene.reconnects == 0


async def test_a_poll_in_vain_keeps_nobody_waiting(scene: InputScene) -> None:
    async with scene.connected():
        await until_next_poll(scene)
        scene.channel.fail("after", SILENT)
        before = reads(scene)
        await scene.clock.advance(POLL)
        await scene.until(lambda: reads(scene) > before and scene.clock.sleeping)
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])


async def test_a_poll_without_a_connection_takes_what_it_finds(scene: InputScene) -> None:
    async with scene.connected():
        await until_next_poll(scene)
        scene.catch_up.lost()
        scene.channel.say("found")
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.received == ["found"])
        scene.channel.say("missed")
        scene.say("live")
        scene.catch_up.ready()
        await scene.until(lambda: scene.received == ["found", "missed", "live"])
    assert scene.reconnects == 0


async def waiting(scene: InputScene, *texts: str) -> list[ReceivedMessage]:
    """Messages that an earlier run has accepted and not answered yet."""
    scene.channel.say("before")
    said = []
    for text in texts:
        seen = scene.channel.say(text)
        said.append(seen)
        name = MessageId(input_of(seen.ref))
        await scene.reception.post(ChatMessage(name, scene.clock.now(), Author.OWNER, text))
        scene.reception.show_on("discord", seen.ref, name)
        scene.reception.waiting.add(input_of(seen.ref))
    ref = said[-1].ref
    scene.store.run(lambda tx: tx.discord.change(lambda state: state.seen(ref)))
    await scene.reception.change(is_busy=True)
    return said


async def test_changes_of_what_waits_that_were_missed_are_found(scene: InputScene) -> None:
    edited, same, gone = await waiting(scene, "old", "same", "oops")
    scene.channel.owner[edited.ref] = replace(edited, text="new", is_edited=True)
    del scene.channel.owner[gone.ref]
    await scene.clock.advance(31)
    async with scene.connected():
        kept = {input_of(edited.ref), input_of(same.ref)}
        await scene.until(lambda: scene.reception.waiting == kept)
        await scene.until(lambda: scene.reception.messages[0].text == "new")
    assert scene.reception.messages[1].text == "same"


async def test_one_that_came_a_moment_ago_is_not_taken_for_deleted(scene: InputScene) -> None:
    [fresh] = await waiting(scene, "fresh")
    del scene.channel.owner[fresh.ref]
    async with scene.connected():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
        assert scene.reception.waiting == {input_of(fresh.ref)}
        await scene.clock.advance(POLL)
        await scene.until(lambda: scene.reception.waiting == set())


async def test_one_that_is_too_old_to_be_found_is_not_taken_for_deleted(scene: InputScene) -> None:
    old, new = await waiting(scene, "old", "new")
    for _ in range(99):
        await scene.channel.send(OutgoingMessage("chatter"), str(len(scene.channel.bot)))
    await scene.clock.advance(31)
    async with scene.connected():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
    assert scene.reception.waiting == {input_of(old.ref), input_of(new.ref)}


async def test_what_the_page_or_the_bot_has_said_is_never_taken_for_deleted(
    scene: InputScene,
) -> None:
    await waiting(scene, "hello")
    await scene.reception.say("on its way")
    deleted = await scene.reception.say("deleted by the owner")
    scene.reception.show_on("discord", "1900", deleted.id)
    await scene.reception.say("from the page", Author.OWNER)
    await scene.clock.advance(31)
    async with scene.connected():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
    assert len(scene.reception.waiting) == 1


async def test_marks_of_an_earlier_run_go_when_nothing_waits(scene: InputScene) -> None:
    seen = scene.channel.say("answered", marks=frozenset({EYES}))
    await scene.reception.change(is_busy=True)
    async with scene.connected():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await until_next_poll(scene)
        assert scene.is_marked(seen)
        scene.pending_reaction.close_all()
        await scene.until(lambda: not scene.is_marked(seen))


async def test_and_at_once_if_nothing_does(scene: InputScene) -> None:
    seen = scene.channel.say("answered", marks=frozenset({EYES}))
    async with scene.connected():
        await scene.until(lambda: not scene.is_marked(seen))


async def test_what_could_not_be_mended_is_tried_again_and_holds_nobody_up(
    scene: InputScene,
) -> None:
    seen = scene.channel.say("answered", marks=frozenset({EYES}))
    scene.channel.fail("newest", None, SILENT, SILENT)
    scene.channel.fail("after", SILENT)
    async with scene.connected():
        await scene.until(lambda: ("newest", "50") in scene.channel.calls)
        await scene.until_asleep()
        await scene.clock.advance(1)
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])
        assert scene.is_marked(seen)
        await scene.until_asleep()
        await scene.clock.advance(2)
        await scene.until(lambda: not scene.is_marked(seen))
