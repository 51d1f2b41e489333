"""A fork on the page: seen all the time while it is open, and left by three ways."""

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
    way,
)
from tests.browser.stage import (
    Stage,
    announced,
    box,
    listen,
    message,
    messages,
    set_hidden,
)

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.ports import OpenFork

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def paper(page: Page) -> str:
    color: str = await page.locator("body").evaluate("it => getComputedStyle(it).backgroundColor")
    return color


async def test_an_open_fork_is_seen_everywhere_and_is_gone_when_it_ends(
    stage: Stage, page: Page
) -> None:
    plain = await paper(page)
    card = await enter(stage)
    await expect(banner(page)).to_be_visible()
    await expect(page.locator("#fork-ways button")).to_have_text(
        ["Keep all of it", "Keep a summary", "Leave it"]
    )
    await expect(box(page)).to_have_attribute("placeholder", "Write in the side conversation")
    await expect(page).to_have_title("Side conversation: taxes · Ollim")
    tinted = await paper(page)
    await page.emulate_media(color_scheme="dark")
    dark = await paper(page)
    await page.emulate_media(color_scheme="light")
    await set_hidden(page, True)
    await stage.core.say("an answer", in_fork=True)
    await expect(page).to_have_title("(1) Side conversation: taxes · Ollim")
    await set_hidden(page, False)
    await leaves_without_a_mouse(stage, page, card)
    await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
    await expect(page).to_have_title("Ollim")
    assert await paper(page) == plain
    await page.emulate_media(color_scheme="dark")
    assert len({plain, tinted, dark, await paper(page)}) == 4


async def leaves_without_a_mouse(stage: Stage, page: Page, card: ChatMessage) -> None:
    stage.core.answers[EXIT.custom_id] = CommandAnswer()
    await expect(box(page)).to_be_focused()
    await page.get_by_role("button", name="Keys").focus()
    for name in ("Keep all of it", "Keep a summary", "Leave it"):
        await page.keyboard.press("Tab")
        await expect(way(page, name)).to_be_focused()
        await expect(way(page, name)).to_have_css("outline-style", "solid")
    await page.keyboard.press("Enter")
    await expect(way(page, "Leave it")).to_be_disabled()
    await expect(way(page, "Leave it")).to_be_focused()
    await end(stage, card)
    await expect(page.locator("#fork")).to_be_hidden()
    await expect(box(page)).to_be_focused()
    assert stage.core.clicks == [("web", card.id, EXIT.custom_id)]


async def test_the_banner_names_the_topic_as_words_and_fits_a_small_phone(
    stage: Stage, page: Page
) -> None:
    await enter(stage, "")
    await expect(banner(page, NO_TOPIC)).to_be_visible()
    await expect(page).to_have_title("Side conversation · Ollim")
    hostile = "<img src=x onerror=alert(1)>"
    await enter(stage, hostile)
    await expect(banner(page, f"Side conversation: {hostile}")).to_be_visible()
    await expect(page.locator("img")).to_have_count(0)

    await page.set_viewport_size({"width": 320, "height": 568})
    for topic in ("", "what to do about the letter of the tax office " * 9, "x" * 300):
        await enter(stage, topic)
        await expect(page.locator("#fork-name")).to_have_text(
            f"Side conversation: {topic}".strip() if topic else NO_TOPIC
        )
        for name in ("Keep all of it", "Keep a summary", "Leave it"):
            await expect(way(page, name)).to_be_in_viewport(ratio=1)
        assert await page.locator("#fork").evaluate("it => it.offsetHeight < innerHeight / 4")
        assert await page.evaluate("document.documentElement.scrollWidth") == 320
        await expect(box(page)).to_be_in_viewport(ratio=1)
    assert await page.locator("#scroller").evaluate("it => it.scrollHeight > it.clientHeight")


async def test_each_way_out_presses_its_button_of_the_card_once(stage: Stage, page: Page) -> None:
    clicks = []
    for button in (SAVE, REPORT, EXIT):
        stage.core.answers[button.custom_id] = CommandAnswer()
        card = await enter(stage)
        clicks.append(("web", card.id, button.custom_id))
        await stage.core.say("later")
        await way(page, button.label).click()
        pressed = messages(page).nth(-2).get_by_role("button", name=button.label)
        await expect(pressed).to_have_text(f"{button.label} used")
        await expect(way(page, button.label)).to_be_disabled()
        await expect(page.locator("#fork-ways [aria-disabled]")).to_have_count(1)
        assert stage.core.clicks == clicks
        await expect(page.locator(".note")).to_have_count(0)
        await stage.core.change(fork=None)
        await expect(page.locator("#fork")).to_be_hidden()

    stage.core.answers.clear()
    stage.core.calls.clear()
    await enter(stage)
    stage.core.may_answer.clear()
    await way(page, "Keep a summary").dblclick()
    await way(page, "Keep a summary").click(force=True)
    await way(page, "Leave it").click(force=True)
    await expect(page.locator("#fork-ways [aria-disabled]")).to_have_count(3)
    stage.core.may_answer.set()
    await expect(way(page, "Leave it")).to_be_enabled()
    await expect(page.get_by_role("region", name="Answer to Keep a summary")).to_have_text(
        "Keep a summaryKeep a summary: done."
    )
    assert stage.core.calls == [REPORT.custom_id]


