"""A message has the reaction while it waits, and not longer, whatever Discord answers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from functools import partial

import pytest
from devtools.doubles.clock import ManualClock
from tests.patience import eventually
from tests.surfaces.discord.fake_channel import FakeChannel
from tests.surfaces.discord.input_scene import SUNDAY, running_tasks

from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.surfaces.discord.rendering import ReceivedMessage
from ollim_bot.surfaces.discord.status_line import EYES, PendingReaction

REFUSED = DeliveryFailed("Discord refuses that.")
SILENT = Unreachable("There is no network.")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SUNDAY)


@pytest.fixture
def channel(clock: ManualClock) -> FakeChannel:
    return FakeChannel(clock)


@pytest.fixture
async def reaction(channel: FakeChannel, clock: ManualClock) -> AsyncIterator[PendingReaction]:
    reaction = PendingReaction(channel, clock)
    async with running_tasks(reaction.run()):
        yield reaction


def marked(channel: FakeChannel) -> list[str]:
    return [each.text for each in channel.owner.values() if EYES in each.marks]


def about(channel: FakeChannel, seen: ReceivedMessage) -> list[str]:
    """The calls to Discord about a message."""
    return [call for call, ref in channel.calls if ref == seen.ref]


async def test_it_is_set_and_taken_away_when_the_turn_ends(
    reaction: PendingReaction, channel: FakeChannel
) -> None:
    first, second = channel.say("first"), channel.say("second")
    reaction.open(first.ref)
    reaction.open(second.ref)
    await eventually(lambda: marked(channel) == ["first", "second"])
    reaction.close([first.ref])
    await eventually(lambda: marked(channel) == ["second"])
    reaction.close_all()
    await eventually(lambda: marked(channel) == [])


async def test_what_was_not_set_when_the_turn_ended_is_never_set(
    channel: FakeChannel, clock: ManualClock
) -> None:
    reaction = PendingReaction(channel, clock)
    early, late, fence = channel.say("early"), channel.say("late"), channel.say("fence")
    reaction.open(early.ref)
    reaction.close([early.ref, late.ref])
    reaction.open(late.ref)
    reaction.open(fence.ref)
    async with running_tasks(reaction.run()):
        await eventually(lambda: marked(channel) == ["fence"])
    assert about(channel, early) == about(channel, late) == []


async def test_one_that_is_being_set_when_the_turn_ends_is_taken_away(
    reaction: PendingReaction, channel: FakeChannel
) -> None:
    seen = channel.say("hello")
    channel.may_answer.clear()
    reaction.open(seen.ref)
    await eventually(lambda: about(channel, seen) == ["mark"])
    reaction.close([seen.ref])
    channel.may_answer.set()
    await eventually(lambda: about(channel, seen) == ["mark", "unmark"])
    await eventually(lambda: marked(channel) == [])


async def test_of_many_only_the_newest_five_are_marked(
    channel: FakeChannel, clock: ManualClock
) -> None:
    reaction = PendingReaction(channel, clock)
    for number in range(30):
        reaction.open(channel.say(str(number)).ref)
    async with running_tasks(reaction.run()):
        await eventually(lambda: len(marked(channel)) == 5)
        reaction.close_all()
        await eventually(lambda: marked(channel) == [])
    assert [call for call, _ in channel.calls].count("mark") == 5
    assert about(channel, channel.owner["1030"]) == ["mark", "unmark"]


async def test_who_may_not_mark_stops_trying_and_says_so_once(
    reaction: PendingReaction, channel: FakeChannel, caplog: pytest.LogCaptureFixture
) -> None:
    channel.fail("mark", REFUSED)
    refused = channel.say("refused")
    with caplog.at_level(logging.WARNING):
        reaction.open(refused.ref)
        await eventually(lambda: caplog.records)
        later = channel.say("later")
        reaction.open(later.ref)
        for fence in (channel.say("one"), channel.say("two")):
            reaction.adopt([fence.ref])
            reaction.close([fence.ref])
            await eventually(partial(about, channel, fence))
    assert about(channel, later) == []
    assert len(caplog.records) == 1


async def test_a_message_that_is_gone_stops_nothing(
    reaction: PendingReaction, channel: FakeChannel
) -> None:
    gone = channel.say("gone")
    channel.fail("mark", REFUSED)
    del channel.owner[gone.ref]
    reaction.open(gone.ref)
    await eventually(lambda: ("newest", "100") in channel.calls)
    reaction.open(channel.say("there").ref)
    await eventually(lambda: marked(channel) == ["there"])
    reaction.close_all()
    await eventually(lambda: marked(channel) == [])
    assert about(channel, gone) == ["mark"]


async def test_one_that_cannot_be_set_is_given_up(
    reaction: PendingReaction, channel: FakeChannel
) -> None:
    channel.fail("mark", SILENT)
    seen = channel.say("hello")
    reaction.open(seen.ref)
    reaction.open(channel.say("fence").ref)
    await eventually(lambda: marked(channel) == ["fence"])
    reaction.close_all()
    await eventually(lambda: marked(channel) == [])
    assert about(channel, seen) == ["mark"]


async def test_but_one_that_is_there_is_taken_away_however_long_that_takes(
    reaction: PendingReaction, channel: FakeChannel, clock: ManualClock
) -> None:
    seen = channel.say("hello")
    reaction.open(seen.ref)
    await eventually(lambda: marked(channel) == ["hello"])
    channel.is_down = True
    reaction.close([seen.ref])
    await eventually(lambda: clock.sleeping)
    await clock.advance(3600)
    channel.is_down = False
    await eventually(lambda: clock.sleeping)
    await clock.advance(60)
    await eventually(lambda: marked(channel) == [])


async def test_one_that_may_be_there_is_taken_away(
    reaction: PendingReaction, channel: FakeChannel
) -> None:
    seen = channel.say("hello")
    channel.fail("mark", DeliveryUncertain("The answer was lost."))
    reaction.open(seen.ref)
    await eventually(lambda: about(channel, seen) == ["mark"])
    reaction.close([seen.ref])
    await eventually(lambda: about(channel, seen) == ["mark", "unmark"])


async def test_it_goes_on_after_it_was_stopped(channel: FakeChannel, clock: ManualClock) -> None:
    reaction = PendingReaction(channel, clock)
    seen = channel.say("hello")
    channel.may_answer.clear()
    async with running_tasks(reaction.run()):
        reaction.open(seen.ref)
        await eventually(lambda: about(channel, seen) == ["mark"])
    channel.may_answer.set()
    reaction.close_all()
    async with running_tasks(reaction.run()):
        await eventually(lambda: about(channel, seen) == ["mark", "unmark"])


async def test_one_whose_turn_is_over_takes_nobodys_place(
    channel: FakeChannel, clock: ManualClock
) -> None:
    reaction = PendingReaction(channel, clock)
    over = channel.say("over")
    reaction.close([over.ref])
    waiting = [channel.say(str(number)) for number in range(5)]
    for seen in (*waiting, over):
        reaction.open(seen.ref)
    async with running_tasks(reaction.run()):
        await eventually(lambda: len(marked(channel)) == 5)
    assert about(channel, over) == []
