"""Signing in at Google, from the consent address to the outcome, and signing out."""

from __future__ import annotations

import re
from datetime import timedelta
from http.client import HTTPConnection
from urllib.parse import parse_qs, urlsplit

import pytest
from devtools.localdiscord.faults import Dropped
from devtools.localgoogle.protocol import RawAnswer, Refusal
from tests.features.google.scene import Browser, GoogleScene

from ollim_bot.features.google.google_values import GoogleService
from ollim_bot.features.google.login import EVERYTHING, SignIn, SignInRefused, disconnect
from ollim_bot.features.google.tokens import read_client
from ollim_bot.kernel.base.errors import (
    GoogleRefused,
    OllimError,
    SignInNeeded,
    Unreachable,
    Unreadable,
    WrongInput,
)


def begun(scene: GoogleScene, *services: GoogleService) -> SignIn:
    scene.write_credentials()
    return SignIn(
        scene.paths, scene.tokens, scene.addresses, scene.clock.now, services or EVERYTHING
    )


def outcome(scene: GoogleScene, *untick: str, declines: bool = False) -> str:
    sign_in = begun(scene)
    address = Browser(untick, declines=declines).open(sign_in.address)
    sign_in.close()
    return sign_in.take(address).sentence(scene.clock.now())


def test_a_sign_in_says_as_whom_and_with_what(scene: GoogleScene) -> None:
    assert outcome(scene) == ("Google is connected as ada@example.com: tasks, calendar and mail.")
    scene.client().require(GoogleService.MAIL)
    assert scene.paths.token.stat().st_mode & 0o777 == 0o600


def test_what_is_unticked_is_left_out(scene: GoogleScene) -> None:
    assert outcome(scene, "gmail.readonly", "calendar.events") == (
        "Google is connected: tasks. Left out: calendar and mail."
    )
    assert outcome(scene, "tasks", "gmail.readonly") == (
        "Google is connected as ada@example.com: calendar. Left out: tasks and mail."
    )


def test_only_what_is_wanted_is_asked_for(scene: GoogleScene) -> None:
    sign_in = begun(scene, GoogleService.TASKS)
    sign_in.close()
    (scope,) = parse_qs(urlsplit(sign_in.address).query)["scope"]
    assert scope == "https://www.googleapis.com/auth/tasks"


def test_nothing_ticked_is_nothing_connected(scene: GoogleScene) -> None:
    with pytest.raises(SignInRefused, match="nothing was ticked"):
        outcome(scene, "tasks", "calendar.events", "calendarlist.readonly", "gmail.readonly")
    assert not scene.paths.token.exists()


def test_declining_is_said(scene: GoogleScene) -> None:
    with pytest.raises(SignInRefused, match="Google was not connected: you declined on Google's"):
        outcome(scene, declines=True)
    assert scene.tokens.read() is None


def test_the_seven_days_of_an_app_in_testing_are_said_with_the_day_and_the_cure(
    scene: GoogleScene,
) -> None:
    scene.google.sign_ins.refresh_lasts = timedelta(days=7)
    assert outcome(scene).endswith(
        "Google ends this connection Mon 23 Nov 08:59, since your app is in testing. Publish it "
        "at https://console.cloud.google.com/auth/audience and sign in again: then it lasts."
    )


def test_a_service_that_is_not_enabled_in_the_project_is_named(scene: GoogleScene) -> None:
    off = Refusal(403, "accessNotConfigured")
    scene.google.next_fail("GET /gmail/*", off, times=None)
    assert "Not enabled in your project yet: mail; https://console.cloud" in outcome(scene)


def test_a_code_is_used_once(scene: GoogleScene) -> None:
    sign_in = begun(scene)
    sign_in.close()
    address = Browser().open(sign_in.address)
    sign_in.take(address)
    with pytest.raises(WrongInput, match="answered before"):
        sign_in.take(address)
    assert len(scene.google.named("POST /token")) == 1


def test_the_answer_to_another_sign_in_is_not_taken(scene: GoogleScene) -> None:
    first, second = begun(scene), begun(scene)
    address = Browser().open(first.address)
    for sign_in in (first, second):
        sign_in.close()
    for wrong in (address, "http://127.0.0.1:9/", "http://127.0.0.1:9/?state=x&code=y"):
        with pytest.raises(WrongInput, match="belongs to another sign-in"):
            second.take(wrong)
    first.take(address)


def test_a_code_without_its_verifier_is_worth_nothing(scene: GoogleScene) -> None:
    """A program that sees the redirect cannot connect with it."""
    thief, owner = begun(scene), begun(scene)
    for sign_in in (thief, owner):
        sign_in.close()
    code = parse_qs(urlsplit(Browser().open(owner.address)).query)["code"][0]
    (state,) = parse_qs(urlsplit(thief.address).query)["state"]
    with pytest.raises(GoogleRefused, match="Invalid code verifier"):
        thief.take(f"http://127.0.0.1:9/?state={state}&code={code}")