async def test_a_way_out_that_is_closed_or_waits_can_be_tried_again_and_why_is_said(
    stage: Stage, page: Page
) -> None:
    stage.core.answers[SAVE.custom_id] = CommandAnswer(NOT_SAVED, is_error=True)
    await enter(stage)
    await expect(banner(page)).to_be_visible()
    await listen(page)
    answer = page.locator("#fork-answer")
    await way(page, "Keep all of it").click()
    await expect(answer).to_have_text(
        "The main conversation has gone on since. Use Keep a summary instead."
    )
    await expect(answer.locator("strong")).to_have_text("Keep a summary")
    await expect(way(page, "Keep all of it")).to_be_enabled()
    await expect(page.locator(".note")).to_have_count(0)
    assert len(await announced(page)) == 1
    assert stage.core.calls == [SAVE.custom_id]

    async with stage.without_server():
        await way(page, "Leave it").click()
        await expect(answer).to_contain_text("cannot be reached now")
        await expect(way(page, "Leave it")).to_be_enabled()
    assert stage.core.calls == [SAVE.custom_id]

    pressed: list[str] = []

    async def answered(route: Route) -> None:
        pressed.append(route.request.url)
        await route.fulfill(json={"text": "", "html": "", "is_error": False})

    await page.route("**/api/clicks", answered)
    for press in (
        way(page, "Keep all of it"),
        messages(page).get_by_role("button", name="Keep all"),
    ):
        await press.click()
        await expect(page.locator("[aria-disabled]")).to_have_count(0)
    assert len(pressed) == 2
    await page.unroute("**/api/clicks")

    await way(page, "Keep all of it").click()
    await expect(answer).to_be_visible()
    stage.core.may_answer.clear()
    await way(page, "Leave it").click()
    await expect(answer).to_be_hidden()
    stage.core.may_answer.set()


async def test_a_fork_whose_card_is_far_back_can_still_be_left_and_without_it_a_sentence_is_said(
    stage: Stage,
) -> None:
    card = replace(await stage.past(ENTRY.text, Author.PROGRAM, minutes=90), card=ENTRY)
    await stage.core.post(card)
    await stage.core.change(fork=OpenFork("taxes", card.id))
    await stage.long_past(62)
    page = await stage.open()
    await expect(messages(page)).to_have_count(60)
    await way(page, "Leave it").click()
    await expect(page.get_by_role("region", name="Answer to Leave it")).to_be_visible()
    assert stage.core.clicks == [("web", card.id, EXIT.custom_id)]
    await way(page, "Leave it").click()
    await expect(page.locator("#fork-answer")).to_have_text("That button was used already.")
    stage.check()

    stage.expect_complaint("404")
    await stage.core.change(fork=OpenFork("rent", MessageId("gone")))
    await expect(banner(page, "Side conversation: rent")).to_be_visible()
    await way(page, "Leave it").click()
    await expect(page.locator("#fork-answer")).to_have_text("That message is not there any more.")


async def test_two_tabs_agree_and_a_reload_or_an_absence_changes_nothing(
    stage: Stage, page: Page
) -> None:
    other = await stage.open()
    card = await enter(stage)
    for tab in (page, other):
        await expect(banner(tab)).to_be_visible()
    await other.reload()
    await expect(banner(other)).to_be_visible()
    await expect(other).to_have_title("Side conversation: taxes · Ollim")
    await end(stage, card)
    for tab in (page, other):
        await expect(tab.locator("#fork")).to_be_hidden()
        await expect(message(tab, "Side conversation ended — left")).to_be_visible()
    await other.reload()
    await expect(messages(other)).to_have_count(2)
    await expect(other.locator("#fork")).to_be_hidden()
    await other.close()

    card = await enter(stage)
    await expect(banner(page)).to_be_visible()
    async with stage.without_server():
        await expect(page.locator("#connection")).not_to_have_text("")
        await expect(banner(page)).to_be_visible()
        await end(stage, card)
    await expect(page.locator("#fork")).to_be_hidden()
