"""Discord goes away and comes back: what was written meanwhile is answered, each message once."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest
from devtools.localdiscord.server import LocalDiscord
from tests.discord.connection_scene import restored_addresses
from tests.discord.input_scene import eventually, running_tasks
from tests.e2e.discord.talk import Talk
from tests.engine.scene import spoken

from ollim_bot.domain.chat import Attachment
from ollim_bot.settings import Secret
from ollim_bot.surfaces.discord.surface import Account, DiscordSurface
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.reception import FakeReception
from ollim_bot.testing.repeating_store import RepeatingStore

# Discord gives a hundred messages at a time.
MANY, SOME = 120, 20
LOST = "Discord cannot be reached now."


@pytest.fixture
def talk(talk: Talk) -> Talk:
    """The owner's messages come in a row, and each may be answered before the next is there: on a
    Discord with the usual allowance that takes a second for each answer."""
    talk.discord.allowance(1000, 1.0, of=("send", "edit", "delete", "react"))
    return talk


def heard(talk: Talk) -> list[str]:
    """The numbered messages that the model knows of by now, in its order."""
    said = "\n".join(spoken(talk.model.requests[-1])) if talk.model.requests else ""
    return re.findall(r"^message \d+\b.*$", said, re.MULTILINE)


def written(discord: LocalDiscord, count: int = SOME) -> list[str]:
    """The owner writes many messages, edits some and deletes others; gives those that are left."""
    ids = [discord.say(f"message {number}") for number in range(count)]
    for message_id in ids[::7]:
        discord.edit(message_id, f"{discord.message(message_id).text}, corrected")
    for message_id in ids[::10]:
        discord.delete(message_id)
    return [discord.message(each).text for each in ids if not discord.message(each).is_deleted]


async def all_heard_once(talk: Talk, left: list[str]) -> None:
    await talk.until(lambda: heard(talk)[-1:] == left[-1:] and not talk.bot.open_inputs())
    await talk.ask("and now", "Here again.")
    assert heard(talk) == left


async def test_all_that_was_written_during_an_outage_is_answered_once_in_order(talk: Talk) -> None:
    await talk.ask("hello", "Hi Ada.")
    await talk.discord.refuse_connections()
    left = written(talk.discord, MANY)
    await talk.until(lambda: LOST in talk.bot.output.read_text())
    await talk.discord.accept_again()
    await all_heard_once(talk, left)
    assert talk.discord.gateway.resumed == 0
    assert talk.discord.command_puts == 1


async def test_all_that_was_written_while_the_bot_was_off_is_answered_once_in_order(
    talk: Talk,
) -> None:
    await talk.ask("hello", "Hi Ada.")
    await talk.bot.stop()
    left = written(talk.discord, MANY)
    await talk.bot.start()
    await all_heard_once(talk, left)


async def test_a_socket_that_breaks_is_taken_up_again_and_nothing_is_missed(talk: Talk) -> None:
    await talk.ask("hello", "Hi Ada.")
    talk.discord.drop_gateway()
    left = written(talk.discord)
    await all_heard_once(talk, left)
    assert talk.discord.gateway.resumed == 1
    assert talk.discord.gateway.identified == 1


async def test_a_session_that_discord_has_forgotten_is_begun_anew_without_a_greeting(
    talk: Talk,
) -> None:
    await talk.ask("hello", "Hi Ada.")
    before = len(talk.discord.said)
    talk.discord.drop_gateway(4000, resumable=False)
    left = written(talk.discord)
    await all_heard_once(talk, left)
    assert talk.discord.gateway.resumed == 0
    assert talk.discord.gateway.identified == 2
    assert talk.discord.command_puts == 1
    answers = {"ok", "Here again."}
    await talk.until(lambda: {each.text for each in talk.discord.said[before:]} <= answers)


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[tuple[LocalDiscord, FakeReception, ManualClock]]:
    """The surface in this process, where a test moves its clock; it has heard something."""
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
