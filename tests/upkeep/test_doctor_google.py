"""What the doctor says of Google, from its files alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import A_FRACTION
from tests.google.scene import START, GoogleScene, google_scene
from tests.upkeep.doctor_table import look

from ollim_bot.domain.google import SCOPES, GoogleService
from ollim_bot.environment import Location
from ollim_bot.errors import SignInNeeded
from ollim_bot.upkeep.doctor import DoctorInput, Level


def found(scene: GoogleScene) -> list[tuple[Level, str]]:
    place = Location(scene.paths, ZoneInfo("Europe/Berlin"))
    given = DoctorInput(None, place, (), {}, scene.clock.now())
    findings = look(given, "Google")
    assert all(each.next or each.level.is_right for each in findings)
    return [(each.level, each.detail) for each in findings]


def test_the_doctor_says_how_google_is_connected(tmp_path: Path) -> None:
    with google_scene(tmp_path) as scene:
        nothing = (Level.OFF, "not connected; `/google-auth` in the chat connects it")
        assert found(scene) == [nothing]
        scene.connect(SCOPES[GoogleService.TASKS])
        assert found(scene) == [(Level.PASS, "connected as ada@example.com: tasks")]

        scene.google.sign_ins.refresh_lasts = timedelta(days=7)
        scene.connect()
        ((level, detail),) = found(scene)
        assert level is Level.WARN
        assert detail.endswith("tasks, calendar and mail; Google ends it Mon 23 Nov 09:59")

        scene.google.sign_ins.revoke_everything()
        with pytest.raises(SignInNeeded):
            scene.client().call("GET", "/tasks/v1/users/@me/lists")
        ended = "the connection to ada@example.com was revoked or has expired"
        assert found(scene) == [(Level.WARN, ended)]
        scene.tokens.forget()
        assert found(scene) == [nothing]
        assert scene.google.named("GET /gmail/v1/users/me/profile") == []
    assert scene.clock.now() == START + A_FRACTION


def test_files_of_google_that_are_wrong_or_open_are_named(tmp_path: Path) -> None:
    with google_scene(tmp_path) as scene:
        scene.connect()
        scene.paths.credentials.write_text('{"web": {}}')
        scene.paths.credentials.chmod(0o640)
        scene.paths.token.write_text("garbage")
        opened, client, token = found(scene)
    assert opened == (Level.WARN, "others on this machine can read state/credentials.json")
    assert client == (Level.FAIL, "state/credentials.json is not right")
    assert token[0] is Level.FAIL
    assert token[1].startswith("state/token.json is not a token of ollim-bot.")
    assert scene.paths.credentials.stat().st_mode & 0o777 == 0o640
