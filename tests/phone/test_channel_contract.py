"""The channel of the phone keeps the contract on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.channel import ChannelContract
from devtools.localdiscord.faults import AnswerLost
from tests.phone.scene import TOPIC, PhoneScene

from ollim_bot.errors import DeliveryUncertain
from ollim_bot.ports import Channel
from ollim_bot.surfaces.ntfy.channel import NtfyChannel


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
