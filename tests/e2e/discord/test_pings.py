"""A ping arrives on Discord exactly once, whatever happens to its requests."""

from __future__ import annotations

import pytest
from devtools.localdiscord.faults import AnswerHanging, AnswerLost, Dropped, Fault, Hanging
from tests.e2e.discord.discord_scene import DiscordScene, words
from tests.e2e.test_reminders import checked, left, remind

from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.offline.server import CallTool, Reply

WORDS = "The bank wrote."
PING = Reply((CallTool("mcp__discord__ping_user", {"message": WORDS}),))
SENDING = "POST /channels/*/messages"


def pings(scene: DiscordScene) -> list[str]:
    return [words(each) for each in scene.discord.said if WORDS in words(each)]


async def due(scene: DiscordScene) -> None:
    """Make a reminder due that pings; returns when its run has begun."""
    before = len(scene.model.requests)
    scene.model.then(PING)
    remind(scene.bot, "w1", 0, "Look at the mail.")
    await scene.until(lambda: len(scene.model.requests) > before)


async def is_confirmed_once(scene: DiscordScene) -> None:
    """Wait until its delivery is confirmed; it is on Discord and on the page once."""
    await scene.until(lambda: not left(scene.bot) and not on_its_way(scene))
    assert len(pings(scene)) == 1, pings(scene)
    shown = [one for one in await scene.bot.messages() if one["author"] == "background"]
    assert [one["text"] for one in shown] == [WORDS]


def on_its_way(scene: DiscordScene) -> set[object]:
    """The messages whose delivery has not ended."""
    open_ones = (each for each in scene.bot.deliveries() if each.state is DeliveryState.OPEN)
    return {each.message.id for each in open_ones}


@pytest.mark.parametrize("fault", [AnswerLost(), Dropped()], ids=["answer lost", "dropped"])
async def test_a_ping_whose_answer_is_lost_is_one_message(
    scene: DiscordScene, fault: Fault
) -> None:
    scene.discord.next_fail(SENDING, fault)
    await due(scene)
    await is_confirmed_once(scene)
    assert scene.discord.faults_left == []
    assert checked(scene.bot).returncode == 0


@pytest.mark.own_process
@pytest.mark.parametrize("fault", [AnswerHanging(), Hanging()], ids=["done", "not done"])
@pytest.mark.parametrize("is_remembered", [True, False], ids=["nonce known", "nonce forgotten"])
async def test_a_kill_between_the_sending_and_its_answer_is_one_message(
    scene: DiscordScene, fault: Fault, is_remembered: bool
) -> None:
    scene.discord.next_fail(SENDING, fault)
    await due(scene)
    await scene.until(lambda: not scene.discord.faults_left)
    if isinstance(fault, AnswerHanging):
        await scene.until(lambda: pings(scene))
    await scene.bot.kill()
    if not is_remembered:
        scene.discord.forget_nonces()
    await scene.bot.start()
    await is_confirmed_once(scene)


@pytest.mark.own_process
async def test_a_kill_as_soon_as_the_message_stands_there_is_one_message(
    scene: DiscordScene,
) -> None:
    await due(scene)
    await scene.until(lambda: pings(scene))
    await scene.bot.kill()
    scene.discord.forget_nonces()
    await scene.bot.start()
    await is_confirmed_once(scene)


async def test_a_ping_that_falls_due_during_an_outage_arrives_when_it_is_over(
    scene: DiscordScene,
) -> None:
    await scene.discord.refuse_connections()
    await due(scene)
    await scene.until(lambda: on_its_way(scene))
    assert pings(scene) == []
    await scene.discord.accept_again()
    await is_confirmed_once(scene)
