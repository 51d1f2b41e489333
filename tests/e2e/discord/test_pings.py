"""What the bot sends by itself arrives on Discord once, whatever becomes of its requests."""

from __future__ import annotations

import pytest
from devtools.localdiscord.faults import AnswerHanging, AnswerLost, Dropped, Fault, Hanging
from tests.e2e.discord.talk import Talk, words
from tests.e2e.test_reminders import checked, left, remind

from ollim_bot.offline.messages import CallTool, Reply
from ollim_bot.store.deliveries import DeliveryState

WORDS = "The bank wrote."
PING = Reply((CallTool("mcp__discord__ping_user", {"message": WORDS}),))
SENDING = "POST /channels/*/messages"


def pings(talk: Talk) -> list[str]:
    return [words(each) for each in talk.discord.said if WORDS in words(each)]


async def due(talk: Talk) -> None:
    """A reminder that pings falls due; its run has begun when this returns."""
    before = len(talk.model.requests)
    talk.model.then(PING)
    remind(talk.bot, "w1", 0, "Look at the mail.")
    await talk.until(lambda: len(talk.model.requests) > before)


async def is_confirmed_once(talk: Talk) -> None:
    """It is in the outbox no longer, and stands there and on the page once."""
    await talk.until(lambda: not left(talk.bot) and not on_its_way(talk))
    assert len(pings(talk)) == 1, pings(talk)
    shown = [one for one in await talk.bot.messages() if one["author"] == "background"]
    assert [one["text"] for one in shown] == [WORDS]


def on_its_way(talk: Talk) -> set[object]:
    """The messages whose delivery has no end yet."""
    open_ones = (each for each in talk.bot.deliveries() if each.state is DeliveryState.OPEN)
    return {each.message.id for each in open_ones}


@pytest.mark.parametrize("fault", [AnswerLost(), Dropped()], ids=["answer lost", "dropped"])
async def test_a_ping_whose_answer_is_lost_is_one_message(talk: Talk, fault: Fault) -> None:
    talk.discord.next_fail(SENDING, fault)
    await due(talk)
    await is_confirmed_once(talk)
    assert talk.discord.faults_left == []
    assert checked(talk.bot).returncode == 0


@pytest.mark.own_process
@pytest.mark.parametrize("fault", [AnswerHanging(), Hanging()], ids=["done", "not done"])
@pytest.mark.parametrize("is_remembered", [True, False], ids=["nonce known", "nonce forgotten"])
async def test_a_kill_between_the_sending_and_its_answer_is_one_message(
    talk: Talk, fault: Fault, is_remembered: bool
) -> None:
    talk.discord.next_fail(SENDING, fault)
    await due(talk)
    await talk.until(lambda: not talk.discord.faults_left)
    if isinstance(fault, AnswerHanging):
        await talk.until(lambda: pings(talk))
    await talk.bot.kill()
    if not is_remembered:
        talk.discord.forget_nonces()
    await talk.bot.start()
    await is_confirmed_once(talk)


@pytest.mark.own_process
async def test_a_kill_as_soon_as_the_message_stands_there_is_one_message(talk: Talk) -> None:
    await due(talk)
    await talk.until(lambda: pings(talk))
    await talk.bot.kill()
    talk.discord.forget_nonces()
    await talk.bot.start()
    await is_confirmed_once(talk)


async def test_a_ping_that_falls_due_during_an_outage_arrives_when_it_is_over(talk: Talk) -> None:
    await talk.discord.refuse_connections()
    await due(talk)
    await talk.until(lambda: on_its_way(talk))
    assert pings(talk) == []
    await talk.discord.accept_again()
    await is_confirmed_once(talk)
