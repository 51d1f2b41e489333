"""A message that is nothing but a secret address is recognised, and no other message is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.values.pasted_addresses import (
    AddressKind,
    PastedAddresses,
    pasted_addresses,
    without_secrets,
)

GOOGLE = "https://calendar.google.com/calendar/ical/ada%40example.org/private-0a1b2c/basic.ics"
ICLOUD = "webcal://p42-caldav.icloud.com/published/2/MTIzNDU2Nzg5MDEyMzQ1"
OUTLOOK = "https://outlook.office365.com/owa/calendar/1f2e@example.org/3d4c/calendar.ics"
REDIRECT = "http://127.0.0.1:53682/?state=xyz&code=4/0AbC-dEf&scope=https://www.googleapis.com/auth"

CALENDARS = [
    GOOGLE,
    ICLOUD,
    ICLOUD.replace("webcal", "https"),
    OUTLOOK,
    OUTLOOK.replace("calendar.ics", "calendar.html"),
    "https://outlook.live.com/owa/calendar/00/11/cid-22/calendar.ics",
    "https://example.org/team.ics",
    "https://example.org/team.ICS?key=secret",
    "https://example.org/team.ics#today",
    "https://ada:secret@example.org/team.ics",
    "HTTPS://EXAMPLE.ORG/TEAM.ICS",
    "http://127.0.0.1:8000/mine.ics",
    "http://example.org/not-even-safe.ics",
    "webcal://example.org/feed",
    "webcals://example.org/feed?token=secret",
]


@pytest.mark.parametrize("address", CALENDARS)
def test_the_address_of_a_calendar_is_recognised(address: str) -> None:
    assert pasted_addresses(address) == PastedAddresses(AddressKind.CALENDAR, (address,))


@pytest.mark.parametrize(
    "around", ["{}\n", "  {}  ", "<{}>", "`{}`", "||{}||", "“{}”", "{}.", "({})", "\u200b{}\u200b"]
)
@pytest.mark.parametrize("address", [GOOGLE, ICLOUD, OUTLOOK])
def test_signs_around_an_address_do_not_hide_it(around: str, address: str) -> None:
    found = pasted_addresses(around.format(address))
    assert found is not None
    assert found.addresses == (address,)


def test_a_known_address_needs_no_scheme() -> None:
    found = pasted_addresses(GOOGLE.removeprefix("https://"))
    assert found is not None
    assert found.addresses == (GOOGLE,)


def test_several_addresses_in_one_message_are_all_taken_and_each_once() -> None:
    found = pasted_addresses(f"{GOOGLE}\n{OUTLOOK} {GOOGLE}\n")
    assert found is not None
    assert found.addresses == (GOOGLE, OUTLOOK)


@pytest.mark.parametrize(
    "address",
    [
        REDIRECT,
        REDIRECT.replace("127.0.0.1", "localhost"),
        REDIRECT.replace("127.0.0.1", "[::1]"),
        "http://127.0.0.1:53682/?error=access_denied&state=xyz",
        "http://127.0.0.1:53682?code=a&state=b",
    ],
)
def test_the_address_that_google_leads_back_to_is_recognised(address: str) -> None:
    assert pasted_addresses(address) == PastedAddresses(AddressKind.GOOGLE_REDIRECT, (address,))


def test_a_redirect_copied_without_its_scheme_is_recognised() -> None:
    found = pasted_addresses(REDIRECT.removeprefix("http://"))
    assert found is not None
    assert found.addresses == (REDIRECT,)


@pytest.mark.parametrize(
    "text",
    [
        "", " \n", "hello", "what is on today", "https://example.org/", "https://example.org/ics",
        "https://example.org/page?file=team.ics", "team.ics", "folder/team.ics", "notes.d/team.ics",
        f"what is {GOOGLE}", f"{GOOGLE} is this right?", f"{GOOGLE}\nhttps://example.org/",
        "ftp://example.org/team.ics", "file:///home/ada/team.ics", "webcal:", "webcal://",
        "https:///team.ics", "https://[/team.ics", "https://example.org:port/team.ics",
        "http://127.0.0.1:3000/", "http://127.0.0.1:3000/?code=a",
        "http://127.0.0.1:3000/callback?code=a&state=b", "https://127.0.0.1:3000/?code=a&state=b",
        "http://example.org/?code=a&state=b", "https://calendar.google.com/calendar/u/0/r",
        "https://notcalendar.google.com.example.org/calendar/ical/x", f"{GOOGLE} {REDIRECT}",
        "/today",
    ],
)  # fmt: skip
def test_any_other_text_is_for_the_agent(text: str) -> None:
    assert pasted_addresses(text) is None


@pytest.mark.parametrize("address", [GOOGLE, ICLOUD, OUTLOOK, ICLOUD.removeprefix("webcal://")])
def test_a_private_address_among_words_is_hidden_and_the_words_stay(address: str) -> None:
    assert without_secrets(f"add <{address}> please") == "add <(calendar address hidden)> please"
    assert without_secrets(f"{address}\nis mine") == "(calendar address hidden)\nis mine"


@pytest.mark.parametrize(
    "text", ["", "see https://example.org/team.ics", "webcal is a scheme", "icloud.com/published"]
)
def test_words_without_a_private_address_stay(text: str) -> None:
    assert without_secrets(text) == text


def test_the_log_names_the_kind_and_nothing_else() -> None:
    calendar, redirect = pasted_addresses(GOOGLE), pasted_addresses(REDIRECT)
    assert calendar is not None
    assert calendar.shown_as == "calendar address (hidden)"
    assert redirect is not None
    assert redirect.shown_as == "Google sign-in address (hidden)"


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    pasted_addresses(text)
    pasted_addresses(f"https://{text}")
