"""Everything works by keyboard, and the focus is always visible."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import Page, expect
from tests.browser.scene import PageScene, box, message, send, sent
from tests.browser.test_views import VIEWS, fill, go_to

from ollim_bot.domain.chat import OF_CLICK, Author
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.taint import Untrusted

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

_FOCUS = """() => {
    const it = document.activeElement;
    const ring = it.id === "box" ? it.closest("form") : it;
    const {outlineStyle, outlineWidth} = getComputedStyle(ring);
    const name = it.getAttribute("aria-label") ?? it.textContent;
    return [name, outlineStyle !== "none" && parseFloat(outlineWidth) > 0];
}"""


async def test_the_box_takes_what_is_typed_anywhere_enter_sends_and_shift_enter_begins_a_line(
    scene: PageScene, page: Page
) -> None:
    """The Enter that ends an IME composition does not send."""
    await expect(box(page)).to_be_focused()
    await page.get_by_role("button", name="Switch to").focus()
    await page.keyboard.type("hello")
    await expect(box(page)).to_be_focused()
    await expect(box(page)).to_have_value("hello")

    await box(page).fill("")
    await page.keyboard.type("にほん")
    composing = {"key": "Enter", "isComposing": True, "cancelable": True, "bubbles": True}
    await box(page).dispatch_event("keydown", composing)
    await expect(box(page)).to_have_value("にほん")
    assert scene.core.received == []

    await box(page).fill("")
    await page.keyboard.type("one")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    await expect(box(page)).to_have_value("one\ntwo")
    await page.keyboard.press("Enter")
    await expect(sent(page, "one").locator(".body")).to_have_text("one\ntwo", use_inner_text=True)
    await expect(box(page)).to_have_value("")
    await page.keyboard.press("Enter")
    await page.keyboard.type("three")
    await page.keyboard.press("Enter")
    await expect(sent(page, "three")).to_have_count(1)
    assert [received.text for received in scene.core.received] == ["one\ntwo", "three"]


async def test_the_box_grows_with_its_text_and_empty_it_lists_the_keys_for_a_question_mark(
    page: Page,
) -> None:
    low = await box(page).evaluate("it => it.clientHeight")
    await box(page).fill("one\ntwo\nthree")
    high = await box(page).evaluate("it => it.clientHeight")
    assert high > 2 * low
    await box(page).fill("line\n" * 200)
    assert await box(page).evaluate("it => it.clientHeight < innerHeight / 2")
    await expect(page.get_by_role("button", name="Send")).to_be_in_viewport()
    await box(page).fill("")
    assert await box(page).evaluate("it => it.clientHeight") == low

    keys = page.get_by_role("dialog", name="Keys")
    await page.keyboard.type("why")
    await page.keyboard.type("?")
    await expect(box(page)).to_have_value("why?")
    await expect(keys).to_be_hidden()
    await box(page).fill("")
    await page.keyboard.type("?")
    await expect(keys).to_be_visible()
    for key in ("Enter", "Shift Enter", "Esc", "/", "↑", "?"):
        await expect(keys.get_by_role("term").filter(has_text=key).first).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()
    await expect(box(page)).to_be_focused()
    await expect(box(page)).to_have_value("")
    await page.keyboard.type("?")
    await keys.get_by_role("button", name="Close").click()
    await expect(keys).to_be_hidden()


async def test_arrow_up_brings_back_the_last_message_that_the_owner_typed(scene: PageScene) -> None:
    await scene.post_old("said yesterday", Author.OWNER)
    theirs = await scene.post_old("/clear", Author.OWNER)
    await scene.core.post(replace(theirs, untrusted=Untrusted("forwarded message", "x")))
    label = await scene.post_old("/restart", Author.OWNER)
    await scene.core.post(replace(label, id=MessageId(f"{OF_CLICK}ab12")))
    scene.core.messages.remove(label)
    await scene.post_old("an answer")
    page = await scene.open()
    await page.keyboard.press("ArrowUp")
    await expect(box(page)).to_have_value("said yesterday")
    await page.keyboard.press("Enter")
    await expect(message(page, "said yesterday")).to_have_count(2)
    assert scene.commands == []
    await send(page, "said now")
    await expect(message(page, "said now")).to_be_visible()
    await page.keyboard.press("ArrowUp")
    await expect(box(page)).to_have_value("said now")
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowUp")
    await expect(box(page)).to_have_value("said now")


async def test_a_reply_needs_no_mouse_and_escape_ends_the_nearest_thing_first(
    scene: PageScene, page: Page
) -> None:
    first = await scene.core.say("Hello.")
    await expect(message(page, "Hello.")).to_be_visible()
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Shift+Tab")
    await expect(page.get_by_role("button", name="Reply")).to_be_focused()
    await expect(message(page, "Hello.").locator(".actions")).to_have_css("opacity", "1")
    await page.keyboard.press("Enter")
    await page.keyboard.type("Hi.")
    await page.keyboard.press("Enter")
    await expect(sent(page, "Hi.")).to_be_visible()
    assert scene.core.received[0].reply_to == first.id

    turn = scene.core.begin()
    await expect(page.locator("#doing")).to_have_text("Thinking…")
    await sent(page, "Hi.").hover()
    await sent(page, "Hi.").get_by_role("button", name="Reply").click()
    await page.keyboard.type("/")
    menu, reply = page.get_by_role("listbox"), page.locator("#reply")
    await expect(menu).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    await expect(reply).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(reply).to_be_hidden()
    assert not turn.is_over
    await page.keyboard.press("Escape")
    await expect(page.locator("#doing")).to_have_text("")
    assert turn.is_over


async def test_the_focus_goes_in_order_is_always_seen_and_can_skip_to_the_box(
    scene: PageScene, page: Page
) -> None:
    await scene.core.say("Hello.\n\n```\ncode\n```")
    await expect(message(page, "Hello.")).to_be_visible()
    await page.get_by_role("link", name="Go to the message box").focus()
    seen = []
    for _ in range(14):
        seen.append(await page.evaluate(_FOCUS))
        await page.keyboard.press("Tab")
    assert [name for name, _ in seen] == [
        "Go to the message box",
        "offline model — not a language model",
        "Search",
        "Notifications",
        "Switch to dark",
        "Keys",
        "Conversation",
        "code\n",
        "Copy code",
        "Copy",
        "Reply",
        "Add files",
        "Message",
        "Send",
    ]
    assert [name for name, is_visible in seen if not is_visible] == []
    await page.get_by_role("link", name="Go to the message box").focus()
    await page.keyboard.press("Enter")
    await expect(box(page)).to_be_focused()


async def test_escape_leaves_each_field_with_nothing_typed_and_letters_are_keys_again(
    scene: PageScene,
) -> None:
    fill(scene)
    page = await scene.open(width=1280, height=900)
    tried = 0
    for letter in VIEWS:
        await go_to(page, letter)
        place = page.locator("#panel" if letter in "ct" else "#view")
        await expect(place.get_by_role("heading").first).to_be_visible()
        for field in await place.locator("input, select, textarea").all():
            if not await field.is_visible():
                continue
            await field.focus()
            await expect(field).to_be_focused()
            await page.keyboard.press("Escape")
            await expect(field).not_to_be_focused()
            tried += 1
    assert tried > 10
    line = page.get_by_role("textbox", name="Add something")
    await line.fill("Käse um 9")
    await page.keyboard.press("Escape")
    await expect(line).to_be_focused()
    await line.fill("")
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("w")
    await expect(page).to_have_url(f"http://{scene.host}/week")


_FIRST_OF_EACH_KIND = """(place) => {
    const counts = {};
    return [...place.querySelectorAll("a, button, summary, input, select")]
        .filter((one) => one.checkVisibility())
        .map((one, number) => [one, number])
        .filter(([{tagName}]) => (counts[tagName] = (counts[tagName] ?? 0) + 1) <= 3)
        .map(([, number]) => number);
}"""
_FOCUS_ON = """(place, number) => {
    const all = [...place.querySelectorAll("a, button, summary, input, select")]
        .filter((one) => one.checkVisibility());
    if (number !== null) {
        all[number].focus();
    }
    return all.indexOf(document.activeElement);
}"""


@pytest.mark.parametrize("letter", "twrjmhsbv")
async def test_the_focus_stays_on_the_same_thing_when_a_view_is_drawn_anew(
    scene: PageScene, letter: str
) -> None:
    """Enter would otherwise press something else than what was chosen."""
    fill(scene)
    page = await scene.open(width=390, height=844)
    await go_to(page, letter)
    place = page.locator("#panel" if letter == "t" else "#view")
    await expect(place.get_by_role("heading", name=VIEWS[letter]).first).to_be_visible()
    name = await page.locator("body").get_attribute("data-view") or ""
    fake = getattr(scene.core.fakes, {"today": "day"}.get(name, name.replace("-", "_")))
    moved = []
    for number in await place.evaluate(_FIRST_OF_EACH_KIND):
        await place.evaluate(_FOCUS_ON, number)
        async with page.expect_response(f"**/api/panels/{name}?*"):
            fake.change(fake.current)
        await expect(place.locator(".content")).not_to_be_empty()
        if await place.evaluate(_FOCUS_ON, None) != number:
            moved.append(number)
    assert moved == []
