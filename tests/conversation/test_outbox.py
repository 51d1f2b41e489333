"""What the bot sends by itself is written down before, confirmed after, and paid for once."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from tests.conversation.fate import Fate
from tests.conversation.outbox_scene import (
    FORK,
    PARENT,
    Mailbag,
    for_nothing,
    ping,
    run_of,
    with_a_token,
)
from tests.conversation.scene import LIMIT, NOW

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.outgoing import Sending
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.domain.runs import RunKind

BACKGROUND = run_of(RunKind.BACKGROUND)


@pytest.mark.usefixtures("at_once")
async def test_a_ping_is_written_down_paid_and_recorded_before_it_is_seen_and_confirmed_after() -> (
    None
):
    bag, fate = Mailbag(), Fate()
    async with bag.life(fate) as outbox:
        fate.steps.clear()
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
    assert [step.removeprefix("after ") for step in fate.steps if step.startswith("after")] == [
        "Sending in the outbox",
        "a change of the budget",
        "a change of the fork messages",
        "ChatMessage in the messages",
        "Sent in the outbox",
    ]
    assert bag.surfaces[-1].texts == bag.texts == ["ping 7"]
    assert bag.surfaces[-1].unknown == []


async def test_a_refused_payment_sends_and_writes_nothing() -> None:
    bag = Mailbag()
    async with bag.life() as outbox:
        assert not await outbox.send(ping(), BACKGROUND, lambda budget: (budget, None))
    assert bag.rows == []
    assert (bag.texts, bag.recorded, bag.surfaces[-1].texts) == ([], [], [])
    assert bag.spent == (0, 0, 0)
    assert bag.stores.pings.read().payments == 0


@pytest.mark.parametrize("kind", [RunKind.FORK, RunKind.BACKGROUND, RunKind.ISOLATED])
async def test_a_reply_to_what_a_fork_said_finds_its_session(kind: RunKind) -> None:
    bag, message = Mailbag(), ping()
    async with bag.life() as outbox:
        await outbox.send(message, run_of(kind))
    assert bag.recorded == [(int(message.id), FORK, PARENT)]
    assert [each.ts for each in bag.stores.fork_messages.read()] == [NOW.timestamp()]


async def test_what_the_main_session_says_is_no_message_of_a_fork() -> None:
    bag = Mailbag()
    async with bag.life() as outbox:
        await outbox.send(replace(ping(), id=MessageId("any-id")), run_of(RunKind.MAIN))
        await outbox.send(ping(), run_of(RunKind.BACKGROUND, session=None))
    assert bag.recorded == []
    assert bag.texts == ["ping 7", "ping 7"]


async def test_a_message_that_could_not_be_replied_to_is_refused_before_anything_is_written() -> (
    None
):
    bag = Mailbag()
    async with bag.life() as outbox:
        with pytest.raises(ValueError, match="not a number"):
            await outbox.send(replace(ping(), id=MessageId("m1")), BACKGROUND, with_a_token)
    assert (bag.rows, bag.texts, bag.spent) == ([], [], (0, 0, 0))


async def test_what_costs_nothing_takes_nothing() -> None:
    bag = Mailbag()
    async with bag.life() as outbox:
        assert await outbox.send(ping(1), BACKGROUND, for_nothing)
        assert await outbox.send(ping(2), BACKGROUND)
    assert bag.texts == ["ping 1", "ping 2"]
    assert bag.stores.pings.read() == Mailbag().stores.pings.read()


async def test_of_many_pings_at_once_as_many_are_sent_as_there_are_tokens() -> None:
    bag = Mailbag()
    async with bag.life() as outbox:
        pings = [ping(number) for number in range(20)]
        sent = await asyncio.gather(
            *(outbox.send(each, BACKGROUND, with_a_token) for each in pings)
        )
    texts = sorted(each.text for each, is_sent in zip(pings, sent, strict=True) if is_sent)
    assert len(texts) == 5
    assert sorted(bag.texts) == sorted(bag.surfaces[-1].texts) == texts
    assert bag.spent == (5, 5, 0)
    assert len(bag.recorded) == 5
    assert bag.waiting == []
    assert bag.surfaces[-1].unknown == []


async def test_the_same_message_is_sent_and_paid_for_once() -> None:
    bag = Mailbag()
    async with bag.life() as outbox:
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
    assert bag.texts == ["ping 7"]
    assert bag.spent == (1, 1, 0)


async def test_a_run_that_is_stopped_in_the_middle_has_sent_its_message_all_the_same() -> None:
    bag, pays, may_go_on = Mailbag(), threading.Event(), threading.Event()

    def slowly(budget: PingBudget) -> tuple[PingBudget, Charge | None]:
        pays.set()
        assert may_go_on.wait(LIMIT)
        return with_a_token(budget)

    async with bag.life() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, slowly))
        await asyncio.to_thread(pays.wait, LIMIT)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        may_go_on.set()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(left, timeout=LIMIT)
    assert bag.surfaces[-1].texts == ["ping 7"]
    assert bag.spent == (1, 1, 0)
    assert bag.waiting == []


async def test_a_message_that_is_in_the_log_is_found_there_however_much_came_after_it() -> None:
    bag = Mailbag()
    bag.stores.outbox.append(Sending(NOW, ping(0)))
    bag.stores.messages.append(*(ping(number) for number in range(900)))
    async with bag.life():
        pass
    assert bag.texts.count("ping 0") == 1
    assert bag.surfaces[-1].texts == []
    assert bag.waiting == []


@pytest.mark.usefixtures("at_once")
async def test_the_outbox_stays_short_and_forgets_nothing_that_waits() -> None:
    bag = Mailbag()
    async with bag.life() as outbox:
        bag.stores.outbox.append(Sending(NOW, ping(999_999), fork=FORK))
        longest = 0
        for number in range(450):
            await outbox.send(ping(number), BACKGROUND)
            longest = max(longest, len(bag.stores.outbox.read().entries))
    assert longest < 410
    assert len(bag.stores.outbox.read().entries) < 110
    assert bag.waiting == [ping(999_999).id]
    async with bag.life():
        assert bag.stores.outbox.read().entries[0] == Sending(NOW, ping(999_999), fork=FORK)
    assert bag.texts[-1] == "ping 999999"
    assert bag.recorded[-1] == (int(ping(999_999).id), FORK, None)
    async with bag.life():
        assert bag.stores.outbox.read().entries == []
    assert len(bag.texts) == 451
