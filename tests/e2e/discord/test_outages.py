"""Discord goes away and comes back: what was written meanwhile is answered, each message once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception
from devtools.doubles.repeating_store import RepeatingStore
from devtools.localdiscord.server import LocalDiscord
from tests.discord.connection_scene import restored_addresses
from tests.discord.input_scene import running_tasks
from tests.e2e.discord.discord_scene import DiscordScene
from tests.engine.scene import spoken
from tests.patience import eventually

from ollim_bot.domain.chat import Attachment
from ollim_bot.settings import Secret
from ollim_bot.surfaces.discord.surface import Account, DiscordSurface

# Discord gives a hundred messages at a time.
MANY, SOME = 120, 20
LOST = "Discord cannot be reached now."


@pytest.fixture
def scene(scene: DiscordScene) -> DiscordScene:
    """On a Discord without a low rate limit: with it, each of the many answers takes a second."""
    scene.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return scene


def heard(scene: DiscordScene) -> list[str]:
    """The numbered messages in the requests to the model, in order."""
    said = "\n".join(spoken(scene.model.requests[-1])) if scene.model.requests else ""
    return re.findall(r"^message \d+\b.*$", said, re.MULTILINE)


def written(discord: LocalDiscord, count: int = SOME) -> list[str]:
    """Write many messages, edit some and delete others; returns the remaining ones."""
    ids = [discord.say(f"message {number}") for number in range(count)]
    for message_id in ids[::7]:
        discord.edit(message_id, f"{discord.message(message_id).text}, corrected")
    for message_id in ids[::10]:
        discord.delete(message_id)
    return [discord.message(each).text for each in ids if not discord.message(each).is_deleted]


async def all_heard_once(scene: DiscordScene, left: list[str]) -> None:
    await scene.until(lambda: heard(scene)[-1:] == left[-1:] and not scene.bot.open_inputs())
    await scene.ask("and now", "Here again.")
    assert heard(scene) == left


async def test_all_that_was_written_during_an_outage_is_answered_once_in_order(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    await scene.discord.refuse_connections()
    left = written(scene.discord)
    await scene.until(lambda: LOST in scene.bot.output.read_text())
    await scene.discord.accept_again()
    await all_heard_once(scene, left)
    assert scene.discord.gateway.resumed == 0
    assert scene.discord.command_puts == 1


async def test_all_that_was_written_while_the_bot_was_off_is_answered_once_in_order(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    await scene.bot.stop()
    left = written(scene.discord, MANY)
    await scene.bot.start()
    await all_heard_once(scene, left)


async def test_a_socket_that_breaks_is_taken_up_again_and_nothing_is_missed(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    scene.discord.drop_gateway()
    left = written(scene.discord)
    await all_heard_once(scene, left)
    assert scene.discord.gateway.resumed == 1
    assert scene.discord.gateway.identified == 1


async def test_a_session_that_discord_has_forgotten_is_begun_anew_without_a_greeting(
    scene: DiscordScene,
) -> None:
    await scene.ask("hello", "Hi Ada.")
    before = len(scene.discord.said)
    scene.discord.drop_gateway(4000, resumable=False)
    left = written(scene.discord)
    await all_heard_once(scene, left)
    assert scene.discord.gateway.resumed == 0
    assert scene.discord.gateway.identified == 2
    assert scene.discord.command_puts == 1
    answers = {"ok", "Here again."}
    await scene.until(lambda: {each.text for each in scene.discord.said[before:]} <= answers)


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[tuple[LocalDiscord, FakeReception, ManualClock]]:
    """The Discord surface alone on a manual clock; it has received a first message."""
    clock = ManualClock(datetime(2026, 11, 15, 9, 0, tzinfo=UTC))
    reception = FakeReception(clock, folder)
    with restored_addresses():
        async with LocalDiscord(now=clock.now) as local:
            account = Account(Secret(local.token), api_url=local.api_url)
            surface = DiscordSurface(
                account, RepeatingStore(clock.now), _no_files, folder / "files", clock
            )
            reception.channels.append(surface)
            async with running_tasks(surface.run(reception)):
                await local.connected()
                local.say("heard")
                await eventually(lambda: _texts(reception) == ["heard"])
                yield local, reception, clock


@pytest.mark.parametrize("acks", [True, False], ids=["deaf", "without acks"])
async def test_a_gateway_that_brings_nothing_any_more_is_found_out(
    tmp_path: Path, acks: bool
) -> None:
    async with listening(tmp_path) as (local, reception, clock):
        local.silence_gateway(acks=acks)
        local.say("unheard")
        await clock.advance(121)
        await eventually(lambda: _texts(reception) == ["heard", "unheard"])
        await local.until(lambda: local.gateway.listeners)
        local.say("heard again")
        await eventually(lambda: len(reception.received) == 3)
        assert _texts(reception) == ["heard", "unheard", "heard again"]


async def test_what_a_broken_socket_had_missed_is_taken_as_it_stands_now(tmp_path: Path) -> None:
    async with listening(tmp_path) as (local, reception, _):
        local.drop_gateway()
        wrong, unwanted = local.say("wrnog"), local.say("never mind")
        local.edit(wrong, "wrong")
        local.delete(unwanted)
        await eventually(lambda: len(reception.received) == 2)
        local.say("heard again")
        await eventually(lambda: _texts(reception) == ["heard", "wrong", "heard again"])
        assert local.gateway.resumed == 1


def _texts(reception: FakeReception) -> list[str]:
    return [each.text for each in reception.received]


def _no_files(attachment: Attachment) -> BinaryIO:
    raise FileNotFoundError(attachment.path)
