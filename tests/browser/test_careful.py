"""The page says that the bot is careful, and one press ends it."""

from __future__ import annotations

from itertools import product

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.scene import PageScene, announced, box, is_at_end, listen, message

from ollim_bot.domain.careful import CarefulTime

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WORDS = "careful since 14:02: web page news.example and 2 more"
FIRST = CarefulTime(WORDS, "0a1b")
_BAR = "header.bar"


def line(page: Page) -> Locator:
    return page.get_by_role("banner").get_by_text("careful since")


def go_on(page: Page) -> Locator:
    return page.get_by_role("banner").get_by_role("button", name="Go on, it is all right")


async def test_the_line_is_there_while_it_is_careful_and_a_press_by_keyboard_ends_it(
    scene: PageScene, page: Page
) -> None:
    await scene.post_many_old()
    await scene.core.say("the last words")
    plain = await page.locator(_BAR).bounding_box()
    await expect(line(page)).to_be_hidden()
    await scene.core.change(careful=FIRST)
    await expect(line(page)).to_have_text(WORDS)
    await expect(message(page, "the last words")).to_be_in_viewport(ratio=1)
    assert await is_at_end(page)

    await listen(page)
    await go_on(page).focus()
    await expect(go_on(page)).to_have_css("outline-style", "solid")
    scene.core.may_answer.clear()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    await expect(go_on(page)).to_have_attribute("aria-disabled", "true")
    scene.core.may_answer.set()
    await expect(line(page)).to_be_hidden()
    await expect(box(page)).to_be_focused()
    assert scene.core.calls == ["go_on 0a1b"]
    assert await announced(page) == ["It is not careful any more."]
    assert await page.locator(_BAR).bounding_box() == plain
    await scene.core.change(careful=FIRST)
    await expect(go_on(page)).to_be_enabled()


async def test_a_press_is_about_what_is_shown_and_what_went_wrong_is_said(
    scene: PageScene, page: Page
) -> None:
    hostile = "careful: web page <img src=x onerror=alert(1)>"
    await scene.core.change(careful=CarefulTime(hostile, "<key>"))
    await expect(page.get_by_role("banner").get_by_text(hostile)).to_be_visible()
    await expect(page.locator("img")).to_have_count(0)
    async with scene.without_server():
        await go_on(page).click()
        await expect(page.get_by_role("alert")).to_contain_text("nothing was done")
    await expect(page.locator("#connection")).to_be_empty()

    await page.route(
        "**/api/go-on", lambda route: route.continue_(post_data='{"key": "an older one"}')
    )
    await go_on(page).click()
    await expect(page.get_by_role("alert")).to_contain_text("something else since then")
    assert scene.core.calls == ["go_on an older one"]
    await page.unroute("**/api/go-on")
    await go_on(page).click()
    await expect(go_on(page)).to_be_hidden()
    await expect(page.get_by_role("alert")).to_be_empty()
    assert scene.core.calls[-1] == "go_on <key>"


async def test_it_is_one_row_in_the_bar_or_below_it_and_large_enough_for_a_thumb(
    scene: PageScene, page: Page
) -> None:
    longest = f"careful since yesterday 23:02: web page {'a' * 60} and 12 more"
    highest = {320: 200, 390: 160, 768: 140, 1280: 64}
    for words, width in product((WORDS, longest), highest):
        await page.set_viewport_size({"width": width, "height": 640})
        await scene.core.change(careful=CarefulTime(words, "0a1b"))
        await expect(page.get_by_text(words)).to_be_in_viewport(ratio=1)
        target = await go_on(page).bounding_box()
        assert target is not None
        assert min(target["width"], target["height"]) >= 44
        await expect(go_on(page)).to_be_in_viewport(ratio=1)
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        height = await page.locator(_BAR).evaluate("it => it.offsetHeight")
        assert height <= highest[width], (words, width, height)
