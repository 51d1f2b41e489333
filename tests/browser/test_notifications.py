"""Desktop notifications are requested by a click only, and shown only for a hidden page."""

from __future__ import annotations

from dataclasses import replace

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.browser.scene import PageScene, message, scroll_to, set_hidden
from tests.patience import eventually

from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Author

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.own_context,
]

# A headless browser shows no notifications, so the requests of the page are recorded.
_RECORDER = """
const record = {requests: 0, shown: [], closed: []};
window.record = record;
window.Notification = class extends EventTarget {
    static permission = "default";
    static async requestPermission() {
        record.requests += 1;
        return this.permission = "granted";
    }
    constructor(title, {body, tag}) {
        super();
        this.tag = tag;
        record.shown.push([title, body]);
    }
    close() { record.closed.push(this.tag); }
};
"""
_LONG_ENOUGH_MS = 5_000


async def opened(scene: PageScene) -> Page:
    page = await scene.open()
    await expect(page.get_by_role("button", name="Notifications", pressed=False)).to_be_visible()
    return page


@pytest_asyncio.fixture(loop_scope="session")
async def page(scene: PageScene) -> Page:
    await scene.context.clock.install()
    await scene.context.add_init_script(_RECORDER)
    return await opened(scene)


async def press_bell(page: Page, *, pressed: bool) -> None:
    await page.get_by_role("button", name="Notifications", pressed=not pressed).click()
    await expect(page.get_by_role("button", name="Notifications", pressed=pressed)).to_be_visible()


async def shown(page: Page) -> list[list[str]]:
    await page.clock.run_for(_LONG_ENOUGH_MS)
    record: list[list[str]] = await page.evaluate("record.shown")
    return record


async def is_offered_once(scene: PageScene, page: Page, answer: str, requests: int) -> None:
    offer = page.locator("#offer")
    await scene.core.change(has_jobs=False)
    await scene.core.say(f"Hello before {answer}.")
    await expect(message(page, f"Hello before {answer}.")).to_be_visible()
    await expect(offer).to_be_hidden()
    await scene.core.change(has_jobs=True)
    await expect(offer).to_be_visible()
    await offer.get_by_role("button", name=answer).click()
    await expect(offer).to_be_hidden()
    assert await page.evaluate("record.requests") == requests
    await scene.core.say(f"Reminder set after {answer}.")
    await expect(message(page, f"Reminder set after {answer}.")).to_be_visible()
    await expect(offer).to_be_hidden()


async def test_notifications_are_offered_when_the_first_reminder_is_set_in_whatever_way(
    scene: PageScene, page: Page
) -> None:
    await is_offered_once(scene, page, "Notify me", 1)
    # The state of a browser that visits for the first time.
    await page.evaluate("localStorage.clear()")
    await page.reload()
    await is_offered_once(scene, page, "Not now", 0)


async def test_after_a_click_on_the_bell_what_comes_while_hidden_is_notified_once(
    scene: PageScene, page: Page
) -> None:
    await set_hidden(page, True)
    await scene.core.say("Hello.")
    await expect(page).to_have_title("(1) Ollim")
    assert await shown(page) == []
    assert await page.evaluate("record.requests") == 0
    await press_bell(page, pressed=True)
    assert await page.evaluate("record.requests") == 1

    await set_hidden(page, False)
    await scene.core.say("while looking")
    await expect(message(page, "while looking")).to_be_visible()
    await set_hidden(page, True)
    await scene.core.say("by the owner", Author.OWNER)
    await scene.core.say("a small note", Author.PROGRAM)
    reminder = await scene.core.say("Reminder: **tea**", Author.BACKGROUND)
    answer = await scene.core.say("An answer.")
    await expect(page).to_have_title("(3) Ollim")
    notified = [["Ollim", "Reminder: tea"], ["Ollim", "An answer."]]
    assert await shown(page) == notified
    await set_hidden(page, False)
    await expect(page).to_have_title("Ollim")
    assert await page.evaluate("record.closed") == [reminder.id, answer.id]

    await scene.core.say("A long answer.\n\n" * 40)
    await expect(message(page, "A long answer.")).to_be_visible()
    await scroll_to(page, 200)
    await expect(page.get_by_role("button", name="To the end")).to_be_visible()
    await scene.core.say("news for who reads further up")
    await expect(page).to_have_title("(1) Ollim")
    assert await shown(page) == notified
    await page.get_by_role("button", name="New messages").click()
    await expect(page).to_have_title("Ollim")

    await press_bell(page, pressed=False)
    await set_hidden(page, True)
    await scene.core.say("quiet")
    await expect(page).to_have_title("(1) Ollim")
    assert await shown(page) == notified
    assert await page.evaluate("localStorage.getItem('ollim.notify')") == "off"


