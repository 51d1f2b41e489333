"""Views: addresses without data, plain markup, news of changes, every session and setting."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.kernel.conversation.scene import scene, scripted
from tests.surfaces.web.browser import Browser, unknown_browser
from tests.surfaces.web.markup import TAGS, Markup, words_of
from tests.surfaces.web.scene import SUNDAY, Scene
from tests.surfaces.web.views import HOSTILE, full_day, waiting_line

from ollim_bot.features.history.sessions import sessions_html
from ollim_bot.features.settings.settings_view import (
    GROUPS,
    PresentState,
    setting_groups,
    settings_html,
)
from ollim_bot.features.today.day import DayLine, DayView
from ollim_bot.features.today.day_view import day_html
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.costs import Amount
from ollim_bot.kernel.values.quiet import QuietHours, QuietSettings
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS, RuntimeConfig
from ollim_bot.kernel.values.sessions import CompactionLine, SessionLine, SessionList
from ollim_bot.kernel.values.views import OtherReading, Preview, SettingsView, ViewAnswer


async def test_the_address_of_a_view_answers_the_page_itself_to_anybody(scene: Scene) -> None:
    scene.reception.day.current = full_day(SUNDAY)
    async with unknown_browser(scene) as other:
        page, view = await other.get("/"), await other.get("/today")
        assert (view.status, view.body) == (200, page.body)
        assert b"dentist" not in view.body
        assert (await other.get("/api/panels/today")).status == 401
        assert (await other.post("/api/panels/today/actions", press("x"))).status == 401
        assert (await other.get("/nothing")).status == 401, (
            "a view that does not exist has no place"
        )
        near = await other.get("/today", Host=f"localhost:{scene.surface.port}")
        assert near.headers["Location"] == f"{scene.url}/today"


async def test_the_fragment_has_every_part_of_the_day_and_its_text_is_data(
    scene: Scene, browser: Browser
) -> None:
    scene.reception.day.current = full_day(SUNDAY)
    reply = (await browser.get("/api/panels/today")).json
    words = words_of(reply["html"])
    assert words.count(HOSTILE) == 2
    assert words.startswith(
        "Add something Add Today Sun 15 Nov Overdue take the heart pill since 8:00"
    )
    assert "Next call the dentist 15:12 · in 42 min" in words
    assert "Now 14:30 40 min free" not in words
    assert "15:12 call the dentist 1 h 48 min free 17:00 drink water" in words
    assert "20:30 Quiet until tomorrow 7:00" in words
    assert "3 of 5 pings left · one more at 14:55 · 2 messages are held" in words
    assert words.endswith("Done · 1 ✓ feed the cat · 7:10 Undo")
    assert '<progress max="60" value="42"' in reply["html"]
    assert '<a href="/jobs/water" aria-label="Edit: drink water">Edit</a>' in reply["html"]
    assert reply["change"] == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (75.3, "in 2 min"),
        (60.0, "in 1 min"),
        (0.001, "in 1 min"),
        (0.0, "now"),
        (5000, "in 1 h 24 min"),
    ],
)
def test_what_comes_next_is_minutes_away_as_the_page_counts_on(seconds: float, words: str) -> None:
    now = SUNDAY + timedelta(microseconds=689954)
    day = DayView(now, next=DayLine("薬", now + timedelta(seconds=seconds)))
    assert f"<span data-left>{words}</span>" in day_html(day, 100)


async def test_that_only_the_page_can_show_it_is_a_quiet_line(
    scene: Scene, browser: Browser
) -> None:
    scene.reception.day.current = DayView(SUNDAY, reach="Only here. A phone: `push`.")
    html = (await browser.get("/api/panels/today")).json["html"]
    assert (
        '<p class="remark">Only here. A phone: <code>push</code>. <a class="back" href="/settings">'
        in html
    )


async def test_the_bar_of_a_timer_is_as_long_as_the_timer(scene: Scene, browser: Browser) -> None:
    begun, end = SUNDAY - timedelta(minutes=5), SUNDAY + timedelta(minutes=20)
    scene.reception.day.current = DayView(SUNDAY, next=DayLine("tea", end, since=begun))
    html = (await browser.get("/api/panels/today")).json["html"]
    assert '<progress max="25" value="20"' in html


async def test_a_long_list_comes_a_hundred_lines_at_a_time(scene: Scene, browser: Browser) -> None:
    lines = [waiting_line(f"thing {number}", f"k{number}", SUNDAY) for number in range(250)]
    scene.reception.day.current = DayView(SUNDAY, overdue=lines)
    for query, shown, left in (("", 100, 150), ("?most=200", 200, 50), ("?most=300", 250, 0)):
        reply = (await browser.get(f"/api/panels/today{query}")).json
        assert reply["html"].count('<li class="thing">') == shown
        assert (f"Show more · {left} left" in reply["html"]) == (left > 0)


async def test_an_empty_day_says_what_will_stand_there(scene: Scene, browser: Browser) -> None:
    scene.reception.day.current = DayView(SUNDAY)
    html = (await browser.get("/api/panels/today")).json["html"]
    assert "Nothing waits for you, and nothing more comes today." in html
    assert "remind you of" in html


def press(custom_id: str, **fields: str) -> dict[str, object]:
    return {"action": "press", "fields": {"custom_id": custom_id, **fields}}


async def test_a_press_goes_to_the_core_and_a_button_that_is_gone_does_nothing(
    scene: Scene, browser: Browser
) -> None:
    day = scene.reception.day
    day.current = full_day(SUNDAY)
    path = "/api/panels/today/actions"
    assert not (await browser.post(path, press("act:taken:k1"))).json["is_error"]
    day.answers["act:snooze:k1:other"] = ViewAnswer("When is that?", is_error=True, field="words")
    asked = press("act:snooze:k2:other", words="in 5 minutes")
    assert not (await browser.post(path, asked)).json["is_error"]
    refused = await browser.post(path, press("act:snooze:k1:other", words="x"))
    assert (refused.json["is_error"], refused.json["field"]) == (True, "words")
    assert "When is that?" in refused.json["html"]
    assert (await browser.post(path, press("act:done:nothing"))).json["is_error"]
    for wrong in ({}, {"action": ""}, {"action": "press", "fields": {"custom_id": 1}}):
        assert (await browser.post(path, wrong)).status == 400
    assert (await browser.post(path, press("act:taken:k1"), Origin="http://x")).status == 403
    assert day.presses == [
        ("web", "act:taken:k1", ""),
        ("web", "act:snooze:k2:other", "in 5 minutes"),
    ]


async def test_a_preview_is_data_with_a_button_for_each_other_reading(
    scene: Scene, browser: Browser
) -> None:
    reading = OtherReading("Monday, 19:00", "19:00")
    scene.reception.day.previews["add"] = Preview((HOSTILE,), (reading,))
    asked = {"action": "add", "fields": {"line": "tea"}}
    html = (await browser.post("/api/panels/today/previews", asked)).json["html"]
    assert HOSTILE in Markup(html).words
    assert Markup(html).tags <= TAGS
    assert '<button name="reading" value="19:00">Monday, 19:00</button>' in html


async def test_a_day_that_cannot_be_read_says_why(scene: Scene, browser: Browser) -> None:
    scene.reception.day.refusal = OllimError("The disk is full.")
    reply = await browser.get("/api/panels/today")
    assert (reply.status, reply.error) == (503, "The disk is full.")


async def test_every_tab_is_told_of_a_change_with_its_number_and_what_is_open(
    scene: Scene, browser: Browser
) -> None:
    day = scene.reception.day
    async with browser.tab() as (one, hello), browser.tab() as (other, _):
        assert hello["panels"]["today"] == {"change": 0, "open": 0}
        day.change(DayView(SUNDAY, overdue=[waiting_line("tea", "k1", SUNDAY)]))
        told = {"type": "stale", "panel": "today", "change": 1, "open": 1}
        assert [await one.until("stale"), await other.until("stale")] == [told, told]
        assert (await browser.get("/api/panels/today")).json["change"] == 1
    async with browser.tab() as (_, hello):
        assert hello["panels"]["today"] == {"change": 1, "open": 1}


async def test_sessions_are_listed_by_kind_and_a_press_goes_back_to_one(
    scene: Scene, browser: Browser
) -> None:
    begun = SUNDAY - timedelta(hours=3)
    sessions = scene.reception.fakes.sessions
    assert "There are no conversations yet." in sessions_html(SessionList(SUNDAY), 100)
    sessions.current = SessionList(
        SUNDAY,
        (
            SessionLine(SessionId("m1"), begun, "plan the week", 3, is_current=True),
            SessionLine(SessionId("m0"), begun - timedelta(days=1), HOSTILE, 1),
        ),
        (SessionLine(SessionId("s1"), begun, "the move", 2),),
        (
            CompactionLine(begun, "plan the week", SessionId("m2")),
            CompactionLine(begun, "in place"),
        ),
    )
    html = (await browser.get("/api/panels/sessions?most=2")).json["html"]
    assert words_of(html) == (
        "Sessions Conversations today 11:30 plan the week 3 answers · this one "
        f"yesterday 11:30 {HOSTILE} 1 answer Go back to it "
        "Side conversations today 11:30 the move 2 answers Go back to it "
        "Compactions today 11:30 plan the week shortened to a summary Go back before it "
        "today 11:30 in place shortened to a summary, in place"
    )
    assert 'data-field-id="m1"' not in html
    asked = {"action": "resume", "fields": {"id": "s1"}}
    sessions.answers["resume"] = ViewAnswer(go="/")
    reply = (await browser.post("/api/panels/sessions/actions", asked)).json
    assert (reply["is_error"], reply["go"]) == (False, "/")
    assert sessions.acts == [("web", "resume", {"id": "s1"})]


NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_every_setting_stands_in_one_group_with_its_sentence_unit_default_and_effect() -> None:
    assert sorted(key for keys in GROUPS.values() for key in keys) == sorted(CONFIG_KEYS)
    config = RuntimeConfig(quiet_hours="22:00-07:00", auto_backup=True)
    quiet = QuietSettings(UTC, QuietHours.parse("22:00-07:00"))
    groups = setting_groups(config, PresentState(NOON, quiet, Amount()))
    lines = {line.key: line for group in groups for line in group.lines}
    assert all(line.about and line.takes for line in lines.values())
    assert lines["quiet_hours"].effect == "next quiet: today 22:00"
    assert lines["auto_backup"].effect == "next: tomorrow 6:00"
    assert lines["auto_backup"].choices == ("on", "off")
    assert [key for key, line in lines.items() if line.is_changed] == ["quiet_hours", "auto_backup"]
    late = setting_groups(config, PresentState(NOON.replace(hour=23), quiet, Amount()))
    assert "quiet now, until tomorrow 7:00" in [line.effect for one in late for line in one.lines]
    without = {line.key for line in lines.values() if line.default in ("off", "none", "default")}
    assert {"travel_minutes", "nag_default"} <= without
    html = settings_html(SettingsView(groups), 100)
    for part in html.split('<li class="thing">')[1:]:
        key = re.findall('data-field-key="([^"]+)"', part)[0]
        assert key not in without or f"Default: {lines[key].default}.</p>" in part, key
    assert "Default: 600 seconds." in html
    assert "Default: 5 US dollars." in html
    words_of(html)


async def test_a_setting_is_changed_with_a_row_and_a_wrong_value_names_its_field() -> None:
    async with scene(scripted()) as at:
        view = at.chat.views["settings"]
        told = await view.act("web", "set", {"key": "quiet_hours", "value": "the night"})
        assert (told.is_error, told.field) == (True, "value")
        assert "It takes two times such as 22:00-07:00" in told.text
        told = await view.act("web", "set", {"key": "quiet_hours", "value": "22:00-07:00"})
        assert told.text == "quiet_hours is now 22:00-07:00 (it was off)."
        (row,) = at.store.query(lambda tx: tx.changes.newest(1))
        assert (row.by, row.after) == (Changer.PAGE, "22:00-07:00")
        assert (await view.act("web", "default", {"key": "quiet_hours"})).text.endswith("07:00).")
        assert (await view.act("web", "set", {"key": "OLLIM_TOKEN", "value": "x"})).is_error
        told = await view.act("web", "set", {"key": "timezone", "value": "Asia/Tokyo"})
        assert not told.is_error
        groups = (await view.look({})).groups
        zone = next(line for each in groups for line in each.lines if line.key == "timezone")
        assert (zone.value, zone.default) == ("Asia/Tokyo", "default")
