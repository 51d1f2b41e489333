"""The line above Today, and Sessions under More: typed, pressed, sent once, seen by all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from playwright.async_api import Route, expect
from tests.browser.axe import violations
from tests.browser.scene import PageScene, box
from tests.web.days import HOSTILE, full_day

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.session_list import SessionLine, SessionList
from ollim_bot.domain.views import OtherReading, Preview, ViewAnswer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_line_shows_what_it_would_add_and_is_sent_once(scene: PageScene) -> None:
    day = scene.core.day
    day.current = full_day(scene.core.now())
    page = await scene.open(width=1280, height=900)
    panel = page.get_by_role("complementary", name="Today")
    line = panel.get_by_role("textbox", name="Add something")
    day.previews["add"] = Preview((HOSTILE,), (OtherReading("today, 19:30 · once", "7:30pm"),))
    await line.fill("tea at half past seven")
    await expect(panel.locator(".preview").get_by_text(HOSTILE)).to_be_visible()
    other = panel.get_by_role("button", name="today, 19:30 · once")
    assert await violations(page, "#panel") == []

    day.answers["add"] = ViewAnswer("That can be read two ways.", is_error=True, field="line")
    await line.press("Enter")
    await expect(panel.get_by_role("alert").filter(has_text="two ways")).to_be_visible()
    await expect(line).to_have_value("tea at half past seven")
    await expect(line).to_be_focused()
    day.change(replace(day.current, tasks=[]))
    await expect(panel.get_by_role("heading", name="Tasks")).to_have_count(0)
    await expect(line).to_have_value("tea at half past seven")
    day.answers["add"] = ViewAnswer("Reminder set: tea, today 19:30.")
    await other.click()
    await expect(line).to_have_value("")
    await expect(panel.locator(".preview")).to_be_empty()
    first, pressed = (fields for _, _, fields in day.acts)
    assert (first.get("reading"), pressed["reading"]) == (None, "7:30pm")

    # The bot took the line, and its answer was lost.
    lost = "**/api/panels/today/actions"
    scene.expect_browser_error("ERR_FAILED")

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    day.acts.clear()
    await page.route(lost, lose)
    await line.fill("+ milk")
    await line.press("Enter")
    await expect(panel.get_by_role("alert").filter(has_text="does not answer")).to_be_visible()
    await page.unroute(lost)
    day.answers["add"] = ViewAnswer("The disk is full.", is_error=True)
    await line.press("Enter")
    await expect(panel.get_by_role("alert").filter(has_text="disk is full")).to_be_visible()
    day.answers["add"] = ViewAnswer("Task added: milk.")
    await line.press("Enter")
    await expect(line).to_have_value("")
    await line.fill("+ milk")
    await line.press("Enter")
    await expect(line).to_have_value("")
    *retried, again = (fields["key"] for _, _, fields in day.acts)
    assert len({*retried}) == 1, "a retry has the key of the first try"
    assert again not in retried, "the same line, typed again, is another one"


async def test_a_press_in_sessions_leads_back_to_the_conversation(scene: PageScene) -> None:
    sessions, now = scene.core.fakes.sessions, scene.core.now()
    side = SessionLine(SessionId("s1"), now - timedelta(days=2), "the move", 2)
    sessions.current = SessionList(now, side=(side,))
    sessions.answers["resume"] = ViewAnswer(go="/")
    page = await scene.open(width=390, height=844)
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("link", name="Sessions").click()
    await expect(page).to_have_url(f"http://{scene.host}/sessions")
    await page.get_by_role("button", name="Go back to it: the move").click()
    await expect(box(page)).to_be_focused()
    assert sessions.acts == [("web", "resume", {"id": "s1"})]
