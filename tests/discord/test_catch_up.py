"""Messages that were written while the bot was away are answered once and in order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.discord.input_scene import InputScene, after_an_earlier_run, reads

from ollim_bot.surfaces.discord.rendering import Forwarded, OutgoingMessage


@pytest.fixture
def scene(tmp_path: Path) -> InputScene:
    return InputScene(tmp_path)


async def test_at_the_first_start_of_all_nothing_old_is_answered(scene: InputScene) -> None:
    scene.channel.say("to somebody else")
    last = scene.channel.say("long ago")
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: scene.last_seen == last.ref)
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])


async def test_but_what_comes_while_it_begins_is(scene: InputScene) -> None:
    scene.catch_up.ready()
    scene.say("hello")
    async with scene.running():
        await scene.until(lambda: scene.received == ["hello"])


async def test_where_nobody_has_spoken_yet_the_first_word_is_answered(scene: InputScene) -> None:
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: scene.last_seen == "0")
    scene.restart()
    scene.channel.say("hello")
    scene.catch_up.ready()
    async with scene.running():
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
    scene.catch_up.ready()
    async with scene.running():
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
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: scene.received == ["hello"])
    scene.store.run(lambda tx: tx.discord.put(before))
    await scene.reception.change(is_busy=True)
    scene.restart()
    scene.channel.say("more")
    scene.catch_up.ready()
    async with scene.running():
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
        scene.catch_up.ready()
        async with scene.running():
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
    scene.catch_up.ready()
    async with scene.running():
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
    scene.catch_up.ready()
    async with scene.running():
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
    scene.catch_up.ready()
    async with scene.running():
        scene.say("hello")
        await scene.until(lambda: scene.received == ["hello"])
        scene.catch_up.lost()
        scene.channel.say("missed")
        scene.say("live")
        scene.catch_up.ready()
        await scene.until(lambda: scene.received == ["hello", "missed", "live"])
