"""A reminder on a full disk reaches Discord once, and gets its buttons when there is room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.discord.surface_scene import SurfaceScene, surface_scene

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.runs import DeliveryRight
from ollim_bot.errors import WriteFailed

FULL = WriteFailed(Path("state/ollim.db"), "No space left on device.")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[SurfaceScene]:
    async with surface_scene(tmp_path) as made:
        yield made


async def test_a_reminder_arrives_once_and_becomes_whole_when_there_is_room(
    scene: SurfaceScene,
) -> None:
    now = scene.clock.now()
    water = Reminder(JobSpec(id="w1", message="Drink water.", background=True), now)
    due, right = Occurrence.scheduled(JobKind.REMINDER, "w1", now), DeliveryRight()
    async with scene.started() as bot:
        scene.disk.fail_with(FULL)
        reminders = bot.talk.reminders
        for _ in range(2):
            assert not await reminders.deliver(water, due, right, "")
        [message] = scene.local.messages
        assert "\nDrink water.\n" in message.text
        assert "not kept" in message.text
        scene.disk.fail_with(None)
        assert await reminders.deliver(water, due, right, "")
        await scene.until(lambda: scene.local.messages[0].components)
        await scene.quiet(bot)
        assert len(scene.local.messages) == 1
        assert scene.refs == [scene.local.messages[0].id]
