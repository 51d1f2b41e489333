"""An open fork is always visible on the page, changes nothing above it, and can be ended."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from playwright.async_api import Locator, Page, Route, expect
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
from tests.browser.scene import (
    PageScene,
    announced,
    box,
    is_at_end,
    listen,
    message,
    messages,
    scroll_to,
    sent,
    set_hidden,
)
from tests.patience import eventually

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import TextStreamed
from ollim_bot.kernel.values.ports import OpenFork

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
    await eventually(lambda: scene.core.clicks)
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


async def test_a_reload_or_an_absence_changes_nothing(scene: PageScene, page: Page) -> None:
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    await page.reload()
    await expect(banner(page)).to_be_visible()
    await expect(page).to_have_title("Side conversation: taxes · Ollim")
    async with scene.without_server():
        await expect(page.locator("#connection")).not_to_have_text("")
        await expect(banner(page)).to_be_visible()
        await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    await page.reload()
    await expect(messages(page)).to_have_count(2)
    await expect(page.locator("#fork")).to_be_hidden()


async def top_of(element: Locator) -> float:
    found = await element.bounding_box()
    assert found
    return found["y"]


async def test_a_fork_moves_neither_who_is_at_the_end_nor_the_text_that_is_read(
    scene: PageScene,
) -> None:
    await scene.post_many_old(40)
    page = await scene.open()
    place = await top_of(box(page))
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    assert await is_at_end(page)
    await expect(message(page, "Topic: taxes")).to_be_in_viewport(ratio=1)
    await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    assert await is_at_end(page)
    assert await top_of(box(page)) == place

    await scroll_to(page, 900)
    await expect(page.get_by_role("button", name="To the end")).to_be_visible()
    read = message(page, "old message 20")
    before = await top_of(read)
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    assert abs(await top_of(read) - before) <= 1
    scene.core.answers[SAVE.custom_id] = CommandAnswer(NOT_SAVED, is_error=True)
    await fork_button(page, "Keep all of it").click()
    await expect(page.locator("#fork-answer")).to_be_visible()
    assert abs(await top_of(read) - before) <= 1
    await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    assert abs(await top_of(read) - before) <= 1


async def test_what_was_said_in_a_fork_stays_marked(scene: PageScene, page: Page) -> None:
    await scene.core.say("before")
    card = await enter(scene)
    await scene.core.say("a question", Author.OWNER, in_fork=True)
    turn = scene.core.begin()
    await turn.show(TextStreamed("an answer"))
    marked = page.locator("#log > .in-fork")
    await expect(marked).to_have_count(3)
    await scene.core.say("an answer", in_fork=True, turn=turn.start.turn)
    await turn.end()
    await scene.core.say("a reminder", Author.BACKGROUND, job="Tea")
    await end(scene, card)
    await scene.core.say("after")
    for is_reloaded in (False, True):
        if is_reloaded:
            await page.reload()
        await expect(messages(page)).to_have_count(7)
        await expect(marked).to_have_count(4)
        await expect(page.get_by_role("article", name="in a side conversation")).to_have_count(4)
        await expect(
            page.get_by_role("article", name="You, in a side conversation, today")
        ).to_contain_text("a question")
        lines: list[list[float]] = await marked.evaluate_all("""all => all.map((it) => {
            const line = getComputedStyle(it, "::before");
            const {top, bottom, right} = it.getBoundingClientRect();
            const start = right - parseFloat(line.width) - parseFloat(line.borderLeftWidth);
            return [start, top + parseFloat(line.top), bottom - parseFloat(line.bottom)];
        })""")
        column = await message(page, "before").bounding_box()
        assert column
        for (start, _, end_of_one), (_, start_of_next, _) in pairwise(lines[:3]):
            assert abs(end_of_one - start_of_next) <= 1, "the line has a gap"
            assert 0 < start < column["x"]
        assert len({round(start) for start, _, _ in lines}) == 1, "the line is not straight"


async def is_announced_once(scene: PageScene, page: Page) -> ChatMessage:
    before = await messages(page).count()
    await listen(page)
    card = await enter(scene)
    await expect(banner(page)).to_be_visible()
    await scene.core.change(is_busy=True)
    await scene.core.say("an answer", in_fork=True)
    await end(scene, card)
    await expect(page.locator("#fork")).to_be_hidden()
    await scene.core.change(fork=OpenFork("rent", MessageId("to come")))
    await expect(banner(page, "Side conversation: rent")).to_be_visible()
    await scene.core.change(is_busy=False)
    to_come = replace(card, id=MessageId("to come"))
    await scene.core.post(to_come)
    await expect(messages(page)).to_have_count(before + 4)
    assert await announced(page) == [
        "Program: Side conversation\nTopic: taxes",
        "Ollim: an answer",
        "Program: Side conversation ended — nothing kept",
        "Side conversation: rent",
    ]
    return to_come


async def test_a_fork_is_announced_once_and_its_cards_look_like_cards(
    scene: PageScene, page: Page
) -> None:
    """This holds for a page that opens during the fork, and for messages that are being sent."""
    card = await enter(scene)
    await end(scene, card)
    entry, ended, said = (messages(page).nth(place) for place in range(3))
    await expect(entry.locator(".card button")).to_have_count(0)
    await expect(ended).to_contain_text("Side conversation ended — nothing kept")
    await scene.core.say("an answer")
    await expect(said).to_contain_text("an answer")
    look = "it => [getComputedStyle(it).fontSize, getComputedStyle(it).color]"
    assert await entry.evaluate(look) == await said.evaluate(look)
    dash = "it => getComputedStyle(it.querySelector('.body'), '::before').content"
    assert [await each.evaluate(dash) for each in (entry, ended)] == ["none", "none"]

    await end(scene, await is_announced_once(scene, page))
    await expect(page.locator("#fork")).to_be_hidden()

    await enter(scene)
    await page.reload()
    await expect(page.locator("#announcer")).to_have_text("Side conversation: taxes")
    await expect(banner(page)).to_be_visible()
    async with scene.without_server():
        await box(page).fill("are you there?")
        await box(page).press("Enter")
        await expect(page.locator(".owner.in-fork")).to_contain_text("not sent yet")
    await expect(sent(page, "are you there?")).to_have_count(1)
