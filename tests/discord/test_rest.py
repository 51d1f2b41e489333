"""A message reaches the owner by REST alone, as the bot would send it, and once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from devtools.localdiscord.faults import AnswerLost, Banned, Dropped, ErrorResponse, Fault
from devtools.localdiscord.server import LocalDiscord

from ollim_bot.domain.cards import Color
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.item_messages import item_message
from ollim_bot.domain.jobs import ItemKind, JobSpec, Reminder
from ollim_bot.domain.schedule import occurrence_at
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.settings import Secret
from ollim_bot.surfaces.discord import translation
from ollim_bot.surfaces.discord.rendering import outgoing_of, parts_of
from ollim_bot.surfaces.discord.rest import COLORS, DiscordRest, components_of, embed_of
from ollim_bot.upkeep.direct_channels import LookUp

SEND = "POST /channels/*/messages"
READ = "GET /channels/*/messages"
NONCE = "5" * 24


@dataclass
class Time:
    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
async def server() -> AsyncIterator[LocalDiscord]:
    async with LocalDiscord() as server:
        yield server


def pill(*, is_dose: bool = False, words: str = "Take the blue pill.") -> ChatMessage:
    now = datetime.now(UTC)
    kind = ItemKind.DOSE if is_dose else None
    job = Reminder(JobSpec(id="pill", message=words, kind=kind), now)
    return item_message(job, occurrence_at(job, now), now, "It came from the watch.")[0]


def new(message: ChatMessage, *, is_in_doubt: bool = False, others: Sequence[str] = ()) -> LookUp:
    return LookUp(others, message.at - timedelta(minutes=10), is_in_doubt)


def rest(server: LocalDiscord, dm: str = "", time: Time | None = None) -> DiscordRest:
    return DiscordRest(Secret(server.token), None, server.api_url, dm, time or Time())


async def delivered(
    channel: DiscordRest, message: ChatMessage, *, is_in_doubt: bool = False
) -> str:
    look = new(message, is_in_doubt=is_in_doubt)
    return await asyncio.to_thread(channel.deliver, message, NONCE, look)


async def test_the_card_arrives_with_its_buttons_where_the_channel_is_not_known(
    server: LocalDiscord,
) -> None:
    message = pill()
    ref = await delivered(rest(server), message)
    (said,) = server.said
    assert said.id == ref
    (embed,) = said.embeds
    assert embed["title"] == "Take the blue pill."
    assert embed["footer"]["text"] == "It came from the watch."
    row, *_ = said.components
    assert [each["label"] for each in row["components"]][:2] == ["Done", "Snooze 10 min"]


@pytest.mark.parametrize("is_dose", [False, True])
def test_the_request_is_the_one_that_the_bot_makes(is_dose: bool) -> None:
    outgoing = outgoing_of(parts_of(pill(is_dose=is_dose))[0])
    card = outgoing.card
    assert card is not None
    view = translation.view_of(card.buttons)
    assert view is not None
    theirs = translation.embed_of(card, outgoing.card_footer).to_dict()
    # discord.py adds flags, of which there are none.
    assert embed_of(card, outgoing.card_footer) | {"flags": 0} == {"flags": 0, **theirs}
    assert components_of(card.buttons) == view.to_components()
    for color in Color:
        assert COLORS[color] == translation._COLORS[color].value


async def test_a_second_send_finds_the_first_by_its_nonce_or_its_words(
    server: LocalDiscord,
) -> None:
    message = pill()
    first = await delivered(rest(server), message)
    assert await delivered(rest(server), message, is_in_doubt=True) == first
    server.forget_nonces()
    assert await delivered(rest(server), message, is_in_doubt=True) == first
    assert len(server.said) == 1


async def test_the_same_words_of_another_day_are_another_message(server: LocalDiscord) -> None:
    message = pill()
    first = await delivered(rest(server), message)
    server.forget_nonces()
    look = new(message, others=[first])
    second = await asyncio.to_thread(rest(server).deliver, message, "6" * 24, look)
    assert second != first


@pytest.mark.parametrize("fault", [AnswerLost(), Dropped(), ErrorResponse(502)])
async def test_a_lost_answer_leads_to_one_message(server: LocalDiscord, fault: Fault) -> None:
    server.next_fail(SEND, fault)
    await delivered(rest(server), pill())
    assert len(server.said) == 1


async def test_what_cannot_be_found_out_is_said(server: LocalDiscord) -> None:
    server.next_fail(SEND, ErrorResponse(502), None)
    with pytest.raises(DeliveryUncertain):
        await delivered(rest(server), pill())


async def test_in_doubt_nothing_is_sent_where_the_messages_are_hidden(server: LocalDiscord) -> None:
    server.next_fail(READ, ErrorResponse(403, 50001), None)
    with pytest.raises(DeliveryUncertain):
        await delivered(rest(server), pill(), is_in_doubt=True)
    assert server.said == []
    await delivered(rest(server), pill())
    assert len(server.said) == 1


async def test_a_rate_limit_is_waited_for(server: LocalDiscord) -> None:
    server.next_fail(SEND, ErrorResponse(429, after=2.5))
    time = Time()
    await delivered(rest(server, time=time), pill())
    assert time.slept == [2.5]
    assert len(server.said) == 1


@pytest.mark.parametrize("fault", [ErrorResponse(429, after=900.0), Banned()])
async def test_a_long_rate_limit_is_left_to_the_next_run(
    server: LocalDiscord, fault: Fault
) -> None:
    server.next_fail(SEND, fault)
    with pytest.raises(Unreachable):
        await delivered(rest(server, time=(time := Time())), pill())
    assert time.slept == []


async def test_a_dead_network_and_a_wrong_token_send_nothing(server: LocalDiscord) -> None:
    channel = rest(server)
    server.revoke_token()
    with pytest.raises(Unreachable, match="token"):
        await delivered(channel, pill())
    await server.refuse_connections()
    with pytest.raises(Unreachable, match="reached"):
        await delivered(rest(server), pill())


async def test_a_refusal_for_good_is_one(server: LocalDiscord) -> None:
    server.next_fail(SEND, ErrorResponse(403, 50007))
    with pytest.raises(DeliveryFailed):
        await delivered(rest(server), pill())


async def test_the_channel_of_another_account_is_replaced(server: LocalDiscord) -> None:
    await delivered(rest(server, dm="1"), pill())
    assert len(server.said) == 1


async def test_a_team_needs_to_say_for_whom_it_works() -> None:
    async with LocalDiscord(members=("ada",)) as server:
        with pytest.raises(Unreachable, match="DISCORD_OWNER_ID"):
            await delivered(rest(server), pill())
        chosen = DiscordRest(Secret(server.token), int(server.owner.id), server.api_url, "", Time())
        await delivered(chosen, pill())
        assert len(server.said) == 1


async def test_what_was_written_a_while_ago_says_so(server: LocalDiscord) -> None:
    message = pill()
    late = ChatMessage(
        message.id,
        message.at - timedelta(minutes=5),
        message.author,
        message.text,
        card=message.card,
    )
    await delivered(rest(server), late)
    (said,) = server.said
    assert said.embeds[0]["footer"]["text"].startswith("late · written ")
