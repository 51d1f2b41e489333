"""What the doctor says of Discord and the page, asked over the wire, and of Google's files."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import A_FRACTION
from devtools.localdiscord.faults import Banned, Dropped, Fault
from devtools.localdiscord.server import LocalDiscord
from tests.features.doctor.doctor_table import look, told
from tests.features.google.scene import START, GoogleScene, google_scene
from tests.ports import unused_port
from tests.surfaces.web.scene import make_scene, running

from ollim_bot.features.doctor.machine_checks import hosts, page
from ollim_bot.features.google.google_values import SCOPES, GoogleService
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.base.errors import SignInNeeded
from ollim_bot.kernel.base.http_exchange import HttpAnswer, ask, why_not_free
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.upkeep.findings import DoctorFinding, DoctorInput, Level, passed
from ollim_bot.surfaces.discord.account import discord_account


async def of_discord(
    local: LocalDiscord, owner_id: int | None = None, token: str = ""
) -> DoctorFinding:
    secret = Secret(token or local.token)

    finding = await asyncio.to_thread(discord_account, secret, owner_id, local.api_url, ask)
    assert secret.reveal() not in f"{finding}"
    return finding


async def test_a_right_token_is_shown_with_bot_and_owner() -> None:
    async with LocalDiscord() as local:
        assert await of_discord(local) == passed("ollim is let in, for owner")
        assert [note.name for note in local.requests] == [
            "GET /users/@me",
            "GET /oauth2/applications/@me",
        ]


async def test_a_wrong_token_is_a_failure() -> None:
    async with LocalDiscord() as local:
        finding = await of_discord(local, token="MTIz.wrong.token")
    assert (finding.level, finding.detail) == (Level.FAIL, "Discord refused the token")
    assert "`ollim-bot setup discord`" in finding.next


async def test_an_application_of_a_team_needs_to_know_for_whom() -> None:
    async with LocalDiscord(members=["ada"]) as local:
        assert local.team is not None
        ada = local.team[1]
        unknown = await of_discord(local)
        assert unknown.level is Level.FAIL
        assert "nobody says for which member" in unknown.detail
        assert "`DISCORD_OWNER_ID`" in unknown.next
        stranger = await of_discord(local, int(local.stranger.id))
        assert stranger.level is Level.FAIL
        assert local.stranger.id in stranger.detail
        right = passed("ollim is let in, for ada of the team")
        assert await of_discord(local, int(ada.id)) == right


async def test_an_owner_id_that_has_no_say_is_a_warning() -> None:
    async with LocalDiscord() as local:
        assert (await of_discord(local, int(local.owner.id))).level is Level.PASS
        finding = await of_discord(local, int(local.stranger.id))
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
        finding = await of_discord(local)
    assert finding.level is level
    assert finding.next


async def test_whoever_stands_before_discord_and_speaks_no_json_is_no_crash() -> None:
    async with LocalDiscord() as local:
        local.next_fail("GET /users/@me", Banned())
        assert (await of_discord(local)).level is not Level.PASS


async def test_nobody_at_the_other_end_is_a_warning() -> None:
    async with LocalDiscord() as local:
        address = local.api_url
    finding = discord_account(Secret("any"), None, address, ask)
    assert finding.level is Level.WARN


def test_without_a_token_nobody_is_asked() -> None:
    finding = discord_account(None, None, "http://127.0.0.1:1", ask)
    assert (finding.level, finding.detail[:10]) == (Level.OFF, "not set up")


def of_google(scene: GoogleScene) -> list[tuple[Level, str]]:
    place = Location(scene.paths, ZoneInfo("Europe/Berlin"))
    given = DoctorInput(None, place, (), {}, scene.clock.now())
    findings = look(given, "Google")
    assert all(each.next or each.level.is_right for each in findings)
    return [(each.level, each.detail) for each in findings]


def test_the_doctor_says_how_google_is_connected(tmp_path: Path) -> None:
    with google_scene(tmp_path) as scene:
        nothing = (Level.OFF, "not connected; `/google-auth` in the chat connects it")
        assert of_google(scene) == [nothing]
        scene.connect(SCOPES[GoogleService.TASKS])
        assert of_google(scene) == [(Level.PASS, "connected as ada@example.com: tasks")]

        scene.google.sign_ins.refresh_lasts = timedelta(days=7)
        scene.connect()
        ((level, detail),) = of_google(scene)
        assert level is Level.WARN
        assert detail.endswith("tasks, calendar and mail; Google ends it Mon 23 Nov 09:59")

        scene.google.sign_ins.revoke_everything()
        with pytest.raises(SignInNeeded):
            scene.client().call("GET", "/tasks/v1/users/@me/lists")
        ended = "the connection to ada@example.com was revoked or has expired"
        assert of_google(scene) == [(Level.WARN, ended)]
        scene.tokens.forget()
        assert of_google(scene) == [nothing]
        assert scene.google.named("GET /gmail/v1/users/me/profile") == []
    assert scene.clock.now() == START + A_FRACTION


def test_files_of_google_that_are_wrong_or_open_are_named(tmp_path: Path) -> None:
    with google_scene(tmp_path) as scene:
        scene.connect()
        scene.paths.credentials.write_text('{"web": {}}')
        scene.paths.credentials.chmod(0o640)
        scene.paths.token.write_text("garbage")
        opened, client, token = of_google(scene)
    assert opened == (Level.WARN, "others on this machine can read state/credentials.json")
    assert client == (Level.FAIL, "state/credentials.json is not right")
    assert token[0] is Level.FAIL
    assert token[1].startswith("state/token.json is not a token of ollim-bot.")
    assert scene.paths.credentials.stat().st_mode & 0o777 == 0o640


def of_page(
    port: int | None, *, is_running: bool = False, has_discord: bool = False
) -> DoctorFinding:
    (finding,) = told("page", page(port, ask, is_running=is_running, has_discord=has_discord))
    return replace(finding, name="")


def test_a_free_port_is_right_and_still_free_afterwards() -> None:
    port = unused_port()
    assert of_page(port) == passed(f"port {port} is free")
    assert why_not_free(port) == ""


def test_names_that_are_of_no_use_to_the_page_are_told() -> None:
    assert list(hosts(["ollim.example.org"], 8421)) == []
    (without_page,) = hosts(["ollim.example.org"], None)
    assert without_page.detail == "OLLIM_WEB_HOSTS has no effect, since the page is off"
    (everywhere,) = hosts(["0.0.0.0", "x.org"], 8421)
    assert everywhere.detail == "OLLIM_WEB_HOSTS: 0.0.0.0 is no name of a machine"


def test_a_running_bot_without_its_page_is_a_failure() -> None:
    assert of_page(unused_port(), is_running=True).level is Level.FAIL


async def test_the_running_bot_answers_for_its_page(tmp_path: Path) -> None:
    async with running(make_scene(tmp_path)) as scene:
        port = scene.surface.port
        finding = await asyncio.to_thread(of_page, port, is_running=True)
        assert finding == passed(f"the bot answers at port {port}")
        other = await asyncio.to_thread(of_page, port)
    assert (other.level, other.detail) == (Level.FAIL, f"another ollim-bot has port {port}")


@pytest.mark.parametrize("words", [b"", b"220 mail\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}"])
def test_a_port_of_another_program_is_a_failure_whatever_it_says(words: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]

        def answer() -> None:
            visitor, _ = server.accept()
            with visitor:
                visitor.recv(4096)
                visitor.sendall(words)

        thread = Thread(target=answer, daemon=True)
        thread.start()
        finding = of_page(port, is_running=True)
        thread.join(10)
    assert (finding.level, finding.detail) == (Level.FAIL, f"another program has port {port}")
    assert "OLLIM_WEB_PORT" in finding.next


def test_a_port_that_may_not_be_used_is_a_failure() -> None:
    def refused(_: str, __: Mapping[str, str]) -> HttpAnswer:
        raise ConnectionRefusedError

    (finding,) = page(
        80, refused, is_running=False, has_discord=False, refusal=lambda _: "Permission denied"
    )
    assert (finding.level, finding.detail) == (
        Level.FAIL,
        "port 80 cannot be used: Permission denied",
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert why_not_free(server.getsockname()[1]) == "Address already in use"


@pytest.mark.parametrize(
    ("is_running", "detail"),
    [
        (True, "the bot runs, but nothing answers at port 8421"),
        (False, "another program has port 8421"),
    ],
)
def test_who_does_not_answer_in_time_is_the_bot_itself_if_it_runs(
    is_running: bool, detail: str
) -> None:
    def never(_: str, __: Mapping[str, str]) -> HttpAnswer:
        raise TimeoutError

    (finding,) = page(8421, never, is_running=is_running, has_discord=False)
    assert (finding.level, finding.detail) == (Level.FAIL, detail)


@pytest.mark.parametrize(
    ("age", "level"), [(None, Level.PASS), (3.5, Level.PASS), (600, Level.WARN), ("x", Level.PASS)]
)
def test_a_schedule_that_stands_still_is_noticed(age: object, level: Level) -> None:
    health = {"status": "ok", "heartbeat_age": age}
    (finding,) = page(
        8421, lambda *_: HttpAnswer(200, health, "ollim-bot"), is_running=True, has_discord=False
    )
    assert finding.level is level


def test_the_page_may_be_off_where_there_is_discord() -> None:
    assert of_page(None, has_discord=True).level is Level.OFF
    assert of_page(None).level is Level.FAIL
