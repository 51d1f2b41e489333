"""Who says what, replies, what is unread, and what came before."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from playwright.async_api import Page, expect
from tests.browser.scene import (
    PageScene,
    box,
    is_at_end,
    message,
    messages,
    scroll_to,
    scroll_top,
    send,
    sent,
    set_hidden,
    texts,
)
from tests.web.browser import eventually

from ollim_bot.domain.chat import Author
from ollim_bot.errors import OllimError, WrongInput
from ollim_bot.offline.intents import schedule_intent
from ollim_bot.offline.phrasings import intents_in
from ollim_bot.offline.vocabulary import Remind

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LOOKS = ("background-color", "border-left-width", "font-size", "margin-left")


async def test_who_speaks_is_seen_and_said_and_each_message_is_shown_once_in_its_place(
    scene: PageScene, page: Page
) -> None:
    names = {
        Author.OWNER: "You, today",
        Author.ASSISTANT: "Ollim, today",
        Author.BACKGROUND: "Ollim, in the background, today",
        Author.PROGRAM: "Program, today",
    }
    looks = set()
    for author, name in names.items():
        await scene.core.say(f"by {author}", author)
        article = page.get_by_role("article", name=name)
        await expect(article).to_contain_text(f"by {author}")
        style = "(it, names) => names.map(name => getComputedStyle(it)[name]).join()"
        looks.add(await article.evaluate(style, LOOKS))
    assert len(looks) == len(names)
    await expect(message(page, "by background").locator(".mark")).to_have_text(re.compile("^today"))
    said = [f"by {author}" for author in names]

    await send(page, "Good *morning*")
    await expect(sent(page, "Good morning")).to_have_count(1)
    await expect(messages(page)).to_have_count(5)
    await expect(box(page)).to_have_value("")
    [received] = scene.core.received
    assert (received.text, received.surface, received.reply_to) == ("Good *morning*", "web", None)
    said.append("Good morning")

    first = await scene.core.say("frist")
    await scene.core.say("second")
    await expect(texts(page)).to_have_text([*said, "frist", "second"])
    await scene.core.post(replace(first, text="first"))
    await expect(texts(page)).to_have_text([*said, "first", "second"])

    warning = "context: 67% (134k) — consider /compact"
    await scene.core.say("Done.", footer=warning)
    await expect(message(page, "Done.")).to_contain_text(warning)


async def test_a_reply_quotes_above_the_box_and_on_the_message_and_can_be_cancelled(
    scene: PageScene, page: Page
) -> None:
    first = await scene.core.say("The dentist is at **nine**.")
    article, quote = message(page, "The dentist"), page.locator("#reply")
    for cancel in ("button", "key"):
        await article.hover()
        await article.get_by_role("button", name="Reply").click()
        await expect(quote).to_be_visible()
        if cancel == "button":
            await page.get_by_role("button", name="Cancel the reply").click()
        else:
            await box(page).press("Escape")
        await expect(quote).to_be_hidden()
    await send(page, "Hi")
    await expect(sent(page, "Hi")).to_be_visible()
    assert scene.core.received[0].reply_to is None

    await article.hover()
    await article.get_by_role("button", name="Reply").click()
    await expect(quote).to_have_text("Ollim The dentist is at nine.")
    await expect(box(page)).to_be_focused()

    await send(page, "Which one?")

    await expect(quote).to_be_hidden()
    jump = sent(page, "Which one?").get_by_role("button", name="The dentist is at")
    await expect(jump).to_be_visible()
    assert scene.core.received[1].reply_to == first.id
    await jump.click()
    await expect(article.first).to_be_focused()
    await expect(article.first).to_have_css("outline-style", "solid")


async def older_come_without_a_jump(page: Page) -> None:
    await expect(messages(page)).to_have_count(60)
    await scroll_to(page, 700)
    seen = message(page, "old message 130")
    before = await seen.bounding_box()
    moved = await scroll_top(page)
    await scroll_to(page, 400)
    await expect(messages(page)).to_have_count(110)
    after = await seen.bounding_box()
    assert before
    assert after
    assert after["y"] == pytest.approx(before["y"] + moved - 400, abs=1)
    await scroll_to(page, 0)
    await expect(messages(page)).to_have_count(160)
    await expect(messages(page).first).to_contain_text("old message 21")
    assert await scroll_top(page) > 0


async def late_ones_leave_no_gap(page: Page) -> None:
    """The page requested them before it started anew with the newest messages."""
    shown = await page.evaluate("""async () => {
        const { INITIAL_STATE } = await import("/static/state.js");
        const { olderLoaded } = await import("/static/reducers.js");
        const state = { ...INITIAL_STATE, messages: [{ id: "m90" }], hasMore: true };
        const late = olderLoaded(state, "m30", [{ id: "m29" }], false);
        const right = olderLoaded(state, "m90", [{ id: "m89" }], false);
        return [late, right].map(({ messages }) => messages.map((message) => message.id));
    }""")
    assert shown == [["m90"], ["m89", "m90"]]


async def test_a_quote_leads_to_a_message_that_was_not_loaded_yet_and_older_ones_do_not_jump(
    scene: PageScene,
) -> None:
    """This holds during sending too, and the page says when the bot is away."""
    first = await scene.post_old("the very first", minutes=500)
    await scene.post_many_old(180)
    await scene.core.say("about that", reply_to=first.id)
    page = await scene.open()
    quote = message(page, "about that").get_by_role("button", name="the very first")
    first_shown = message(page, "the very first").first
    async with scene.without_server():
        await quote.click()
        await expect(page.locator("#notice")).to_have_text(
            "The bot does not answer, so the page could not load that message. Try again later."
        )
    await expect(page.locator("#connection")).to_have_text("")
    await expect(message(page, "the very first")).to_have_count(1)
    await quote.click()
    await expect(first_shown).to_be_focused()
    await expect(first_shown).to_be_in_viewport()

    await page.reload()
    await older_come_without_a_jump(page)
    scene.core.may_answer.clear()
    looks = scene.core.looks
    await scroll_to(page, 0)
    await eventually(lambda: scene.core.looks > looks)
    await quote.evaluate("it => it.click()")
    scene.core.may_answer.set()
    await expect(first_shown).to_be_focused()
    await expect(messages(page)).to_have_count(182)
    await expect(messages(page).first).to_contain_text("the very first")
    await late_ones_leave_no_gap(page)


async def test_the_unread_line_stands_where_the_reader_left(scene: PageScene) -> None:
    """Messages that arrive on a hidden page are counted until they are seen."""
    last = await scene.post_old("read already", minutes=20)
    scene.web.mark.write(last.id)
    await scene.stop()
    await scene.start()
    await scene.post_old("new one", Author.BACKGROUND, minutes=10)
    await scene.post_old("new two", minutes=5)
    page = await scene.open()
    shown = page.get_by_role("log").locator("> *:not(.moment)")
    await expect(shown).to_have_count(4)
    await expect(shown.nth(1)).to_have_text("new")
    await expect(page).to_have_title("Ollim")
    assert await is_at_end(page)
    await send(page, "thanks")
    await expect(page.locator(".unread")).to_have_count(0)

    before = await scene.core.say("before")
    await eventually(lambda: scene.web.mark.value == before.id)
    await set_hidden(page, True)
    await scene.core.say("one", Author.BACKGROUND)
    await scene.core.say("two")
    await expect(page).to_have_title("(2) Ollim")
    assert scene.web.mark.value == before.id
    await set_hidden(page, False)
    await expect(page).to_have_title("Ollim")
    await expect(page.locator(".unread + article")).to_contain_text("one")


async def test_a_long_absence_opens_at_the_first_unread_message(scene: PageScene) -> None:
    last = await scene.post_old("read already", minutes=90)
    scene.web.mark.write(last.id)
    await scene.stop()
    await scene.start()
    await scene.post_many_old(40)
    page = await scene.open()
    await expect(page.locator(".unread")).to_be_in_viewport()
    await expect(page).to_have_title("(20) Ollim")
    await page.get_by_role("button", name="New messages").click()
    await expect(page).to_have_title("Ollim")


async def test_what_was_not_sent_is_not_lost(scene: PageScene, page: Page) -> None:
    """A text that is too long stays in the box; a refused one says why, and what can be done."""
    await box(page).fill("x" * 100_001)
    await box(page).press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("too long")
    await expect(box(page)).to_have_value("x" * 100_001)
    assert scene.core.received == []
    scene.check()

    scene.expect_browser_error("status of 400")
    scene.core.refusal = WrongInput("The picture cannot be read.")
    await send(page, "my words")
    refused = message(page, "my words")
    await expect(refused).to_contain_text("The picture cannot be read.")
    await expect(refused).to_contain_text("not sent")
    scene.core.refusal = None
    await refused.get_by_role("button", name="Edit").click()
    await expect(box(page)).to_have_value("my words")
    await expect(messages(page)).to_have_count(0)
    scene.check()

    scene.expect_browser_error("status of 503")
    scene.core.refusal = OllimError("The disk is full.")
    await send(page, "keep me")
    await send(page, "drop me")
    await expect(page.get_by_text("The disk is full.")).to_have_count(2)
    await box(page).fill("half a thought")
    await page.reload()
    await expect(box(page)).to_have_value("half a thought")
    await expect(page.get_by_text("The disk is full.")).to_have_count(2)
    scene.core.refusal = None
    await message(page, "keep me").get_by_role("button", name="Try again").click()
    await expect(sent(page, "keep me")).to_have_count(1)
    await message(page, "drop me").get_by_role("button", name="Discard").click()
    await expect(messages(page)).to_have_count(1)
    assert [received.text for received in scene.core.received] == ["keep me"]


async def test_the_first_page_offers_three_things_that_work(scene: PageScene, page: Page) -> None:
    """The offline model understands its own examples."""
    ideas = page.get_by_role("region", name="Three things to try").get_by_role("button")
    await expect(ideas).to_have_count(3)
    for idea in (await ideas.all())[:2]:
        text = await idea.get_attribute("data-text") or ""
        assert intents_in(text) or isinstance(schedule_intent(text, datetime.now(UTC)), Remind)
    await ideas.nth(2).click()
    await expect(page.get_by_role("listbox", name="Commands")).to_be_visible()
    await expect(box(page)).to_be_focused()
    await box(page).fill("half a thought")
    await ideas.nth(0).click()
    await expect(sent(page, "remind me in 1 minute to drink water")).to_be_visible()
    assert [each.text for each in scene.core.received] == ["remind me in 1 minute to drink water"]
    await expect(box(page)).to_have_value("half a thought")
    await expect(ideas).to_have_count(0)


async def test_the_bar_says_who_answers_and_what_does_not_work_elsewhere_while_it_does_not(
    scene: PageScene, page: Page
) -> None:
    offline = page.get_by_role("button", name="offline model — not a language model")
    await expect(offline).to_be_visible()
    await offline.click()
    await expect(page.get_by_text("ollim-bot auth login")).to_be_visible()
    await scene.core.change(program=".venv/bin/ollim-bot")
    await expect(page.get_by_text(".venv/bin/ollim-bot auth login")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_text("ollim-bot auth login")).to_be_hidden()
    await scene.core.change(provider="Claude", model="sonnet", is_offline=False, bot_name="Mira")
    await expect(page.get_by_role("heading", name="Mira", exact=True)).to_be_visible()
    await expect(page.get_by_text("Claude · sonnet")).to_be_visible()
    await expect(offline).to_be_hidden()
    await expect(page).to_have_title("Mira")

    trouble = "Discord cannot be reached now. <b>Messages</b> wait here."
    await scene.core.change(trouble=trouble)
    await expect(page.get_by_role("status").filter(has_text=trouble)).to_be_visible()
    await scene.core.change(trouble="")
    await expect(page.get_by_text("cannot be reached")).to_have_count(0)
    gained = await page.locator("header.bar").evaluate("""bar => {
        const before = bar.offsetHeight;
        document.getElementById("trouble").hidden = true;
        return before - bar.offsetHeight;
    }""")
    assert gained == 0

    sign = page.locator("#quiet")
    await expect(sign).to_be_hidden()
    await scene.core.change(quiet_until=datetime(2026, 11, 17, 7, 0, tzinfo=UTC))
    await expect(sign).to_have_text("quiet until 7:00")
    await expect(sign).to_be_visible()
    await scene.core.change(quiet_until=None)
    await expect(sign).to_be_hidden()