async def test_a_question_of_the_browser_left_open_and_a_browser_that_forbids_it_are_named(
    page: Page,
) -> None:
    await page.evaluate("Notification.requestPermission = async () => {}")
    await page.get_by_role("button", name="Notifications").click()
    await expect(page.get_by_role("alert")).to_contain_text("the bell stays off")
    await page.keyboard.type("well")
    await expect(page.get_by_role("alert")).to_be_empty()
    await page.evaluate(
        "Notification.requestPermission = async () => { Notification.permission = 'denied' }"
    )
    await page.get_by_role("button", name="Notifications").click()
    blocked = page.get_by_role("button", name="Notifications are blocked in the browser's settings")
    await expect(blocked).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("Allow them in its settings")
    await page.keyboard.type("never mind")
    await expect(page.get_by_role("alert")).to_be_empty()
    await blocked.click()
    await expect(page.get_by_role("alert")).to_contain_text("Allow them in its settings")


async def test_what_is_read_or_answered_elsewhere_is_not_notified_or_no_longer(
    scene: PageScene, page: Page
) -> None:
    other = await opened(scene)
    await press_bell(page, pressed=True)
    await set_hidden(page, True)
    await scene.core.say("seen over there")
    await expect(message(other, "seen over there")).to_be_visible()
    await expect(message(page, "seen over there")).to_be_attached()
    await expect(page).to_have_title("Ollim")
    assert await shown(page) == []
    await other.close()

    card = Card("Allow Bash?", "```\nls\n```", buttons=(Button("No", "approve", "k1:no"),))
    at_once = await scene.core.say(card.text, Author.PROGRAM, card=card)
    await expect(page).to_have_title("(1) Answer needed · Ollim")
    await scene.core.post(replace(at_once, card=card._replace(buttons=())))
    await expect(page).to_have_title("(1) Ollim")
    assert await shown(page) == []

    plain = await scene.core.say("Card", Author.PROGRAM, card=card._replace(buttons=()))
    asked = await scene.core.say(card.text, Author.PROGRAM, card=card)
    await expect(page).to_have_title("(3) Answer needed · Ollim")
    assert await shown(page) == [["Ollim", "Allow Bash?\nls"]]
    await scene.core.post(replace(plain, text="changed"))
    await expect(message(page, "Card")).to_have_count(0)
    assert await page.evaluate("record.closed") == []
    await scene.core.post(replace(asked, card=card._replace(buttons=())))
    await expect(page).to_have_title("(3) Ollim")
    assert await page.evaluate("record.closed") == [asked.id]


async def test_the_bot_is_told_what_the_page_can_show_and_what_asks_is_heard_unless_quiet(
    scene: PageScene, page: Page
) -> None:
    surface = scene.web.surface
    await eventually(lambda: surface.tabs.is_in_view and not surface.tabs.may_notify)
    await press_bell(page, pressed=True)
    await set_hidden(page, True)
    await eventually(lambda: surface.tabs.may_notify and not surface.tabs.is_in_view)

    await page.evaluate(
        "() => { record.tones = 0; const { prototype } = AudioScheduledSourceNode; "
        "const { start } = prototype; "
        "prototype.start = function () { record.tones += 1; start.call(this); }; }"
    )
    card = Card("Tea", buttons=(Button("Done", "done", "k"),))
    heard = []
    for name, has_sound in (("loud", True), ("silent", False)):
        await scene.core.change(has_sound=has_sound)
        await scene.core.say(f"Only told, {name}.", Author.BACKGROUND)
        await scene.core.say(card.text, Author.BACKGROUND, card=card._replace(title=name))
        await expect(message(page, name).last).to_be_attached()
        heard.append(await page.evaluate("record.tones"))
    assert heard == [1, 1]