@pytest.mark.parametrize("fault", [500, Dropped(), RawAnswer(b"garbage"), RawAnswer(b"{}")])
def test_a_sign_in_that_cannot_be_finished_says_so(
    scene: GoogleScene, fault: Refusal | int
) -> None:
    scene.google.next_fail("POST /token", fault, times=None)
    with pytest.raises(OllimError) as failed:
        outcome(scene)
    assert isinstance(failed.value, Unreachable | GoogleRefused)
    assert not scene.paths.token.exists()


def test_the_redirect_of_the_token_endpoint_is_not_followed(scene: GoogleScene) -> None:
    elsewhere = RawAnswer(b"", 307, {"Location": f"{scene.google.url}/token"})
    scene.google.next_fail("POST /token", elsewhere)
    with pytest.raises(Unreachable):
        outcome(scene)
    assert len(scene.google.named("POST /token")) == 1


def asked(sign_in: SignIn, path: str) -> int:
    """The status that the redirect server answers, requested from another thread."""
    connection = HTTPConnection("127.0.0.1", sign_in.redirects.server_port, timeout=30)
    connection.request("GET", path)
    sign_in.knock()
    status = connection.getresponse().status
    connection.close()
    return status


def test_strangers_at_the_redirect_server_get_nothing(scene: GoogleScene) -> None:
    sign_in = begun(scene)
    try:
        assert asked(sign_in, "/?state=guessed&code=4/abc") == 400
        assert asked(sign_in, "/favicon.ico") == 400
        assert asked(sign_in, "/") == 400
        assert not sign_in.is_answered
        redirect = urlsplit(Browser().open(sign_in.address))
        assert asked(sign_in, f"/?{redirect.query}") == 200
    finally:
        sign_in.close()


def test_without_a_client_the_steps_to_one_are_said(scene: GoogleScene) -> None:
    with pytest.raises(SignInNeeded) as missing:
        read_client(scene.paths)
    steps = str(missing.value).splitlines()
    assert [line[:2] for line in steps[1:]] == ["1.", "2.", "3.", "4.", "5."]
    assert str(scene.paths.credentials) in steps[-1]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("not json", "is not the file that Google gives. Right: the JSON file that"),
        ("[]", "is not the file that Google gives"),
        ('{"installed": {"client_id": "x"}}', "is not the file that Google gives"),
        ('{"web": {"client_id": "x"}}', "is a client of type Web application. Right: one of type"),
        ('{"type": "service_account"}', "is a key of another kind (service account). Right: an"),
        (
            '{"installed": {"client_id": "x", "client_secret": "y", "token_uri": "http://a.b/"}}',
            "names an address that is not https",
        ),
    ],
)
def test_a_wrong_client_is_named_with_what_would_be_right(
    scene: GoogleScene, content: str, sentence: str
) -> None:
    scene.paths.credentials.write_text(content)
    with pytest.raises(SignInNeeded, match=re.escape(f"{scene.paths.credentials} {sentence}")):
        read_client(scene.paths)


def test_a_client_that_others_could_read_is_closed_to_them(scene: GoogleScene) -> None:
    scene.write_credentials()
    scene.paths.credentials.chmod(0o644)
    SignIn(scene.paths, scene.tokens, scene.addresses, scene.clock.now).close()
    assert scene.paths.credentials.stat().st_mode & 0o777 == 0o600


def test_signing_out_ends_it_here_and_at_google(connected: GoogleScene) -> None:
    token = connected.tokens.read()
    assert token is not None
    assert disconnect(connected.tokens, connected.addresses) == (
        "Google is disconnected as ada@example.com, here and at Google."
    )
    assert not connected.paths.token.exists()
    connected.tokens.keep(token)
    with pytest.raises(SignInNeeded):
        connected.client().call("GET", "/tasks/v1/users/@me/lists")
    assert disconnect(connected.tokens, connected.addresses) == "Google is left out now."
    assert disconnect(connected.tokens, connected.addresses) == "Google was not connected."


def test_signing_out_works_without_google(connected: GoogleScene) -> None:
    connected.google.next_fail("POST /revoke", Dropped())
    assert disconnect(connected.tokens, connected.addresses) == (
        "Google is disconnected as ada@example.com here. It could not be ended at Google. "
        "https://myaccount.google.com/connections removes it there."
    )
    assert connected.tokens.read() is None
    assert connected.tokens.revocation() is None


def test_a_token_that_cannot_be_read_can_be_removed_or_replaced(connected: GoogleScene) -> None:
    connected.paths.token.write_text("garbage")
    with pytest.raises(Unreadable, match="is not a token of ollim-bot"):
        connected.client().call("GET", "/tasks/v1/users/@me/lists")
    told = disconnect(connected.tokens, connected.addresses)
    assert told.startswith("The token for Google could not be read, and is removed.")
    assert not connected.paths.token.exists()
    connected.paths.token.write_text("garbage")
    outcome(connected)
    connected.client().require(GoogleService.MAIL)
