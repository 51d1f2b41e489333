"""The channel of Discord keeps the contract on the connection, with the real client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC

import pytest
from devtools.doubles.channel import ChannelContract
from devtools.localdiscord.faults import AnswerLost
from devtools.localdiscord.server import LocalDiscord
from tests.discord.connection_scene import ConnectionScene, connection_scene
from tests.discord.draft_scene import FakeDraftMemory, FakeSurface
from tests.virtual_loop import LoopClock

from ollim_bot.errors import DeliveryUncertain
from ollim_bot.ports import Channel
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.drafts import Drafts

SEND = "POST /channels/*/messages"


class TestOnTheWire(ChannelContract):
    scene: ConnectionScene
    clock: LoopClock

    @pytest.fixture(autouse=True)
    async def connected(self) -> AsyncIterator[None]:
        async with connection_scene(LocalDiscord()) as scene, scene.served():
            self.scene, self.clock = scene, LoopClock(UTC)
            yield

    def make(self) -> Channel:
        """A surface that was just started and remembers nothing of an earlier run."""
        background = BackgroundTasks(self.clock)
        drafts = Drafts(self.scene.dm, self.clock, background, FakeDraftMemory())
        return FakeSurface(self.scene.dm, drafts, self.clock)

    async def test_what_arrived_without_an_answer_is_found_by_the_next_run(self) -> None:
        before, after = self.make(), self.make()
        part = self.part(before)
        self.scene.local.next_fail(SEND, AnswerLost(), times=None)
        with pytest.raises(DeliveryUncertain):
            await before.deliver(part)
        self.scene.local.mend()
        [there] = self.scene.local.said
        assert await after.find(part, self.message.at, ()) == there.id
        assert await after.deliver(part) == there.id
        assert self.scene.local.said == [there]

    @pytest.mark.parametrize("shows_nonces", [True, False])
    async def test_a_message_whose_nonce_is_forgotten_is_found_by_its_words(
        self, shows_nonces: bool
    ) -> None:
        self.scene.local.history_has_nonces = shows_nonces
        before, after = self.make(), self.make()
        part = self.part(before)
        ref = await before.deliver(part)
        self.scene.local.say(part.content.text)
        self.scene.local.forget_nonces()
        assert await after.find(part, self.message.at, ()) == ref
        assert await after.find(self.part(after, "1" * 24), self.message.at, {ref}) is None
