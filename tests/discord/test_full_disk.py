"""A reminder on a full disk reaches Discord once, and gets its buttons when there is room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.discord.surface_scene import World, world_of

from ollim_bot.domain.jobs import JobKind, JobSpec, Reminder
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.orders import Order
from ollim_bot.errors import WriteFailed

FULL = WriteFailed(Path("state/ollim.db"), "No space left on device.")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(tmp_path) as made:
        yield made


async def test_a_reminder_arrives_once_and_becomes_whole_when_there_is_room(world: World) -> None:
    now = world.clock.now()
    water = Reminder(JobSpec(id="w1", message="Drink water.", background=True), now)
    due, order = Occurrence.scheduled(JobKind.REMINDER, "w1", now), Order()
    async with world.life() as life:
        world.disk.fail_with(FULL)
        reminders = life.talk.reminders
        for _ in range(2):
            assert not await reminders.deliver(water, due, order, "")
        [message] = world.local.messages
        assert message.text.startswith("Drink water.")
        assert "not kept" in message.text
        world.disk.fail_with(None)
        assert await reminders.deliver(water, due, order, "")
        await world.until(lambda: world.local.messages[0].components)
        await world.quiet(life)
        assert len(world.local.messages) == 1
        assert world.refs == [world.local.messages[0].id]
