"""The sentinel's way to the phone: what the bot would send, once, and within the same limits."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial

from devtools.doubles.repeating_store import RepeatingStore
from devtools.localdiscord.faults import AnswerLost
from devtools.localntfy.protocol import Refusal
from tests.features.phone.scene import BOT, LIMITS, REPLY, TOPIC, PhoneScene

from ollim_bot.features.phone.ntfy_channel import NtfyChannel
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.conversation.delivery import DeliveryQueue
from ollim_bot.kernel.store.delivery_rows import DeliveryState, part_nonce
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.push import PER_DAY
from ollim_bot.kernel.values.runtime_config import PushContent
from ollim_bot.kernel.values.surface_state import PushState, day_of

PILL = "Take the blue pill."


async def sent(
    scene: PhoneScene, name: MessageId, *, is_in_doubt: bool = False, keeps_rows: bool = True
) -> str:
    """Why it did not arrive."""
    if is_in_doubt:
        now = scene.clock.now()
        scene.store.run(lambda tx: tx.deliveries.require("ntfy", name, (), now))
    store: Store = scene.store
    if not keeps_rows:
        store = rows_of_its_own(scene, name)
    account = partial(getattr, scene, "account")
    channel = NtfyChannel(store, scene.file, account, scene.clock, bot=BOT, limits=LIMITS)
    async with channel.sending(keeps_rows=keeps_rows):
        return await DeliveryQueue(store, channel, scene.clock, suspects=True).deliver(name)


def rows_of_its_own(scene: PhoneScene, name: MessageId) -> Store:
    """Rows that nobody keeps, with the message alone."""
    message = scene.store.query(lambda tx: tx.messages.get(name))
    assert message is not None
    store = RepeatingStore(scene.clock.now)

    def step(tx: Transaction) -> None:
        tx.channels.join("ntfy", "")
        tx.config.change(lambda known: replace(known, push_content=PushContent.NONE))
        tx.messages.add(message)

    store.run(step)
    return store


async def test_its_push_is_that_of_the_bot_and_its_button_works_when_the_bot_is_back(
    scene: PhoneScene,
) -> None:
    async with scene.phone() as phone:
        by_bot = scene.ask("Drink water.", must=True)
        async with scene.bot():
            await scene.confirmed(by_bot)
        card = scene.ask(PILL, must=True)
        assert await sent(scene, card) == ""
        await scene.until(lambda: len(phone.shown) == 2)
        water, pill = phone.shown
        assert (pill.labels, pill.priority, pill.tags) == (water.labels, water.priority, water.tags)
        assert (pill.title, pill.text, pill.sequence_id) == (PILL, BOT, part_nonce(card, 0))
        await phone.press(pill, "Done")
        async with scene.bot():
            await scene.until(lambda: scene.service.presses == [(PILL, "done")])
            await scene.until(lambda: [each.title for each in phone.shown] == ["Drink water."])
    assert scene.published == ["Drink water.", PILL]
    assert scene.push.sent == 3


async def test_what_the_server_has_is_not_sent_again(scene: PhoneScene) -> None:
    card = scene.ask(PILL, must=True)
    scene.ntfy.next_fail("POST /", AnswerLost())
    assert await sent(scene, card) == ""
    assert scene.published == [PILL]


async def test_what_came_without_buttons_gets_them_from_the_bot(scene: PhoneScene) -> None:
    async with scene.phone() as phone:
        card = scene.ask(PILL, must=True)
        await sent(scene, card, keeps_rows=False)
        await scene.until(lambda: [each.labels for each in phone.shown] == [[]])
        now = scene.clock.now()
        scene.store.run(lambda tx: tx.deliveries.require("ntfy", card, (), now))
        async with scene.bot():
            await scene.confirmed(card)
            await scene.until(lambda: "Done" in phone.shown[0].labels)
        assert len(phone.shown) == 1


async def test_in_doubt_it_is_sent_only_if_the_server_still_has_what_is_older(
    scene: PhoneScene,
) -> None:
    card = scene.ask(PILL, must=True)
    assert await sent(scene, card, is_in_doubt=True)
    assert scene.published == []
    scene.ntfy.write(TOPIC, "earlier")
    await asyncio.sleep(2 * 60 * 60)
    later = scene.ask(PILL, must=True)
    assert await sent(scene, later, is_in_doubt=True) == ""
    assert scene.published == ["earlier", PILL]


async def test_without_the_database_it_comes_without_buttons_and_as_private_as_known(
    scene: PhoneScene,
) -> None:
    card = scene.ask(PILL, must=True)
    async with scene.phone() as phone:
        await sent(scene, card, keeps_rows=False)
        await scene.until(lambda: phone.shown)
        (shown,) = phone.shown
    assert (shown.labels, shown.text) == ([], "A reminder waits for you.")
    assert REPLY not in str(shown)


async def test_the_limits_of_the_server_hold_for_it_too(scene: PhoneScene) -> None:
    card, now = scene.ask(PILL, must=True), scene.clock.now()
    scene.ntfy.next_fail("POST /", Refusal(429, 42901, 7.0))
    assert await sent(scene, card)
    quiet_until = scene.push.quiet_until
    assert quiet_until is not None
    assert timedelta(seconds=6) < quiet_until - now < timedelta(seconds=8)
    before = len(scene.ntfy.named("POST /"))
    assert await sent(scene, card)
    await asyncio.sleep(8)
    scene.store.run(lambda tx: tx.push.put(PushState(day=day_of(now), sent=PER_DAY)))
    assert await sent(scene, card)
    assert len(scene.ntfy.named("POST /")) == before
    assert scene.state_of(card) is DeliveryState.OPEN
