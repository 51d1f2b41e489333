"""Today on the page: an address without data, a fragment of plain markup, and news of changes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.web.browser import Browser, unknown_browser
from tests.web.days import HOSTILE, full_day, waiting_line
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY, Scene

from ollim_bot.domain.day import DayLine, DayView
from ollim_bot.domain.views import OtherReading, Preview, ViewAnswer
from ollim_bot.errors import OllimError
from ollim_bot.surfaces.web.day_html import day_html


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
    shown = Markup(reply["html"])
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    words = " ".join(filter(None, shown.words))
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
