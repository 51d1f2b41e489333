"""Today beside the conversation or behind the bar: seen, pressed, by keyboard, live, away."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from playwright.async_api import Page, Route, expect
from tests.browser.scene import PageScene, box, send
from tests.surfaces.web.views import HOSTILE, full_day

from ollim_bot.features.today.day import DayLine
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.values.views import ViewAnswer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

_LOADED = """() => performance.getEntriesByType("resource").map(({name}) => name)
    .filter((name) => /today\\.(js|css)$/.test(name)).length"""


def settle_pill(scene: PageScene) -> None:
    """From now on, Taken moves the pill to what is done."""

    def press(custom_id: str) -> None:
        day = scene.core.day.current
        if custom_id == "act:taken:k1":
            done = [DayLine("✓ take the heart pill · 9:04"), *day.done]
            scene.core.day.change(replace(day, overdue=day.overdue[1:], done=done))

    scene.core.day.on_press = press


async def go(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def test_today_stands_beside_the_conversation_or_behind_the_bar(scene: PageScene) -> None:
    """One load for both sizes; hostile titles stay words, two tabs agree, all by keyboard."""
    scene.core.day.current = full_day(scene.core.now())
    settle_pill(scene)
    page = await scene.open(width=390, height=844)
    panel, views = page.locator("#panel"), page.get_by_role("navigation")
    await expect(views.get_by_role("link", name="Today 2")).to_be_visible()
    await expect(panel).to_be_hidden()
    assert await page.evaluate(_LOADED) == 0, "it is loaded when it is first opened"
    await views.get_by_role("link", name="Today").click()
    await expect(panel.get_by_role("heading", name="Overdue")).to_be_visible()
    await expect(page).to_have_url(f"http://{scene.host}/today")
    await expect(box(page)).to_be_hidden()
    await expect(panel.get_by_text(HOSTILE).first).to_be_visible()
    assert await page.title() == "Ollim"
    bar = panel.get_by_role("progressbar", name="Minutes left")
    assert 40 <= float(await bar.get_attribute("value") or 0) <= 42

    await page.set_viewport_size({"width": 1280, "height": 900})
    await expect(box(page)).to_be_visible()
    await expect(views.get_by_role("link", name="Today")).to_be_hidden()
    other = await scene.open(width=1280, height=900)
    await expect(other.get_by_role("button", name="Taken: take the heart pill")).to_be_visible()

    await page.bring_to_front()
    await box(page).focus()
    await go(page, "Escape", "g", "t", "ArrowDown")
    taken = panel.get_by_role("button", name="Taken: take the heart pill")
    await expect(taken).to_be_focused()
    await go(page, "ArrowRight", "ArrowLeft", "Enter")
    await expect(panel.get_by_text("Done · 2")).to_be_visible()
    await expect(other.get_by_text("Done · 2")).to_be_visible()
    await expect(taken).to_have_count(0)
    assert scene.core.day.presses == [("web", "act:taken:k1", "")]
    # The focus stays near its place, and a fold stays open while the panel is drawn anew.
    await expect(panel.get_by_role("button", name=f"Done: {HOSTILE}")).to_be_focused()
    await go(page, "ArrowRight", "ArrowRight", "Enter", "ArrowRight", "ArrowRight")
    question = panel.get_by_role("textbox", name="When?")
    await expect(question).to_be_focused()
    scene.core.day.answers["act:snooze:k2:other"] = ViewAnswer("When is that?", is_error=True)
    await page.keyboard.type("good time")
    await page.keyboard.press("Enter")
    await expect(panel.get_by_text("When is that?")).to_be_visible()
    await expect(question).to_have_value("good time")
    scene.core.day.change(replace(scene.core.day.current, tasks=[]))
    await expect(panel.get_by_role("heading", name="Tasks")).to_have_count(0)
    await expect(question).to_have_value("good time")
    await expect(question).to_be_focused()

    await panel.focus()
    await go(page, "g", "c")
    await expect(box(page)).to_be_focused()
    await go(page, "Escape")
    await page.keyboard.type("good")
    await expect(box(page)).to_have_value("good")
    await box(page).fill("")
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    await expect(keys.get_by_role("term").filter(has_text="g t")).to_be_visible()


async def test_a_view_that_is_not_there_yet_says_that_it_loads(scene: PageScene) -> None:
    scene.core.day.current = full_day(scene.core.now())
    page = await scene.open(width=390, height=844)
    held = [asyncio.Event() for _ in range(3)]
    paths = ("**/api/challenge*", "**/static/panel.js", "**/api/panels/*")

    async def hold(route: Route, until: asyncio.Event) -> None:
        await until.wait()
        await route.continue_()

    for path, until in zip(paths, held, strict=True):
        await page.route(path, partial(hold, until=until))
    for view, heading in (("today", "Overdue"), ("week", "Week")):
        await page.goto(f"http://{scene.host}/{view}", wait_until="commit")
        for until in held:
            await expect(page.get_by_role("main").get_by_text("Loading…")).to_be_visible()
            until.set()
        await expect(page.get_by_role("heading", name=heading).first).to_be_visible()
        await expect(page.get_by_role("main").get_by_text("Loading…")).to_be_hidden()
        for until in held:
            until.clear()


async def test_a_view_survives_back_reload_a_failure_and_a_bot_that_is_away(
    scene: PageScene,
) -> None:
    scene.core.day.current = full_day(scene.core.now())
    page = await scene.open(width=390, height=844)
    await send(page, "hello")
    panel = page.locator("#panel")
    await page.get_by_role("link", name="Today").click()
    await expect(panel.get_by_text("call the dentist").first).to_be_visible()
    await page.go_back()
    await expect(box(page)).to_be_visible()
    await expect(panel).to_be_hidden()
    await page.go_forward()
    await expect(panel).to_be_visible()

    scene.expect_browser_error("503")
    scene.core.day.refusal = OllimError("The disk is full.")
    scene.core.day.change(scene.core.day.current)
    again = panel.get_by_role("button", name="Try again")
    await expect(panel.get_by_text("Today could not be loaded. The disk is full.")).to_be_visible()
    scene.core.day.refusal = None
    await again.click()
    await expect(again).to_have_count(0)

    async with scene.without_server():
        await expect(panel.get_by_text("Not connected. This is how it was at")).to_be_visible()
        await expect(panel.get_by_role("button", name="Taken")).to_be_disabled()
        scene.core.day.current = replace(full_day(scene.core.now()), overdue=[])
    await expect(panel.get_by_role("heading", name="Overdue")).to_have_count(0)
    await expect(panel.get_by_text("Not connected")).to_have_count(0)

    await page.reload()
    await expect(page).to_have_url(f"http://{scene.host}/today")
    await expect(panel.get_by_text("call the dentist").first).to_be_visible()
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("checkbox", name="Keys of one letter").uncheck()
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Chat").click()
    await go(page, "Escape")
    await page.keyboard.type("gt")
    await expect(box(page)).to_have_value("gt")
