"""The search box finds what was said, leads to its place, and back."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.scene import PageScene, box, is_at_end, message, messages, send

from ollim_bot.domain.chat import Author

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def search(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Search")


def results(page: Page) -> Locator:
    return search(page).get_by_role("listitem")


async def test_a_search_is_typed_chosen_and_left_by_keyboard(scene: PageScene) -> None:
    await scene.post_old("When is the **dentist**?", Author.OWNER, minutes=90)
    await scene.post_old("The dentist <b>is</b> on Friday.", minutes=80)
    page = await scene.open(width=320, height=560)
    await page.keyboard.press("Control+k")
    status = search(page).get_by_role("status")
    await expect(status).to_have_text(
        "Search everything that you and the bot said, also before a /clear."
    )
    await page.keyboard.type("zebra")
    await expect(status).to_have_text("No message has these words.")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("DENT is")
    await expect(results(page)).to_have_count(0)
    await page.keyboard.press("Control+a")
    await page.keyboard.type("is dent")
    await expect(results(page)).to_have_count(2)
    await expect(status).to_have_text("2 results, best first")
    await expect(results(page).first.locator("mark")).to_have_text(["dentist", "is"])
    await expect(results(page).last).to_contain_text("· YouWhen is the dentist?")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(results(page).last.get_by_role("button")).to_be_focused()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.keyboard.press("Enter")
    await expect(search(page)).to_be_hidden()
    await expect(message(page, "When is the dentist?")).to_be_focused()
    await expect(message(page, "When is the dentist?")).to_have_attribute("data-target", "")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("is dent")
    await expect(search(page).get_by_role("button", name="Close")).to_be_visible()
    await expect(page.get_by_role("searchbox")).to_have_attribute("type", "text")
    await page.keyboard.press("Escape")
    await expect(search(page)).to_be_hidden()


async def look_up(page: Page, words: str) -> None:
    await page.get_by_role("button", name="Search").click()
    await page.keyboard.type(words)
    await expect(results(page)).to_have_count(1)
    await page.keyboard.press("Enter")


async def test_a_result_of_long_ago_is_shown_among_its_neighbours_and_three_ways_lead_back(
    scene: PageScene,
) -> None:
    await scene.post_many_old(120)
    page = await scene.open()
    await send(page, '/search "old message 30"')
    await expect(results(page)).to_have_count(1)
    assert scene.commands == []
    await results(page).get_by_role("button").click()
    found = message(page, "old message 30")
    await expect(found).to_be_in_viewport()
    await expect(found).to_be_focused()
    await expect(messages(page)).to_have_count(51)
    await expect(message(page, "old message 119")).to_have_count(0)
    await page.go_back()
    await expect(message(page, "old message 119")).to_be_in_viewport()
    assert await is_at_end(page)

    await look_up(page, '"old message 7"')
    await expect(message(page, "old message 7").first).to_be_focused()
    await scene.post_old("said meanwhile")
    await expect(message(page, "said meanwhile")).to_have_count(0)
    await page.get_by_role("button", name="New messages").click()
    await expect(message(page, "said meanwhile")).to_be_in_viewport()
    await expect(box(page)).to_have_value("")

    await look_up(page, '"old message 8"')
    await expect(message(page, "old message 8").first).to_be_focused()
    await scene.post_old("said in between")
    await expect(message(page, "said in between")).to_have_count(0)
    await send(page, "I am back")
    await expect(message(page, "I am back")).to_be_in_viewport()
    await expect(box(page)).to_have_value("")
