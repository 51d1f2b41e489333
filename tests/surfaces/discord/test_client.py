"""A connection to Discord: who gets in, what makes it end, and how it comes back."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

import pytest
from devtools.localdiscord.faults import Dropped, ErrorResponse, Fault
from devtools.localdiscord.server import LocalDiscord
from discord.gateway import DiscordWebSocket
from discord.http import Route
from tests.patience import eventually
from tests.surfaces.discord.connection_scene import connection_scene, restored_addresses
from tests.surfaces.discord.input_scene import SlowStore, running_tasks
from yarl import URL

from ollim_bot.kernel.base.errors import Unreachable
from ollim_bot.surfaces.discord.client import use_api_url
from ollim_bot.surfaces.discord.errors import NO_INTENTS, NO_OWNER, NO_TOKEN, NotAdmitted
from ollim_bot.surfaces.discord.translation import DiscordFacts

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


async def test_the_owner_is_known_before_anything_is_heard() -> None:
    async with connection_scene(LocalDiscord()) as scene, scene.served():
        ((session, is_first),) = scene.heard.ready_calls
        assert is_first
        assert (session.owner, session.us) == (int(scene.local.owner.id), int(scene.local.bot.id))
        assert session == scene.connection.session
        assert [each.name for each in scene.local.requests] == [
            "GET /gateway",
            "GET /users/@me",
            "GET /oauth2/applications/@me",
            "POST /users/@me/channels",
            f"GET /channels/{session.dm}/messages",
        ]


async def test_the_start_is_told_before_the_first_message() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        serving = asyncio.create_task(scene.connection.run())
        await scene.local.connected()
        scene.local.say("early")
        await scene.local.until(lambda: scene.heard.messages)
        serving.cancel()
        await asyncio.wait([serving])
        assert scene.heard.order == ["ready", "early"]


async def test_no_more_is_asked_to_be_seen_than_direct_messages() -> None:
    async with connection_scene(LocalDiscord()) as scene, scene.served():
        (session,) = scene.local.gateway.sessions.values()
        assert session.intents == 1 << 12 | 1 << 13


async def test_words_below_the_name_are_shown_from_the_start_and_exchanged() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        await scene.connection.show_status("one")
        async with scene.served():
            assert scene.local.gateway.shown == "one"
            await scene.connection.show_status("two")
            await scene.local.until(lambda: scene.local.gateway.shown == "two")


async def test_in_a_team_the_named_member_is_the_owner() -> None:
    local = LocalDiscord(members=["second"])
    assert local.team is not None
    member = int(local.team[1].id)
    async with connection_scene(local, owner_id=member) as scene, scene.served():
        ((session, _),) = scene.heard.ready_calls
        assert session.owner == member


async def test_in_a_team_nobody_is_served_before_the_owner_is_named() -> None:
    async with connection_scene(LocalDiscord(members=["second"])) as scene:
        with pytest.raises(NotAdmitted) as refused:
            await asyncio.wait_for(scene.connection.run(), 10)
        assert str(refused.value) == NO_OWNER
        assert refused.value.exit_code == 2
        assert scene.local.gateway.identified == 0


async def test_somebody_outside_the_team_cannot_be_its_owner() -> None:
    async with connection_scene(LocalDiscord(members=["second"]), owner_id=7) as scene:
        with pytest.raises(NotAdmitted, match="`DISCORD_OWNER_ID` is 7"):
            await asyncio.wait_for(scene.connection.run(), 10)
        assert scene.local.gateway.identified == 0


async def test_a_wrong_token_is_said_and_not_tried_again() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        with pytest.raises(NotAdmitted) as refused:
            await asyncio.wait_for(scene.connect("wrong").run(), 10)
        assert str(refused.value) == NO_TOKEN
        assert refused.value.exit_code == 2
        assert len(scene.local.requests) == 2


async def test_a_token_that_is_taken_back_is_said() -> None:
    async with connection_scene(LocalDiscord()) as scene, scene.served() as serving:
        scene.local.revoke_token()
        with pytest.raises(NotAdmitted, match="refused the token"):
            await asyncio.wait_for(serving, 30)


async def test_what_may_not_be_seen_is_said() -> None:
    async with connection_scene(LocalDiscord(granted_intents=0)) as scene:
        with pytest.raises(NotAdmitted) as refused:
            await asyncio.wait_for(scene.connection.run(), 10)
        assert str(refused.value) == NO_INTENTS


@pytest.mark.parametrize(
    ("request_name", "fault"),
    [
        ("GET /users/@me", ErrorResponse(503)),
        ("GET /users/@me", Dropped()),
        ("GET /users/@me", ErrorResponse(200)),
        ("GET /oauth2/*", ErrorResponse(503)),
        ("POST /users/@me/channels", ErrorResponse(403)),
        ("POST /users/@me/channels", Dropped()),
        ("WS /gateway", ErrorResponse(503)),
        ("WS /gateway", Dropped()),
    ],
)
async def test_a_first_try_that_fails_is_worth_another(request_name: str, fault: Fault) -> None:
    async with connection_scene(LocalDiscord()) as scene:
        scene.local.next_fail(request_name, fault, times=None)
        with pytest.raises(Unreachable):
            await asyncio.wait_for(scene.connection.run(), 10)

        scene.local.mend()
        scene.connection = scene.connect()
        async with scene.served():
            assert len(scene.heard.ready_calls) == 1


async def test_a_network_that_goes_away_ends_it() -> None:
    async with connection_scene(LocalDiscord()) as scene, scene.served() as serving:
        await scene.local.refuse_connections()
        with pytest.raises(Unreachable):
            await asyncio.wait_for(serving, 30)
        assert scene.connection.session is None


@pytest.mark.parametrize("code", [None, 1000, 1001, 4000, 4009])
async def test_a_socket_that_breaks_is_resumed_and_nothing_is_missed(code: int | None) -> None:
    async with connection_scene(LocalDiscord()) as scene, scene.served():
        scene.local.drop_gateway(code)
        scene.local.say("meanwhile")
        await scene.local.until(lambda: scene.heard.resumes and scene.heard.messages)
        assert scene.heard.order == ["ready", "disconnected", "meanwhile"]
        assert len(scene.heard.ready_calls) == 1


async def test_a_reconnect_by_hand_misses_nothing() -> None:
    async with connection_scene(LocalDiscord()) as scene, scene.served():
        scene.local.silence_gateway()
        scene.local.say("unheard")
        await scene.connection.reconnect()
        await scene.local.until(lambda: scene.heard.messages)
        assert scene.heard.words == ["unheard"]
        assert scene.local.gateway.identified == 1


async def test_a_reconnect_without_a_connection_does_nothing() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        await scene.connection.reconnect()
        async with scene.served():
            pass
        await scene.connection.reconnect()


async def test_a_repeated_start_of_the_session_is_no_first_one() -> None:
    async with connection_scene(LocalDiscord()) as scene, scene.served():
        (session,) = scene.local.gateway.sessions.values()
        scene.local.gateway.tell("READY", session.frames[0]["d"])
        await scene.local.until(lambda: len(scene.heard.ready_calls) == 2)
        assert [is_first for _, is_first in scene.heard.ready_calls] == [True, False]


async def test_a_silent_socket_is_replaced_and_nothing_is_missed() -> None:
    local = LocalDiscord(heartbeat_interval=0.05)
    async with connection_scene(local, longest_silence=0.3) as scene, scene.served():
        local.silence_gateway(acks=False)
        local.say("unheard")
        await local.until(lambda: scene.heard.messages)
        assert scene.heard.words == ["unheard"]
        assert local.gateway.identified == 1


async def test_a_gateway_that_does_not_come_back_ends_it() -> None:
    local = LocalDiscord(heartbeat_interval=0.05)
    async with connection_scene(local, longest_silence=0.3) as scene, scene.served() as serving:
        local.silence_gateway(acks=False)
        local.next_fail("WS /gateway", Dropped(), times=None)
        with pytest.raises(Unreachable):
            await asyncio.wait_for(serving, 30)


async def test_the_end_is_quick_and_discord_is_told() -> None:
    async with connection_scene(LocalDiscord()) as scene:
        async with scene.served() as serving:
            await asyncio.wait_for(scene.connection.close(), 30)
            await asyncio.wait_for(serving, 30)
        await scene.local.until(lambda: not scene.local.gateway.lines)
        assert scene.connection.session is None


async def test_an_ordinary_start_has_no_line_of_discord_py(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with connection_scene(LocalDiscord()) as scene, scene.served():
        behind = "Can't keep up, shard ID %s websocket is %.1fs behind."
        logging.getLogger("discord.gateway").warning(behind, None, 12.5)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    assert [each for each in caplog.records if each.name.startswith("discord")] == []


async def test_the_token_is_in_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connection_scene(LocalDiscord()) as scene:
        async with scene.served():
            scene.local.drop_gateway()
            await scene.local.until(lambda: scene.heard.resumes)
        with pytest.raises(NotAdmitted):
            await asyncio.wait_for(scene.connect("wrong-token-of-mine").run(), 10)
        assert "RESUMED" in caplog.text
        assert scene.local.token not in caplog.text
        assert "wrong-token-of-mine" not in caplog.text


def addresses() -> tuple[str, URL]:
    return Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY


async def test_another_address_is_asked_for_its_gateway() -> None:
    with restored_addresses():
        async with LocalDiscord() as local:
            await use_api_url(f"{local.api_url}/")
            assert addresses() == (local.api_url, URL(local.gateway_url))


async def test_no_address_or_one_that_does_not_answer_changes_nothing() -> None:
    before = addresses()
    await use_api_url(None)
    async with LocalDiscord() as local:
        with pytest.raises(Unreachable, match="`DISCORD_API_URL`"):
            await use_api_url(f"{local.url}/elsewhere")
        await local.refuse_connections()
        with pytest.raises(Unreachable, match="`DISCORD_API_URL`"):
            await use_api_url(local.api_url)
    assert addresses() == before


async def test_what_was_said_is_known_at_once_and_on_disk_soon() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    assert await facts.last_seen() is await facts.commands_hash() is None
    assert await facts.drafts() == ()
    facts.saw("7")
    facts.keep_commands_hash("abc")
    facts.add_draft("8")
    assert await facts.last_seen() == "7"
    assert await facts.commands_hash() == "abc"
    assert await facts.drafts() == ("8",)
    async with running_tasks(facts.run()):
        await eventually(lambda: store.writes)
    later = DiscordFacts(store)
    assert await later.last_seen() == "7"
    assert await later.commands_hash() == "abc"
    assert await later.drafts() == ("8",)


async def test_what_was_seen_goes_forward_only() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    facts.saw("10")
    facts.saw("9")
    assert await facts.last_seen() == "10"
    assert await facts.flush()
    facts.saw("8")
    assert await facts.flush()
    assert await DiscordFacts(store).last_seen() == "10"


async def test_many_are_written_in_one_go() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    store.may_write.clear()
    async with running_tasks(facts.run()):
        for number in range(1, 151):
            facts.saw(str(number))
        store.may_write.set()
        await eventually(lambda: store.discord.last_seen == "150")
    assert store.writes <= 2


async def test_what_is_said_while_the_disk_writes_is_not_forgotten() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    store.may_write.clear()
    async with running_tasks(facts.run()):
        facts.saw("1")
        facts.add_draft("5")
        await eventually(lambda: store.begun)
        facts.saw("2")
        facts.remove_draft("5")
        store.may_write.set()
        await eventually(lambda: store.discord.last_seen == "2")
    assert store.discord.drafts == ()


async def test_a_disk_that_refuses_takes_nothing_away() -> None:
    store = SlowStore()
    facts = DiscordFacts(store)
    store.is_full = True
    facts.saw("1")
    facts.add_draft("5")
    assert not await facts.flush()
    assert await facts.last_seen() == "1"
    store.is_full = False
    assert await facts.flush()
    assert await DiscordFacts(store).drafts() == ("5",)
    assert await facts.flush()
    assert store.writes == 1
