"""A message of the bot is logged, paid for and linked for replies in one commit, once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.conversation.delivery_scene import (
    FORK,
    PARENT,
    DeliveryScene,
    for_nothing,
    ping,
    run_of,
    with_a_token,
)
from tests.conversation.scene import NOW

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.pings import PingRefused
from ollim_bot.domain.runs import RunKind

BACKGROUND = run_of(RunKind.BACKGROUND)


async def test_a_ping_is_logged_paid_and_recorded_in_one_commit_before_it_is_seen() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        before = scene.store.commits
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        assert scene.store.commits == before + 1
        assert scene.texts == ["ping 7"]
        assert scene.spent == (1, 1, 0)
        assert scene.recorded == [(int(ping().id), FORK, PARENT)]
        await scene.until(lambda: scene.surfaces[-1].texts == ["ping 7"])


async def test_a_refused_payment_sends_and_writes_nothing() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        assert not await outbox.send(
            ping(), BACKGROUND, lambda budget: (budget, PingRefused("No."))
        )
        await scene.clock.advance(1)
    assert (scene.texts, scene.recorded, scene.surfaces[-1].texts) == ([], [], [])
    assert scene.spent == (0, 0, 0)


@pytest.mark.parametrize("kind", [RunKind.FORK, RunKind.BACKGROUND, RunKind.ISOLATED])
async def test_a_reply_to_what_a_fork_said_finds_its_session(kind: RunKind) -> None:
    scene, message = DeliveryScene(), ping()
    async with scene.running() as outbox:
        await outbox.send(message, run_of(kind))
    assert scene.recorded == [(int(message.id), FORK, PARENT)]
    known = scene.store.run(lambda tx: tx.fork_messages.get())
    assert [each.ts for each in known] == [NOW.timestamp()]


async def test_what_the_main_session_says_is_no_message_of_a_fork() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        await outbox.send(replace(ping(), id=MessageId("any-id")), run_of(RunKind.MAIN))
        await outbox.send(ping(), run_of(RunKind.BACKGROUND, session=None))
    assert scene.recorded == []
    assert scene.texts == ["ping 7", "ping 7"]


async def test_what_costs_nothing_takes_nothing() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        assert await outbox.send(ping(1), BACKGROUND, for_nothing)
        assert await outbox.send(ping(2), BACKGROUND)
    assert scene.texts == ["ping 1", "ping 2"]
    assert scene.budget == DeliveryScene().budget


async def test_of_many_pings_at_once_as_many_are_sent_as_there_are_tokens() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        pings = [ping(number) for number in range(20)]
        sent = await asyncio.gather(
            *(outbox.send(each, BACKGROUND, with_a_token) for each in pings)
        )
        texts = [each.text for each, is_sent in zip(pings, sent, strict=True) if is_sent]
        await scene.until(lambda: len(scene.surfaces[-1].texts) == len(texts))
    assert len(texts) == 5
    assert sorted(scene.texts) == sorted(scene.surfaces[-1].texts) == sorted(texts)
    assert scene.spent == (5, 5, 0)
    assert len(scene.recorded) == 5


async def test_the_same_message_is_sent_and_paid_for_once() -> None:
    scene = DeliveryScene()
    async with scene.running() as outbox:
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
        assert await outbox.send(ping(), BACKGROUND, with_a_token)
    assert scene.texts == ["ping 7"]
    assert scene.spent == (1, 1, 0)
