"""What the doctor says of Discord, asked over the wire."""

from __future__ import annotations

import asyncio

import pytest
from devtools.localdiscord.faults import Banned, Dropped, Fault
from devtools.localdiscord.server import LocalDiscord

from ollim_bot.settings import Secret
from ollim_bot.upkeep.checks.network import ask, discord_account
from ollim_bot.upkeep.doctor import DoctorFinding, Level, passed


async def found(local: LocalDiscord, owner_id: int | None = None, token: str = "") -> DoctorFinding:
    secret = Secret(token or local.token)

    finding = await asyncio.to_thread(discord_account, secret, owner_id, local.api_url, ask)
    assert secret.reveal() not in f"{finding}"
    return finding


async def test_a_right_token_is_shown_with_bot_and_owner() -> None:
    async with LocalDiscord() as local:
        assert await found(local) == passed("ollim is let in, for owner")
        assert [note.name for note in local.requests] == [
            "GET /users/@me",
            "GET /oauth2/applications/@me",
        ]


async def test_a_wrong_token_is_a_failure() -> None:
    async with LocalDiscord() as local:
        finding = await found(local, token="MTIz.wrong.token")
    assert (finding.level, finding.detail) == (Level.FAIL, "Discord refused the token")
    assert "`ollim-bot setup discord`" in finding.next


async def test_an_application_of_a_team_needs_to_know_for_whom() -> None:
    async with LocalDiscord(members=["ada"]) as local:
        assert local.team is not None
        ada = local.team[1]
        unknown = await found(local)
        assert unknown.level is Level.FAIL
        assert "nobody says for which member" in unknown.detail
        assert "`DISCORD_OWNER_ID`" in unknown.next
        stranger = await found(local, int(local.stranger.id))
        assert stranger.level is Level.FAIL
        assert local.stranger.id in stranger.detail
        right = passed("ollim is let in, for ada of the team")
        assert await found(local, int(ada.id)) == right


async def test_an_owner_id_that_has_no_say_is_a_warning() -> None:
    async with LocalDiscord() as local:
        assert (await found(local, int(local.owner.id))).level is Level.PASS
        finding = await found(local, int(local.stranger.id))
    assert finding.level is Level.WARN
    assert finding.detail.startswith("ollim is for owner, and not for")


@pytest.mark.parametrize(
    ("fault", "level"),
    [(503, Level.WARN), (429, Level.WARN), (Dropped(), Level.WARN), (404, Level.FAIL)],
)
@pytest.mark.parametrize("path", ["/users/@me", "/oauth2/applications/@me"])
async def test_what_will_pass_is_a_warning_only(
    fault: Fault | int, level: Level, path: str
) -> None:
    async with LocalDiscord() as local:
        local.next_fail(f"GET {path}", fault)
        finding = await found(local)
    assert finding.level is level
    assert finding.next


async def test_whoever_stands_before_discord_and_speaks_no_json_is_no_crash() -> None:
    async with LocalDiscord() as local:
        local.next_fail("GET /users/@me", Banned())
        assert (await found(local)).level is not Level.PASS


async def test_nobody_at_the_other_end_is_a_warning() -> None:
    async with LocalDiscord() as local:
        address = local.api_url
    finding = discord_account(Secret("any"), None, address, ask)
    assert finding.level is Level.WARN


def test_without_a_token_nobody_is_asked() -> None:
    finding = discord_account(None, None, "http://127.0.0.1:1", ask)
    assert (finding.level, finding.detail[:10]) == (Level.OFF, "not set up")
