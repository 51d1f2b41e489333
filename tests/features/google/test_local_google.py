"""The local Google is as strict as the real one about signing in."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from devtools.doubles.clock import ManualClock
from devtools.localgoogle.oauth import SCOPES, SignIns
from devtools.localgoogle.protocol import OAuthError
from tests.features.google.scene import START, GoogleScene

from ollim_bot.kernel.base.errors import GoogleRefused

LISTS = "/tasks/v1/users/@me/lists"
TASKS = next(iter(SCOPES))


class ConsentScene:
    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.sign_ins = SignIns(self.clock.now)

    def request_consent(self, **changes: str) -> str:
        """The id of a consent request; an empty change leaves the parameter out."""
        right = {
            "client_id": self.sign_ins.client_id,
            "redirect_uri": "http://127.0.0.1:5000/",
            "response_type": "code",
            "scope": TASKS,
            "state": "s",
            "access_type": "offline",
            "prompt": "consent",
            "code_challenge": "c",
            "code_challenge_method": "S256",
        }
        given = {name: value for name, value in {**right, **changes}.items() if value}
        return self.sign_ins.ask_consent(given).id

    def refresh(self, token: str, **changes: str) -> dict[str, Any]:
        return self.sign_ins.token(
            {
                "grant_type": "refresh_token",
                "client_id": self.sign_ins.client_id,
                "client_secret": self.sign_ins.client_secret,
                "refresh_token": token,
                **changes,
            }
        )


@pytest.fixture
def consent_scene() -> ConsentScene:
    return ConsentScene()


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_id": "other"},
        {"redirect_uri": "https://example.com/"},
        {"redirect_uri": "http://example.com/"},
        {"response_type": "token"},
        {"scope": "https://www.googleapis.com/auth/drive"},
        {"state": ""},
        {"access_type": ""},
        {"code_challenge_method": "plain"},
        {"hd": "example.com"},
    ],
)
def test_a_wrong_question_gets_no_consent_page(
    consent_scene: ConsentScene, wrong: dict[str, str]
) -> None:
    consent_scene.request_consent()
    with pytest.raises(OAuthError):
        consent_scene.request_consent(**wrong)


def test_a_consent_page_is_answered_once(consent_scene: ConsentScene) -> None:
    request = consent_scene.request_consent()
    consent_scene.sign_ins.consent(request, [TASKS])
    with pytest.raises(OAuthError):
        consent_scene.sign_ins.consent(request, [TASKS])


@pytest.mark.parametrize(
    "wrong",
    [{"grant_type": "password"}, {"client_secret": "x"}, {"scope": TASKS}, {"refresh_token": "x"}],
)
def test_a_wrong_refresh_is_refused(consent_scene: ConsentScene, wrong: dict[str, str]) -> None:
    token = consent_scene.sign_ins.grant()["refresh_token"]
    consent_scene.refresh(token)
    with pytest.raises(OAuthError):
        consent_scene.refresh(token, **wrong)


def test_the_tokens_of_an_app_in_testing_end_after_seven_days(consent_scene: ConsentScene) -> None:
    consent_scene.sign_ins.refresh_lasts = timedelta(days=7)
    granted = consent_scene.sign_ins.grant()
    assert granted["refresh_token_expires_in"] == 604799
    consent_scene.clock.jump(7 * 24 * 3600 - 1)
    consent_scene.refresh(granted["refresh_token"])
    consent_scene.clock.jump(1)
    with pytest.raises(OAuthError, match="expired or revoked"):
        consent_scene.refresh(granted["refresh_token"])


def test_what_is_unknown_is_refused_in_googles_form(connected: GoogleScene) -> None:
    client = connected.client()
    for method, path, params, status in (
        ("GET", "/tasks/v1/unknown", {}, 404),
        ("PUT", LISTS, {}, 404),
        ("GET", LISTS, {"maxresults": "5"}, 400),
    ):
        with pytest.raises(GoogleRefused) as refused:
            client.call(method, path, params)
        assert (refused.value.status, bool(refused.value.reason)) == (status, True)


def test_a_call_needs_a_token_of_its_scope(scene: GoogleScene) -> None:
    for header in ("", "Bearer ya29.unknown", "Basic abc"):
        connection = HTTPConnection(urlsplit(scene.google.url).netloc, timeout=30)
        connection.request("GET", LISTS, headers={"Authorization": header})
        assert connection.getresponse().status == 401
        connection.close()


@pytest.mark.real_process
def test_it_can_be_started_by_hand() -> None:
    command = [sys.executable, "-m", "devtools.localgoogle", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(6)]
        child.terminate()
    assert [line.partition("=")[0] for line in lines[1:4]] == [
        "GOOGLE_API_URL",
        "GOOGLE_TOKEN_URL",
        "GOOGLE_AUTH_URL",
    ]
    assert lines[5].startswith('{"installed": ')
