"""The phone on the page: what is said before, and its names only while they are needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from devtools.doubles.phone import CODE, OFFER, SINCE
from tests.web.markup import ATTRIBUTES, TAGS, Markup

from ollim_bot.domain.phone import PairingStatus, PhoneAttempt, PhoneView
from ollim_bot.domain.views import PHONE, SettingGroup, SettingsView
from ollim_bot.surfaces.web.settings_html import settings_html

SERVER = "https://push.example.org"
PAIRED = PairingStatus(SERVER, SINCE)
KEYS = (CODE.topic, CODE.reply_topic)


def drawn(**state: object) -> str:
    phone = replace(PhoneView(SINCE, OFFER), **state)  # type: ignore[arg-type]
    html = settings_html(SettingsView([SettingGroup(PHONE, ())], phone), 9)
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    return html


def test_before_it_is_paired_all_is_said_and_no_server_is_chosen() -> None:
    html = drawn()
    before = html[: html.index("<form")]
    assert all(each in before for each in OFFER.told)
    assert html.index(OFFER.of_public) < html.index("Pair through push.example.net")
    assert 'name="server" autocomplete="off" placeholder' in html
    assert "value=" not in html
    assert "<code>ollim-bot push setup</code>" in html


def test_the_names_are_shown_only_while_it_is_paired_or_when_asked_for() -> None:
    waiting = PhoneAttempt(SERVER, CODE, SINCE + timedelta(minutes=10))
    hidden = [drawn(), drawn(attempt=PhoneAttempt(SERVER)), drawn(paired=PAIRED)]
    shown = [drawn(attempt=waiting), drawn(paired=PAIRED, code=CODE)]
    assert not [each for each in hidden if any(key in each for key in KEYS)]
    assert all(key in each for each in shown for key in KEYS)
    assert "Waiting for your press, until 12:10." in shown[0]
    square = "M0 0h3v1h-3zM0 1h1v1h-1zM2 1h1v1h-1zM0 2h3v1h-3z"
    assert (
        f'viewBox="0 0 3 3" role="img" aria-label="The code to scan"><path d="{square}"'
        in (shown[0])
    )
    assert "No button was pressed yet." in hidden[2]
    pressed = drawn(paired=replace(PAIRED, last_press=SINCE - timedelta(days=1)))
    assert "Last press: yesterday 12:00." in pressed


def test_what_failed_is_told_where_it_is_heard() -> None:
    html = drawn(told="The server keeps nothing.", has_failed=True)
    assert 'class="problem" role="alert">The server keeps nothing.' in html
