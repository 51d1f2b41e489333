"""Cards on the page: what they show, and what their buttons do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import FloatRect, Locator, Page, Route, expect
from tests.browser.scene import PageScene, box, is_at_end, message, messages, send, sent, texts
from tests.kernel.engine.scene import tiny_png
from tests.patience import eventually

from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardField, CardLine, Color
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DONE = Button("Mark as done", "agent", "k1", ButtonStyle.PRIMARY)
LATER = Button("Snooze", "agent", "k2")
TASKS = Card(
    "Two tasks are due",
    "The **dentist** needs an answer.",
    Color.PURPLE,
    (
        CardField("Due", "today 15:00", inline=True),
        CardField("Effort", "*small*", inline=True),
        CardField("Notes", "Bring the card."),
    ),
    (DONE, LATER),
)
HOSTILE = "<img src=x onerror=alert(1)>"


async def said(scene: PageScene, card: Card = TASKS) -> ChatMessage:
    return await scene.core.say(card.text, card=card)


def button(page: Page, name: str) -> Locator:
    return messages(page).get_by_role("button", name=name)


async def place(element: Locator) -> FloatRect:
    found = await element.bounding_box()
    assert found
    return found


async def can_be_pressed_again(page: Page, pressed: Locator) -> None:
    """The bot does not mark this button as used."""
    answer = {"text": "", "html": "", "is_error": False}
    asked: list[str] = []

    async def answered(route: Route) -> None:
        asked.append(route.request.url)
        await route.fulfill(json=answer)

    await page.route("**/api/clicks", answered)
    for number in (1, 2):
        await pressed.click()
        await expect(pressed).to_be_enabled()
        await expect(pressed).to_be_focused()
        assert len(asked) == number
    await page.unroute("**/api/clicks")


async def is_used_by_keyboard(scene: PageScene, page: Page) -> None:
    """A second try after a failure works too."""
    scene.core.answers[LATER.custom_id] = CommandAnswer("That task is gone.", is_error=True)
    await expect(button(page, "Snooze")).to_be_visible()
    await page.get_by_role("region", name="Conversation").focus()
    await page.keyboard.press("Tab")
    await expect(button(page, "Mark as done")).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(button(page, "Snooze")).to_be_focused()
    await expect(button(page, "Snooze")).to_have_css("outline-style", "solid")
    for number in (1, 2):
        await page.keyboard.press("Enter")
        note = page.get_by_role("region", name="Answer to Snooze")
        await expect(note).to_have_text("Snooze did not workThat task is gone.")
        await expect(button(page, "Snooze")).to_be_enabled()
        await expect(button(page, "Snooze")).to_be_focused()
        assert len(scene.core.calls) == number
    scene.core.answers[LATER.custom_id] = CommandAnswer()
    await page.keyboard.press("Space")
    await expect(button(page, "Snooze")).to_have_text("Snooze used")
    await expect(note).to_have_count(0)
    await expect(messages(page)).to_be_focused()
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Tab")
    await expect(button(page, "Mark as done")).to_be_focused()


async def test_while_the_bot_is_away_the_buttons_of_cards_are_off_and_typed_words_stay(
    scene: PageScene, page: Page
) -> None:
    asks = Button("Later…", "snooze", "k3", asks="When?")
    await said(scene, TASKS._replace(buttons=(DONE, asks, LATER._replace(is_used=True))))
    await button(page, "Later…").click()
    question = page.get_by_role("textbox", name="When?")
    await question.fill("übermorgen um neun")
    done, used = button(page, "Mark as done"), button(page, "Snooze used")
    async with scene.without_server():
        for each in (done, button(page, "Later…"), button(page, "Set")):
            await expect(each).to_be_disabled()
        await expect(done).to_have_css("border-style", "dashed")
        await done.focus()
        await page.keyboard.press("Enter")
        await question.focus()
        await page.keyboard.press("Enter")
        await expect(question).to_have_value("übermorgen um neun")
        await expect(page.locator("#log .note, #log .problem")).to_have_count(0)
    for each in (done, button(page, "Later…"), button(page, "Set")):
        await expect(each).to_be_enabled()
    await expect(used).to_be_disabled()
    await expect(question).to_have_value("übermorgen um neun")
    assert scene.core.calls == []
    await done.click()
    await expect(button(page, "Mark as done used")).to_be_disabled()


async def tops_of_fields(page: Page) -> list[float]:
    """Where the names of the fields are, in one look: the page may scroll between two."""
    names = page.locator(".card dt")
    return list(await names.evaluate_all("all => all.map((it) => it.getBoundingClientRect().top)"))


async def test_a_card_shows_each_thing_once_can_be_heard_and_is_used_by_keyboard(
    scene: PageScene, page: Page
) -> None:
    await said(scene)
    await expect(messages(page)).to_match_aria_snapshot("""
        - article /Ollim, today/:
          - group "Two tasks are due":
            - heading "Two tasks are due" [level=2]
            - paragraph:
              - text: The
              - strong: dentist
              - text: needs an answer.
            - term: Due
            - definition:
              - paragraph: today 15:00
            - term: Effort
            - definition:
              - paragraph:
                - emphasis: small
            - term: Notes
            - definition:
              - paragraph: Bring the card.
            - button "Mark as done"
            - button "Snooze"
    """)
    words = "Two tasks are due\nThe dentist needs an answer.\nDue: today 15:00"
    await expect(page.locator("#announcer")).to_contain_text(words)
    assert (await messages(page).inner_text()).count("Two tasks are due") == 1
    due, effort, notes = await tops_of_fields(page)
    assert due == effort < notes
    await page.set_viewport_size({"width": 320, "height": 640})
    due, effort, notes = await tops_of_fields(page)
    assert due < effort < notes
    edge = await page.locator(".card").evaluate("it => getComputedStyle(it).borderLeftColor")
    await scene.core.post(replace(scene.core.messages[0], card=TASKS._replace(color=Color.RED)))
    await expect(page.locator(".card")).not_to_have_css("border-left-color", edge)
    await page.set_viewport_size({"width": 1280, "height": 720})
    await can_be_pressed_again(page, button(page, "Snooze"))
    await is_used_by_keyboard(scene, page)


async def is_used_though_the_page_was_away(scene: PageScene, page: Page) -> None:
    shown = await said(scene)
    snooze, done = (
        messages(page).last.get_by_role("button", name=each.label) for each in (LATER, DONE)
    )
    await expect(messages(page)).to_have_count(3)
    await expect(snooze).to_be_enabled()
    scene.expect_browser_error("ERR_FAILED")
    await page.route("**/api/clicks", lambda route: route.abort())
    await snooze.click()
    note = page.get_by_role("region", name="Answer to Snooze")
    await expect(note).to_contain_text("The bot does not answer")
    await expect(snooze).to_be_enabled()
    await page.unroute("**/api/clicks")
    async with scene.without_server():
        await expect(snooze).to_be_disabled()
        await scene.core.click("other", shown.id, DONE.custom_id)
    await expect(done).to_have_text("Mark as done used")
    await expect(snooze).to_be_enabled()


async def test_a_click_uses_the_button_up_and_is_answered(scene: PageScene, page: Page) -> None:
    scene.core.answers[DONE.custom_id] = CommandAnswer("*Both* are done.")
    shown = await said(scene)
    await scene.core.say("and more")
    scene.core.may_answer.clear()
    await button(page, "Mark as done").click()
    await expect(button(page, "Mark as done")).to_be_disabled()
    await button(page, "Mark as done").click(force=True)
    scene.core.may_answer.set()
    await expect(button(page, "Mark as done")).to_have_text("Mark as done used")
    await expect(button(page, "Mark as done")).to_be_disabled()
    await expect(button(page, "Snooze")).to_be_enabled()
    await expect(messages(page)).to_have_count(2)
    note = page.get_by_role("region", name="Answer to Mark as done")
    await expect(note.locator("em")).to_have_text("Both")
    await expect(page.locator(".message + .note + .message")).to_contain_text("and more")
    await expect(page.locator("#announcer")).to_contain_text("Both are done.")
    assert scene.core.calls == [DONE.custom_id]
    assert scene.core.clicks == [("web", shown.id, DONE.custom_id)]
    await note.get_by_role("button", name="Remove this note").click()
    await expect(note).to_have_count(0)
    scene.core.answers[LATER.custom_id] = CommandAnswer("Snoozed: tea.", is_shown=True)
    await button(page, "Snooze").click()
    await expect(page.locator("#announcer")).to_contain_text("Snoozed: tea.")
    await expect(page.locator(".note")).to_have_count(0)
    await is_used_though_the_page_was_away(scene, page)


async def test_an_old_card_that_changes_does_not_come_as_a_new_one(scene: PageScene) -> None:
    old = replace(await scene.post_old(TASKS.text, minutes=300), card=TASKS)
    await scene.core.post(old)
    await scene.post_many_old(62)
    page = await scene.open()
    await expect(messages(page)).to_have_count(60)
    await scene.core.click("other", old.id, DONE.custom_id)
    await scene.core.say("new")
    await expect(texts(page).last).to_have_text("new")
    await expect(message(page, "old message 61")).to_have_count(1)
    await expect(messages(page)).to_have_count(61)
    await page.locator("#scroller").evaluate("it => { it.scrollTop = 0 }")
    await expect(button(page, "Mark as done")).to_have_text("Mark as done used")


async def test_a_run_is_named_and_a_file_comes_with_it(scene: PageScene, page: Page) -> None:
    """Hostile markup in a card stays text, and the page draws its own symbols."""
    folder = scene.web.folder / "downloads"
    folder.mkdir()
    (folder / "a.png").write_bytes(tiny_png())
    (folder / "b.pdf").write_bytes(b"%PDF")
    files = (
        Attachment("tap.png", "downloads/a.png", "image/png", 70),
        Attachment("report.pdf", "downloads/b.pdf", "application/pdf", 4),
    )
    await scene.core.say(
        "Good morning.", Author.BACKGROUND, job="Morning briefing", attachments=files
    )
    briefing = page.get_by_role("article", name="Ollim, in the background, Morning briefing, today")
    await expect(briefing.locator(".mark")).to_contain_text("Morning briefing · today")
    await expect(briefing.get_by_role("img", name="tap.png")).to_have_js_property("naturalWidth", 1)
    async with page.expect_download() as downloading:
        await briefing.get_by_role("link", name="report.pdf").click()
    assert (await (await downloading.value).path()).read_bytes() == b"%PDF"

    await hostile_words_stay_words(scene, page)
    await signs_need_no_font(scene, page)
    await each_line_has_its_buttons_beside_it(scene, page)


async def hostile_words_stay_words(scene: PageScene, page: Page) -> None:
    field, press = CardField(HOSTILE, HOSTILE), Button(HOSTILE, "agent", HOSTILE)
    hostile = Card(HOSTILE, HOSTILE, fields=(field,), buttons=(press,))
    shown = await scene.core.say(hostile.text, Author.BACKGROUND, card=hostile, job=HOSTILE)
    card = page.get_by_role("group", name=HOSTILE)
    await expect(card.get_by_text(HOSTILE, exact=True)).to_have_count(5)
    await expect(page.locator("img[src=x]")).to_have_count(0)
    await card.get_by_role("button").click()
    await expect(card.get_by_role("button")).to_have_text(f"{HOSTILE} used")
    assert scene.core.clicks == [("web", shown.id, press.custom_id)]

    await messages(page).last.hover()
    await messages(page).last.get_by_role("button", name="Reply").click()
    await expect(page.locator("#reply")).to_contain_text(f"Ollim {HOSTILE} {HOSTILE}")
    await expect(box(page)).to_be_focused()


async def signs_need_no_font(scene: PageScene, page: Page) -> None:
    buttons = (
        Button("✅ Allow once", "approve", "k1:once"),
        Button("❌ Refuse", "approve", "k1:no"),
    )
    fields = (CardField("🔓 allows from now on", "`echo ✅`"),)
    card = Card("Allow Bash?", "Nothing was allowed with 🔓.", fields=fields, buttons=buttons)
    await scene.core.say(card.text, card=card)
    shown = page.get_by_role("group", name="Allow Bash?")
    await expect(shown.locator("svg.sign")).to_have_count(4)
    await expect(shown.get_by_role("button", name="Allow once", exact=True)).to_be_visible()
    await expect(shown.get_by_role("img", name="always")).to_be_visible()
    assert (await shown.inner_text()).count("✅") == 1, "code is shown as it is"
    assert "🔓" not in await shown.inner_text()


async def test_a_button_that_asks_takes_words_and_a_card_becomes_a_line_without_a_jump(
    scene: PageScene, page: Page
) -> None:
    other = Button("Other…", "snooze", "w1:other", asks="When? (in 20 minutes)")
    done = Button("Done", "done", "w1", ButtonStyle.SUCCESS)
    card = Card("Drink water.", buttons=(done, other))
    sent, hint = await said(scene, card), "“in 20 minuts”: in 20 minutes?"
    await button(page, "Other…").click()
    words = page.get_by_label("When? (in 20 minutes)")
    await expect(words).to_be_focused()
    scene.core.answers[other.custom_id] = CommandAnswer(hint, is_error=True)
    await words.press_sequentially("in 20 minuts?")
    await words.press("Enter")
    await expect(page.locator(".asking .problem")).to_have_text(hint)
    await expect(words).to_have_value("in 20 minuts?")
    await expect(words).to_be_focused()
    await words.press("Escape")
    await expect(words).to_have_count(0)
    await expect(button(page, "Other…")).to_be_focused()
    settled = Card("⏱ Drink water · again at 9:14", buttons=(Button("Undo", "undo", "item:w1"),))
    await scene.core.post(replace(sent, card=settled))
    await expect(button(page, "Undo")).to_be_visible()
    title, undo = page.locator(".card h2"), button(page, "Undo")
    assert abs((await place(title))["y"] - (await place(undo))["y"]) < 24
    assert scene.core.calls == [f"{other.custom_id} in 20 minuts?"]
    await does_not_jump_under_the_pointer(scene, page)


async def does_not_jump_under_the_pointer(scene: PageScene, page: Page) -> None:
    first = await said(scene, Card("Drink water.", "It is time.", buttons=(DONE, LATER)))
    await said(scene)
    upper = messages(page).nth(-2)
    await expect(upper).to_contain_text("It is time.")
    await upper.get_by_role("button", name="Mark as done").hover()
    tall = (await place(upper))["height"]
    await scene.core.post(replace(first, card=Card("✓ Drink water · 9:04")))
    await expect(page.get_by_text("Drink water · 9:04")).to_be_visible()
    assert (await place(upper))["height"] == tall
    await box(page).hover()
    await expect(upper).not_to_have_css("min-height", f"{tall}px")
    assert (await place(upper))["height"] < tall


async def test_own_words_stay_in_view_though_a_card_changes_under_the_resting_pointer(
    scene: PageScene, page: Page
) -> None:
    await scene.core.say("A long answer.\n\n" * 40)
    pill = await said(scene, Card("Take the pill.", "Now.\n\nReally.", buttons=(DONE, LATER)))
    await message(page, "Take the pill.").hover()
    await box(page).fill("several\nlines\nare\ntyped\nhere\nfirst")
    assert await is_at_end(page)
    await send(page, "did it")
    await expect(sent(page, "did it")).to_be_in_viewport(ratio=1)
    await scene.core.post(replace(pill, card=Card("✓ Take the pill · 9:04")))
    await expect(page.get_by_text("Take the pill · 9:04")).to_be_visible()
    await expect(sent(page, "did it")).to_be_in_viewport(ratio=1)
    assert await is_at_end(page)
    await scene.core.say("Noted.")
    await expect(message(page, "Noted.")).to_be_in_viewport(ratio=1)


async def each_line_has_its_buttons_beside_it(scene: PageScene, page: Page) -> None:
    clicks = len(scene.core.clicks)
    lines = (CardLine(f"water {HOSTILE}", "Overdue"), CardLine("tea"), CardLine("slept", "Done"))
    buttons = (DONE._replace(line=1), LATER._replace(line=2))
    await said(scene, Card("Today", lines=lines, buttons=buttons))
    today = page.get_by_role("article").filter(has=page.get_by_role("group", name="Today"))
    shown = today.get_by_role("listitem")
    await expect(shown).to_have_text(
        ["Overdue", f"water {HOSTILE}Mark as done", "teaSnooze", "Done", "slept"]
    )
    later = today.get_by_role("group", name="tea").get_by_role("button", name="Snooze")
    tea, beside = await place(shown.nth(2).locator("span").first), await place(later)
    assert abs((tea["y"] + tea["height"] / 2) - (beside["y"] + beside["height"] / 2)) < 10
    await later.click()
    # The page disables a button as soon as it is pressed, before the press has arrived.
    await eventually(lambda: len(scene.core.clicks) > clicks)
    await expect(later).to_be_disabled()
    assert [click[2] for click in scene.core.clicks[clicks:]] == [LATER.custom_id]


async def test_a_card_counts_to_its_moment_and_earlier_ones_of_a_thing_are_one_quiet_line(
    scene: PageScene, page: Page
) -> None:
    now = datetime.now(UTC)
    await said(scene, Card("Timer until 10:40", "Bread", until=now + timedelta(minutes=25)))
    await said(scene, Card("Timer until 10:00", "Tea", until=now - timedelta(minutes=1)))
    left = messages(page).locator("time[data-left]")
    await expect(left).to_have_text(["25 min left", "over"])

    at = datetime(2026, 2, 24, 9, 0, tzinfo=UTC)
    pills = Card("Take the pills.", buttons=(DONE, LATER))
    asked = [await said(scene, pills) for _ in range(4)]
    await expect(messages(page)).to_have_count(6)
    for number, each in enumerate(asked[:3]):
        moment = at + timedelta(minutes=10 * number)
        line = Card(f"Take the pills · asked at 9:{number}0", earlier_of="p1")
        await scene.core.post(replace(each, at=moment, card=line))
    await expect(messages(page)).to_have_count(4)
    earlier = page.get_by_role("article").filter(has_text="asked at")
    await expect(earlier.locator("p").first).to_have_text(
        "Take the pills · asked at 9:00, 9:10, 9:20"
    )
    await expect(earlier.locator(".card")).to_have_count(0)
    await expect(messages(page).last.locator(".card")).to_contain_text("Take the pills.")
    await expect(button(page, "Mark as done")).to_have_count(1)
