"""The client of Google's APIs against the local Google: tokens, faults and limits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from devtools.localdiscord.faults import AnswerLost, Dropped, Hanging
from devtools.localgoogle.protocol import RawAnswer, Refusal
from tests.features.google.scene import GoogleScene

from ollim_bot.features.google.google_client import GoogleClient
from ollim_bot.features.google.google_values import SCOPES, GoogleService
from ollim_bot.kernel.base.errors import GoogleRefused, SignInNeeded, Unreachable
from ollim_bot.kernel.base.http_exchange import HttpLimits

LISTS = "/tasks/v1/users/@me/lists"
NOT_CONNECTED = "Google is not connected. `/google-auth` or `ollim-bot google login` connects it."


def lists(scene: GoogleScene) -> object:
    return scene.client().call("GET", LISTS)


def test_a_call_carries_the_token_and_answers_what_google_answers(connected: GoogleScene) -> None:
    answer = connected.client().call("GET", LISTS, {"maxResults": 20})
    assert [each["title"] for each in answer["items"]] == ["My Tasks"]
    assert connected.google.requests[-1].query == "maxResults=20"


def test_without_a_connection_nothing_is_sent(scene: GoogleScene) -> None:
    with pytest.raises(SignInNeeded, match=NOT_CONNECTED) as refused:
        lists(scene)
    assert refused.value.exit_code == 3
    assert scene.google.requests == []


def test_a_machine_that_may_not_act_reads_and_changes_nothing(connected: GoogleScene) -> None:
    client = GoogleClient(connected.tokens, connected.addresses.api, may_act=lambda: False)
    client.call("GET", LISTS)
    asked = len(connected.google.requests)
    for method in ("POST", "PATCH", "DELETE"):
        with pytest.raises(Unreachable, match="Another machine"):
            client.call(method, LISTS, body={"title": "x"})
    assert len(connected.google.requests) == asked


def test_a_token_that_has_ended_is_renewed_before_the_call(connected: GoogleScene) -> None:
    connected.clock.jump(3600)
    lists(connected)
    assert [each.name for each in connected.google.requests] == ["POST /token", f"GET {LISTS}"]
    lists(connected)
    assert connected.google.sign_ins.refreshes == 1


def test_a_token_that_google_ended_early_is_renewed_once_and_the_call_repeated(
    connected: GoogleScene,
) -> None:
    connected.google.sign_ins.expire_access()
    lists(connected)
    assert [each.status for each in connected.google.requests] == [401, 200, 200]


def test_a_call_that_stays_refused_after_a_renewal_is_not_tried_for_ever(
    connected: GoogleScene,
) -> None:
    connected.google.next_fail(f"GET {LISTS}", 401, times=None)
    with pytest.raises(GoogleRefused, match="401"):
        lists(connected)
    assert len(connected.google.named(f"GET {LISTS}")) == 2


def test_many_at_once_renew_once(connected: GoogleScene) -> None:
    connected.clock.jump(3600)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: lists(connected), range(8)))
    assert connected.google.sign_ins.refreshes == 1


def test_a_rotated_refresh_token_replaces_the_old_one(connected: GoogleScene) -> None:
    connected.google.sign_ins.rotates = True
    for _ in range(3):
        connected.clock.jump(3600)
        lists(connected)
    assert connected.google.sign_ins.refreshes == 3


def test_a_revoked_connection_is_removed_and_said_until_it_is_answered(
    connected: GoogleScene,
) -> None:
    connected.google.sign_ins.revoke_everything()
    for _ in range(2):
        with pytest.raises(SignInNeeded) as refused:
            lists(connected)
        assert str(refused.value) == (
            "The connection to ada@example.com at Google was revoked or has expired. "
            "`/google-auth` or `ollim-bot google login` connects it again, "
            "`ollim-bot google logout` leaves it out."
        )
    assert not connected.paths.token.exists()
    assert connected.tokens.revocation() is not None
    assert len(connected.google.named("POST /token")) == 1
    connected.connect()
    lists(connected)
    assert connected.tokens.revocation() is None


@pytest.mark.parametrize("fault", [429, 500, 502, 503, Dropped(), RawAnswer(b"<html>")])
def test_what_may_pass_is_tried_again_after_growing_pauses(
    connected: GoogleScene, fault: Refusal | int
) -> None:
    connected.google.next_fail(f"GET {LISTS}", fault, times=3)
    assert lists(connected)
    assert connected.pauses == [1, 2, 4]


def test_google_may_ask_for_a_longer_pause_but_not_for_ever(connected: GoogleScene) -> None:
    connected.google.next_fail(f"GET {LISTS}", Refusal(429, "rateLimitExceeded", 7))
    assert lists(connected)
    connected.google.next_fail(f"GET {LISTS}", Refusal(403, "userRateLimitExceeded"))
    assert lists(connected)
    connected.google.next_fail(f"GET {LISTS}", Refusal(429, "rateLimitExceeded", 3600))
    with pytest.raises(Unreachable, match="Try again in 3600 s"):
        lists(connected)
    assert connected.pauses == [7, 1]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (429, "Google asks for fewer requests (429). Try again in a few minutes."),
        (503, "Google has trouble of its own (503). Try again in a few minutes."),
        (Dropped(), "Google cannot be reached (Remote end closed connection without response)."),
        (RawAnswer(b"[]"), "Google's answer could not be understood. Try again later."),
        (RawAnswer(b'{"a": 1', headers={"Content-Length": "9"}), "Google cannot be reached ("),
    ],
)
def test_what_does_not_pass_is_said_in_one_line(
    connected: GoogleScene, fault: Refusal | int, sentence: str
) -> None:
    connected.google.next_fail(f"GET {LISTS}", fault, times=None)
    with pytest.raises(Unreachable) as failed:
        lists(connected)
    assert str(failed.value).startswith(sentence)
    assert len(connected.google.requests) == 4
    assert len(str(failed.value).splitlines()) == 1


def test_an_answer_that_does_not_come_is_not_waited_for(connected: GoogleScene) -> None:
    connected.google.next_fail(f"GET {LISTS}", Hanging())
    assert connected.client(HttpLimits(step=1.0)).call("GET", LISTS)
    assert connected.pauses[0] == 1


def test_a_request_that_adds_is_repeated_only_if_it_is_certainly_not_done(
    connected: GoogleScene,
) -> None:
    address = "/tasks/v1/users/@me/lists"
    connected.google.next_fail(f"POST {address}", 503)
    with pytest.raises(GoogleRefused) as refused:
        connected.client().call("POST", address, body={"title": "x"})
    assert refused.value.status == 404
    assert connected.pauses == [1]
    for fault in (Dropped(), AnswerLost(), Refusal(500)):
        connected.google.next_fail(f"POST {address}", fault)
        with pytest.raises(Unreachable, match="not known whether this was done"):
            connected.client().call("POST", address, body={"title": "x"})
    assert connected.pauses == [1]


def test_a_deletion_that_is_found_done_at_the_second_try_is_done(connected: GoogleScene) -> None:
    connected.google.next_fail("DELETE /tasks/*", AnswerLost())
    assert connected.client().call("DELETE", "/tasks/v1/lists/a/tasks/b") == {}
    with pytest.raises(GoogleRefused):
        connected.client().call("DELETE", "/tasks/v1/lists/a/tasks/b")


def test_a_refusal_has_its_status_and_reason(connected: GoogleScene) -> None:
    with pytest.raises(GoogleRefused) as refused:
        connected.client().call("GET", "/calendar/v3/users/me/calendarList/other")
    assert (refused.value.status, refused.value.reason) == (404, "notFound")
    assert str(refused.value) == "Google refused this (404): Not Found."
    assert len(connected.google.requests) == 1


def test_a_redirect_is_not_followed(connected: GoogleScene) -> None:
    location = {"Location": f"{connected.google.url}{LISTS}"}
    connected.google.next_fail(f"GET {LISTS}", RawAnswer(b"{}", 302, location))
    with pytest.raises(GoogleRefused, match="not followed"):
        lists(connected)
    assert len(connected.google.requests) == 1


def test_an_answer_without_end_is_cut_off(connected: GoogleScene) -> None:
    huge = json.dumps({"x": "y" * 10_000_000}).encode()
    connected.google.next_fail(f"GET {LISTS}", RawAnswer(huge))
    with pytest.raises(GoogleRefused, match="larger than 10 MB"):
        lists(connected)


def test_what_was_left_out_is_said(scene: GoogleScene) -> None:
    scene.connect(SCOPES[GoogleService.TASKS])
    client = scene.client()
    client.require(GoogleService.TASKS)
    with pytest.raises(SignInNeeded, match="Gmail was left out when Google was connected"):
        client.require(GoogleService.MAIL)
    with pytest.raises(SignInNeeded, match="left out"):
        client.call("GET", "/gmail/v1/users/me/profile")


def test_a_token_goes_nowhere_without_tls_but_to_this_machine(connected: GoogleScene) -> None:
    client = GoogleClient(connected.tokens, "http://example.com")
    with pytest.raises(GoogleRefused, match="neither https nor on this machine"):
        client.call("GET", LISTS)


def test_the_token_endpoint_may_fail_for_a_while(connected: GoogleScene) -> None:
    connected.clock.jump(3600)
    connected.google.next_fail("POST /token", 500, times=2)
    connected.google.next_fail("POST /token", Dropped())
    assert lists(connected)
    assert connected.pauses == [1, 2, 4]


def test_a_token_endpoint_that_fails_for_good_leaves_the_token(connected: GoogleScene) -> None:
    connected.clock.jump(3600)
    for fault in (503, RawAnswer(b"garbage"), RawAnswer(b'{"access_token": 1, "expires_in": "x"}')):
        connected.google.next_fail("POST /token", fault, times=None)
        with pytest.raises(Unreachable):
            lists(connected)
        connected.google.mend()
    assert lists(connected)


def test_a_client_that_google_does_not_know_any_more_is_said(connected: GoogleScene) -> None:
    connected.clock.jump(3600)
    connected.google.sign_ins.client_secret = "another"
    with pytest.raises(SignInNeeded, match=r"OAuth client \(invalid_client\)"):
        lists(connected)
    assert connected.paths.token.exists()


def test_the_token_file_is_for_the_owner_alone_and_nothing_shows_it(connected: GoogleScene) -> None:
    connected.paths.token.chmod(0o644)
    connected.clock.jump(3600)
    lists(connected)
    assert connected.paths.token.stat().st_mode & 0o777 == 0o600
    shown = repr(connected.tokens.read())
    assert not any(secret in shown for secret in connected.google.sign_ins.secrets)
