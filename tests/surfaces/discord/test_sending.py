"""A message reaches the owner without a connection, as the bot would send it, and once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.localdiscord.faults import AnswerLost, Banned, Dropped, ErrorResponse, Fault
from devtools.localdiscord.server import LocalDiscord

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.conversation.delivery import DeliveryQueue
from ollim_bot.kernel.store.attachments.attachment_files import files_of
from ollim_bot.kernel.store.opening import RowsInMemory
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.item_messages import item_message
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.schedule import occurrence_at
from ollim_bot.surfaces.discord.surface import Account, DiscordSurface

SEND = "POST /channels/*/messages"
READ = "GET /channels/*/messages"


class Sender:
    """A program without a connection, with rows of its own."""

    def __init__(self, server: LocalDiscord, owner_id: int | None = None) -> None:
        clock = SystemClock(UTC)
        self.store = DatabaseStore(RowsInMemory.empty(clock.now), clock)
        self.store.run(lambda tx: tx.channels.join("discord", ""))
        account = Account(Secret(server.token), owner_id, server.api_url)
        opener = files_of(Path("/data"), Path("/data/kept"))
        self.channel = DiscordSurface(account, self.store, opener, Path("/data"), clock)
        self.queue = DeliveryQueue(self.store, self.channel, clock, suspects=True)

    async def send(self, message: ChatMessage, *, is_in_doubt: bool = False) -> str:
        """Why it did not arrive."""

        def add(tx: Transaction) -> None:
            tx.messages.add(message)
            if is_in_doubt:
                tx.deliveries.require("discord", message.id, (), message.at)

        self.store.run(add)
        try:
            async with self.channel.sending(keeps_rows=True):
                return await self.queue.deliver(message.id)
        except OllimError as refused:
            return str(refused)
        finally:
            await self.store.close()


@pytest.fixture
async def server() -> AsyncIterator[LocalDiscord]:
    async with LocalDiscord() as server:
        yield server


def pill(age: timedelta = timedelta(0)) -> ChatMessage:
    now = datetime.now(UTC)
    job = Reminder(JobSpec(id="pill", message="Take the blue pill."), now - age)
    occurrence = occurrence_at(job, now - age)
    return replace(item_message(job, occurrence, now, "It came from the watch.")[0], must=True)


async def test_the_card_arrives_with_its_buttons(server: LocalDiscord) -> None:
    assert await Sender(server).send(pill()) == ""
    (said,) = server.said
    (embed,) = said.embeds
    assert embed["title"] == "Take the blue pill."
    assert embed["footer"]["text"] == "It came from the watch."
    row, *_ = said.components
    assert [each["label"] for each in row["components"]][:2] == ["Done", "Snooze 10 min"]


async def test_what_was_due_a_while_ago_is_looked_up_before_it_is_sent(
    server: LocalDiscord,
) -> None:
    message = pill(timedelta(minutes=5))
    for _ in range(3):
        assert await Sender(server).send(message) == ""
        server.forget_nonces()
    assert await Sender(server).send(message, is_in_doubt=True) == ""
    assert len(server.said) == 1


@pytest.mark.parametrize("fault", [AnswerLost(), Dropped(), ErrorResponse(502)])
async def test_a_lost_answer_leads_to_one_message(server: LocalDiscord, fault: Fault) -> None:
    server.next_fail(SEND, fault)
    assert await Sender(server).send(pill()) == ""
    assert len(server.said) == 1


async def test_in_doubt_nothing_is_sent_where_the_messages_are_hidden(server: LocalDiscord) -> None:
    server.next_fail(READ, ErrorResponse(403, 50001), None)
    assert await Sender(server).send(pill(), is_in_doubt=True)
    assert server.said == []
    assert await Sender(server).send(pill(timedelta(minutes=5))) == ""
    assert len(server.said) == 1


async def test_a_rate_limit_is_waited_for(server: LocalDiscord) -> None:
    server.next_fail(SEND, ErrorResponse(429, after=0.5))
    assert await Sender(server).send(pill()) == ""
    assert len(server.said) == 1


@pytest.mark.parametrize("fault", [ErrorResponse(429, after=900.0), Banned(), None])
async def test_what_cannot_be_sent_now_is_left_to_the_next_run(
    server: LocalDiscord, fault: Fault | None
) -> None:
    sender, message = Sender(server), pill()
    if fault is None:
        await server.refuse_connections()
    else:
        server.next_fail(SEND, fault)
    assert await sender.send(message)
    assert server.said == []


async def test_a_wrong_token_is_said(server: LocalDiscord) -> None:
    sender = Sender(server)
    server.revoke_token()
    assert "refused the token" in await sender.send(pill())


async def test_a_refusal_for_good_is_one(server: LocalDiscord) -> None:
    server.next_fail(SEND, ErrorResponse(403, 50007))
    assert "does not let the bot write" in await Sender(server).send(pill())


async def test_a_team_needs_to_say_for_whom_it_works() -> None:
    async with LocalDiscord(members=("ada",)) as server:
        assert "belongs to a team" in await Sender(server).send(pill())
        assert await Sender(server, int(server.owner.id)).send(pill()) == ""
        assert len(server.said) == 1
