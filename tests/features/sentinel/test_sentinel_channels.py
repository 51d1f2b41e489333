"""The sentinel with Discord and a phone: one is enough, both are tried, nothing comes twice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.channel import DeliveryFault, FakeChatService
from tests.features.sentinel.sentinel_scene import (
    MUST,
    PILL,
    FakeDesktop,
    FakeDirectChannel,
    Killed,
    Scene,
    kill,
    make_scene,
)
from tests.features.sentinel.test_sentinel import given_to_database

from ollim_bot.features.sentinel.sentinel_file import deliveries_left

MINUTE = 60.0
DISCORD, PHONE = "discord", "ntfy"


def two(root: Path) -> tuple[Scene, FakeChatService]:
    """A scene whose bot delivers to Discord and to a phone, and the phone."""
    scene = make_scene(root)
    scene.phone = FakeChatService(scene.clock, name=PHONE, remembers=timedelta(hours=12))
    return scene, scene.phone


async def shown_after_restart(scene: Scene) -> list[int]:
    """How often each channel has shown it, after the bot has run again for a while."""
    async with scene.bot() as bot:
        await bot.advance(90)
        await bot.until(lambda: bot.reminders == [])
    return [each.texts.count(PILL) for each in scene.services]


async def test_the_first_channel_that_has_it_is_enough_and_the_other_is_tried_until_it_has_it(
    tmp_path: Path,
) -> None:
    scene, phone = two(tmp_path / "data")
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    phone.is_down, desktop = True, FakeDesktop()
    (outcome,) = scene.run_sentinel(notifier=desktop).outcomes
    assert (outcome.through, outcome.missed) == ((DISCORD,), (PHONE,))
    assert outcome.problem == "There is no network."
    scene.clock.jump(5 * MINUTE)
    assert scene.run_sentinel(notifier=desktop).outcomes == []
    phone.is_down = False
    scene.clock.jump(5 * MINUTE)
    (outcome,) = scene.run_sentinel(notifier=desktop).outcomes
    assert (outcome.through, outcome.missed) == ((DISCORD, PHONE), ())
    assert desktop.shown == []
    assert await shown_after_restart(scene) == [1, 1]


@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_kill_between_two_channels_shows_nothing_twice(tmp_path: Path, point: str) -> None:
    for name in (DISCORD, PHONE):
        scene, _ = two(tmp_path / name)
        await scene.run_bot_and_crash()
        scene.clock.jump(10 * MINUTE)
        killed = next(each for each in scene.services if each.name == name)
        with pytest.raises(Killed):
            scene.run_sentinel(channel=FakeDirectChannel(killed, **{point: kill}))
        scene.clock.jump(5 * MINUTE)
        scene.run_sentinel()
        assert [each.texts for each in scene.services] == [[PILL], [PILL]], name
        assert await shown_after_restart(scene) == [1, 1], name


async def test_an_answer_that_was_lost_on_one_channel_is_looked_up_there_alone(
    tmp_path: Path,
) -> None:
    scene, phone = two(tmp_path / "data")
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    phone.faults.append(DeliveryFault.ANSWER_LOST)
    (outcome,) = scene.run_sentinel().outcomes
    assert (outcome.through, outcome.missed) == ((DISCORD, PHONE), ())
    assert (scene.service.tries, phone.tries) == (1, 2)
    assert await shown_after_restart(scene) == [1, 1]


async def test_without_the_database_the_file_knows_which_channel_is_still_to_be_tried(
    tmp_path: Path,
) -> None:
    scene, phone = two(tmp_path / "data")
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    phone.is_down = True
    for through in ([(DISCORD,)], [], [(DISCORD, PHONE)], []):
        phone.is_down = through != [(DISCORD, PHONE)]
        report = scene.run_sentinel(maintenance=lambda: "update")
        assert [each.through for each in report.outcomes] == through
        (kept,) = deliveries_left(scene.paths)
        assert kept.claim == {"job": PILL}
        assert kept.removal is not None
        scene.clock.jump(5 * MINUTE)
    given_to_database(scene)
    assert await shown_after_restart(scene) == [1, 1]


async def test_what_the_bot_had_brought_by_one_channel_is_not_called_brought_by_the_sentinel(
    tmp_path: Path,
) -> None:
    scene, phone = two(tmp_path / "data")
    phone.is_down = True
    async with scene.bot() as bot:
        bot.remind("pill", timedelta(minutes=1), PILL, **MUST)
        await bot.advance(2 * MINUTE)
        assert scene.service.texts == [PILL]
    phone.is_down = False
    scene.clock.jump(6 * MINUTE)
    scene.run_sentinel()
    assert phone.texts == [PILL]
    async with scene.bot() as bot:
        await bot.advance(90)
        assert not [text for text in bot.told if "my watch" in text]
