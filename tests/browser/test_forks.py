"""An open fork is always visible on the page, and can be ended in three ways."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import Page, Route, expect
from tests.browser.fork_scene import (
    ENTRY,
    EXIT,
    NO_TOPIC,
    NOT_SAVED,
    REPORT,
    SAVE,
    banner,
    end,
    enter,
    fork_button,
)
from tests.browser.scene import PageScene, announced, box, listen, message, messages, set_hidden

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.ids import MessageId
from ollim_bot.ports import OpenFork

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def paper(page: Page) -> str:
    color: str = await page.locator("body").evaluate("it => getComputedStyle(it).backgroundColor")
    return color


async def test_an_open_fork_is_seen_everywhere_and_is_gone_when_it_ends(
    scene: PageScene, page: Page
) -> None:
    plain = await paper(page)
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    await expect(page.locator("#fork-ways button")).to_have_text(
        ["Keep all of it", "Keep a summary", "Leave it"]
    )
    await expect(box(page)).to_have_attribute("placeholder", "Write here")
    await expect(page).to_have_title("Side conversation: taxes · Ollim")
    tinted = await paper(page)
    await page.emulate_media(color_scheme="dark")
    dark = await paper(page)
    await page.emulate_media(color_scheme="light")
    await set_hidden(page, True)
    await scene.core.say("an answer", in_fork=True)
    await expect(page).to_have_title("(1) Side conversation: taxes · Ollim")
    await set_hidden(page, False)
    await leaves_without_a_mouse(scene, page, card)
    await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
    await expect(page).to_have_title("Ollim")
    assert await paper(page) == plain
    await page.emulate_media(color_scheme="dark")
    assert len({plain, tinted, dark, await paper(page)}) == 4


async def leaves_without_a_mouse(scene: PageScene, page: Page, card: ChatMessage) -> None:
    scene.core.answers[EXIT.custom_id] = CommandAnswer()
    await expect(box(page)).to_be_focused()
    await page.get_by_role("button", name="Keys").focus()
    for name in ("Keep all of it", "Keep a summary", "Leave it"):
        await page.keyboard.press("Tab")
        await expect(fork_button(page, name)).to_be_focused()
        await expect(fork_button(page, name)).to_have_css("outline-style", "solid")
    await page.keyboard.press("Enter")
    await expect(fork_button(page, "Leave it")).to_be_disabled()
    await expect(fork_button(page, "Leave it")).to_be_focused()
    await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    await expect(box(page)).to_be_focused()
    assert scene.core.clicks == [("web", card.id, EXIT.custom_id)]


async def test_the_banner_names_the_topic_as_words_and_fits_a_small_phone(
    scene: PageScene, page: Page
) -> None:
    await enter(scene, "")
    await expect(banner(page, NO_TOPIC)).to_be_visible()
    await expect(page).to_have_title("Side conversation · Ollim")
    hostile = "<img src=x onerror=alert(1)>"
    await enter(scene, hostile)
    await expect(banner(page, f"Side conversation: {hostile}")).to_be_visible()
    await expect(page.locator("img")).to_have_count(0)

    await page.set_viewport_size({"width": 320, "height": 568})
    for topic in ("", "what to do about the letter of the tax office " * 9, "x" * 300):
        await enter(scene, topic)
        await expect(page.locator("#fork-name")).to_have_text(
            f"Side conversation: {topic}".strip() if topic else NO_TOPIC
        )
        for name in ("Keep all of it", "Keep a summary", "Leave it"):
            await expect(fork_button(page, name)).to_be_in_viewport(ratio=1)
        assert await page.locator("#fork").evaluate("it => it.offsetHeight < innerHeight / 4")
        assert await page.evaluate("document.documentElement.scrollWidth") == 320
        await expect(box(page)).to_be_in_viewport(ratio=1)
    assert await page.locator("#scroller").evaluate("it => it.scrollHeight > it.clientHeight")


async def test_each_way_out_presses_its_button_of_the_card_once(
    scene: PageScene, page: Page
) -> None:
    clicks = []
    for button in (SAVE, REPORT, EXIT):
        scene.core.answers[button.custom_id] = CommandAnswer()
        card = await enter(scene)
        clicks.append(("web", card.id, button.custom_id))
        await scene.core.say("later")
        await fork_button(page, button.label).click()
        pressed = messages(page).nth(-2).get_by_role("button", name=button.label)
        await expect(pressed).to_have_text(f"{button.label} used")
        await expect(fork_button(page, button.label)).to_be_disabled()
        await expect(page.locator("#fork-ways [aria-disabled]")).to_have_count(1)
        assert scene.core.clicks == clicks
        await expect(page.locator(".note")).to_have_count(0)
        await scene.core.change(fork=None)
        await expect(page.locator("#fork")).to_be_hidden()

    scene.core.answers.clear()
    scene.core.calls.clear()
    await enter(scene)
    scene.core.may_answer.clear()
    await fork_button(page, "Keep a summary").dblclick()
    await fork_button(page, "Keep a summary").click(force=True)
    await fork_button(page, "Leave it").click(force=True)
    await expect(page.locator("#fork-ways [aria-disabled]")).to_have_count(3)
    scene.core.may_answer.set()
    await expect(fork_button(page, "Leave it")).to_be_enabled()
    await expect(page.get_by_role("region", name="Answer to Keep a summary")).to_have_text(
        "Keep a summaryKeep a summary: done."
    )
    assert scene.core.calls == [REPORT.custom_id]


async def test_a_way_out_that_is_closed_or_waits_can_be_tried_again_and_why_is_said(
    scene: PageScene, page: Page
) -> None:
    scene.core.answers[SAVE.custom_id] = CommandAnswer(NOT_SAVED, is_error=True)
    await enter(scene)
    await expect(banner(page)).to_be_visible()
    await listen(page)
    answer = page.locator("#fork-answer")
    await fork_button(page, "Keep all of it").click()
    await expect(answer).to_have_text(
        "The main conversation has gone on since. Use Keep a summary instead."
    )
    await expect(answer.locator("strong")).to_have_text("Keep a summary")
    await expect(fork_button(page, "Keep all of it")).to_be_enabled()
    await expect(page.locator(".note")).to_have_count(0)
    assert len(await announced(page)) == 1
    assert scene.core.calls == [SAVE.custom_id]

    async with scene.without_server():
        await fork_button(page, "Leave it").click()
        await expect(answer).to_contain_text("does not answer")
        await expect(fork_button(page, "Leave it")).to_be_enabled()
    assert scene.core.calls == [SAVE.custom_id]

    pressed: list[str] = []

    async def answered(route: Route) -> None:
        pressed.append(route.request.url)
        await route.fulfill(json={"text": "", "html": "", "is_error": False})

    await page.route("**/api/clicks", answered)
    for press in (
        fork_button(page, "Keep all of it"),
        messages(page).get_by_role("button", name="Keep all"),
    ):
        await press.click()
        await expect(page.locator("[aria-disabled]")).to_have_count(0)
    assert len(pressed) == 2
    await page.unroute("**/api/clicks")

    await fork_button(page, "Keep all of it").click()
    await expect(answer).to_be_visible()
    scene.core.may_answer.clear()
    await fork_button(page, "Leave it").click()
    await expect(answer).to_be_hidden()
    scene.core.may_answer.set()


async def test_a_fork_whose_card_is_far_back_can_still_be_left_and_without_it_a_sentence_is_said(
    scene: PageScene,
) -> None:
    card = replace(await scene.post_old(ENTRY.text, Author.PROGRAM, minutes=90), card=ENTRY)
    await scene.core.post(card)
    await scene.core.change(fork=OpenFork("taxes", card.id))
    await scene.post_many_old(62)
    page = await scene.open()
    await expect(messages(page)).to_have_count(60)
    await fork_button(page, "Leave it").click()
    await expect(page.get_by_role("region", name="Answer to Leave it")).to_be_visible()
    assert scene.core.clicks == [("web", card.id, EXIT.custom_id)]
    await fork_button(page, "Leave it").click()
    await expect(page.locator("#fork-answer")).to_have_text("That button was used already.")
    scene.check()

    scene.expect_browser_error("404")
    await scene.core.change(fork=OpenFork("rent", MessageId("gone")))
    await expect(banner(page, "Side conversation: rent")).to_be_visible()
    await fork_button(page, "Leave it").click()
    await expect(page.locator("#fork-answer")).to_have_text("That message is gone.")


async def test_two_tabs_agree_and_a_reload_or_an_absence_changes_nothing(
    scene: PageScene, page: Page
) -> None:
    other = await scene.open()
    card = await enter(scene)
    for tab in (page, other):
        await expect(banner(tab)).to_be_visible()
    await other.reload()
    await expect(banner(other)).to_be_visible()
    await expect(other).to_have_title("Side conversation: taxes · Ollim")
    await end(scene, card)
    for tab in (page, other):
        await expect(tab.locator("#fork")).to_be_hidden()
        await expect(message(tab, "Side conversation ended — nothing kept")).to_be_visible()
    await other.reload()
    await expect(messages(other)).to_have_count(2)
    await expect(other.locator("#fork")).to_be_hidden()
    await other.close()

    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    async with scene.without_server():
        await expect(page.locator("#connection")).not_to_have_text("")
        await expect(banner(page)).to_be_visible()
        await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
