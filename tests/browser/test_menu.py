"""Commands, the line above Today and the keyboard: everything works without a mouse."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Locator, Page, Route, expect
from tests.browser.axe import violations
from tests.browser.scene import PageScene, box, message, messages, send, sent
from tests.browser.test_views import VIEWS, fill, go_to
from tests.surfaces.web.views import HOSTILE, full_day

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.values.chat import OF_CLICK, Author
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.sessions import SessionLine, SessionList
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.kernel.values.views import OtherReading, Preview, ViewAnswer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def menu(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Commands")


def chosen(page: Page) -> Locator:
    return menu(page).get_by_role("option", selected=True)


def note(page: Page, line: str) -> Locator:
    return page.get_by_role("region", name=f"Answer to {line}")


async def test_a_slash_shows_all_commands_typing_filters_and_nothing_is_run(
    scene: PageScene, page: Page
) -> None:
    await page.keyboard.press("/")
    options = menu(page).get_by_role("option")
    await expect(options).to_have_count(len(scene.core.commands))
    for command in scene.core.commands:
        await expect(options.filter(has_text=command.usage)).to_contain_text(command.about)
    await expect(chosen(page)).to_have_count(0)
    await page.keyboard.press("ArrowUp")
    await expect(chosen(page)).to_contain_text("/resume")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(chosen(page)).to_contain_text("/compact")
    active = await box(page).get_attribute("aria-activedescendant")
    await expect(chosen(page)).to_have_id(active or "none")

    await page.keyboard.type("mod")
    await expect(options).to_have_text(["/model [name]which model answers"])
    await page.keyboard.press("Escape")
    await expect(menu(page)).to_be_hidden()
    await expect(box(page)).to_have_value("/mod")
    await page.keyboard.type("e")
    await expect(menu(page)).to_be_visible()
    await page.keyboard.type("xyz")
    await expect(menu(page)).to_be_hidden()

    await box(page).fill("")
    await page.keyboard.type("/mod")
    await page.keyboard.press("Tab")
    await expect(box(page)).to_have_value("/model ")
    await page.keyboard.type("so")
    await page.keyboard.press("Tab")
    await expect(box(page)).to_have_value("/model sonnet")
    await expect(box(page)).to_be_focused()
    assert scene.commands == []
    await box(page).fill("")
    await page.keyboard.type("/compact ")
    usage = page.locator("#menu-usage")
    await expect(usage).to_contain_text("what to keep")
    await expect(usage.locator("b")).to_have_text("[instructions] ")
    await page.keyboard.type("keep the list of names")
    await expect(usage).to_be_visible()


async def test_keys_that_are_pressed_while_the_menu_is_loaded_do_what_they_do_later(
    scene: PageScene, page: Page
) -> None:
    may_load = asyncio.Event()

    async def load(route: Route) -> None:
        await may_load.wait()
        await route.continue_()

    await page.route("**/command_menu.js", load)
    await page.keyboard.type("/mod")
    await page.keyboard.press("Tab")
    await page.keyboard.type("op")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/mod")
    await expect(box(page)).to_be_focused()
    may_load.set()
    await expect(note(page, "/model opus")).to_contain_text("is done")
    assert scene.commands == ["/model opus"]


async def test_enter_runs_what_is_typed_or_chosen_unless_it_needs_more_and_sends_nothing(
    scene: PageScene, page: Page
) -> None:
    """The choices are suggestions: other values may be valid too."""
    options = menu(page).get_by_role("option")
    await page.keyboard.press("/")
    await expect(menu(page)).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/")
    await expect(menu(page)).to_be_visible()
    await page.keyboard.type("model opus")
    await page.keyboard.press("Enter")
    await expect(note(page, "/model opus")).to_contain_text("is done")
    assert scene.commands == ["/model opus"]

    await page.keyboard.type("/cl")
    await page.keyboard.press("Enter")
    await expect(note(page, "/clear")).to_contain_text("/clear is done.")
    await expect(box(page)).to_have_value("")
    assert scene.commands == ["/model opus", "/clear"]
    await page.keyboard.type("/mo")
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/model ")
    await expect(options).to_have_text(["opus", "sonnet", "haiku"])
    await expect(chosen(page)).to_have_count(0)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(chosen(page)).to_have_text("sonnet")
    await page.keyboard.press("Enter")
    await expect(note(page, "/model sonnet")).to_contain_text("is done.")

    await page.keyboard.type("/model o")
    await expect(options).to_have_text(["opus", "sonnet"])
    await page.keyboard.press("Enter")
    await expect(note(page, "/model o").last).to_contain_text("/model o is done")
    await page.keyboard.type("/model")
    await page.keyboard.press("Enter")
    await expect(note(page, "/model").last).to_contain_text("/model is done")
    await page.keyboard.type("/resume")
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/resume ")
    await expect(options).to_have_text(["aa11", "bb22"])
    assert scene.commands == ["/model opus", "/clear", "/model sonnet", "/model o", "/model"]
    assert scene.core.received == []


async def test_a_click_takes_a_command_and_its_value_also_those_that_come_from_the_server(
    page: Page,
) -> None:
    await page.keyboard.press("/")
    await menu(page).get_by_role("option", name="/model").click()
    await menu(page).get_by_role("option", name="haiku").click()
    await expect(note(page, "/model haiku")).to_be_visible()
    await expect(box(page)).to_be_focused()

    asked = []
    may_answer = asyncio.Event()

    async def answer(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query))
        if asked[-1]["command"] == ["model"]:
            await may_answer.wait()
            await route.fulfill(json={"values": ["opus", "sonnet", "haiku"]})
        else:
            await route.fulfill(json={"values": ["bb22", "the one about boats"]})

    await page.route("**/api/completions?*", answer)
    await page.keyboard.type("/resume b")
    await expect(menu(page).get_by_role("option")).to_have_text(["bb22", "the one about boats"])
    assert asked[-1] == {"command": ["resume"], "argument": ["id"], "typed": ["b"]}
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(note(page, "/resume the one about boats")).to_be_visible()

    # The click counts even if the same values arrive again before the mouse is released.
    await page.keyboard.type("/model ")
    async with page.expect_response("**/api/completions?command=model*"):
        await menu(page).get_by_role("option", name="opus").hover()
        await page.mouse.down()
        may_answer.set()
    await page.evaluate("() => new Promise(requestAnimationFrame)")
    await page.mouse.up()
    await expect(note(page, "/model opus")).to_be_visible()


async def test_an_error_is_shown_until_removed_and_a_note_stands_where_it_was_and_passes(
    scene: PageScene, page: Page
) -> None:
    """A command without an answer leaves no note, and a path is not a command."""
    await send(page, "/etc/hosts is empty")
    await expect(message(page, "/etc/hosts is empty")).to_be_visible()
    assert scene.commands == []

    scene.core.answers["/modle"] = CommandAnswer("There is no command `/modle`.", is_error=True)
    await send(page, "/modle sonnet")
    error = note(page, "/modle sonnet")
    await expect(error).to_contain_text("/modle sonnet did not work")
    await expect(error).to_contain_text("There is no command /modle.")
    await error.get_by_role("button", name="Remove this note").click()
    await expect(error).to_have_count(0)
    scene.core.answers["/compact"] = CommandAnswer()
    await send(page, "/compact")
    await send(page, "/clear")
    await expect(note(page, "/clear")).to_contain_text("is done")
    await expect(note(page, "/compact")).to_have_count(0)
    assert scene.commands == ["/modle sonnet", "/compact", "/clear"]

    await scene.core.say("after")
    await expect(message(page, "after")).to_be_visible()
    shown = page.get_by_role("log").locator("> article, > section")
    texts = await shown.all_inner_texts()
    assert [text.split("\n")[0] for text in texts] == ["/etc/hosts is empty", "/clear", "after"]

    await page.reload()

    await expect(messages(page)).to_have_count(2)
    await expect(note(page, "/clear")).to_have_count(0)


async def test_a_line_shows_what_it_would_add_and_is_sent_once(scene: PageScene) -> None:
    day = scene.core.day
    day.current = full_day(scene.core.now())
    page = await scene.open(width=1280, height=900)
    panel = page.get_by_role("complementary", name="Today")
    line = panel.get_by_role("textbox", name="Add something")
    day.previews["add"] = Preview((HOSTILE,), (OtherReading("today, 19:30 · once", "7:30pm"),))
    await line.fill("tea at half past seven")
    await expect(panel.locator(".preview").get_by_text(HOSTILE)).to_be_visible()
    other = panel.get_by_role("button", name="today, 19:30 · once")
    assert await violations(page, "#panel") == []

    day.answers["add"] = ViewAnswer("That can be read two ways.", is_error=True, field="line")
    await line.press("Enter")
    await expect(panel.get_by_role("alert").filter(has_text="two ways")).to_be_visible()
    await expect(line).to_have_value("tea at half past seven")
    await expect(line).to_be_focused()
    day.change(replace(day.current, tasks=[]))
    await expect(panel.get_by_role("heading", name="Tasks")).to_have_count(0)
    await expect(line).to_have_value("tea at half past seven")
    day.answers["add"] = ViewAnswer("Reminder set: tea, today 19:30.")
    await other.click()
    await expect(line).to_have_value("")
    await expect(panel.locator(".preview")).to_be_empty()
    first, pressed = (fields for _, _, fields in day.acts)
    assert (first.get("reading"), pressed["reading"]) == (None, "7:30pm")

    # The bot took the line, and its answer was lost.
    lost = "**/api/panels/today/actions"
    scene.expect_browser_error("ERR_FAILED")

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    day.acts.clear()
    await page.route(lost, lose)
    await line.fill("+ milk")
    await line.press("Enter")
    await expect(panel.get_by_role("alert").filter(has_text="does not answer")).to_be_visible()
    await page.unroute(lost)
    day.answers["add"] = ViewAnswer("The disk is full.", is_error=True)
    await line.press("Enter")
    await expect(panel.get_by_role("alert").filter(has_text="disk is full")).to_be_visible()
    day.answers["add"] = ViewAnswer("Task added: milk.")
    await line.press("Enter")
    await expect(line).to_have_value("")
    await line.fill("+ milk")
    await line.press("Enter")
    await expect(line).to_have_value("")
    *retried, again = (fields["key"] for _, _, fields in day.acts)
    assert len({*retried}) == 1, "a retry has the key of the first try"
    assert again not in retried, "the same line, typed again, is another one"


async def test_a_press_in_sessions_leads_back_to_the_conversation(scene: PageScene) -> None:
    sessions, now = scene.core.fakes.sessions, scene.core.now()
    side = SessionLine(SessionId("s1"), now - timedelta(days=2), "the move", 2)
    sessions.current = SessionList(now, side=(side,))
    sessions.answers["resume"] = ViewAnswer(go="/")
    page = await scene.open(width=390, height=844)
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("link", name="Sessions").click()
    await expect(page).to_have_url(f"http://{scene.host}/sessions")
    await page.get_by_role("button", name="Go back to it: the move").click()
    await expect(box(page)).to_be_focused()
    assert sessions.acts == [("web", "resume", {"id": "s1"})]


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
        fields = await place.locator("input, select, textarea").all()
        # One after another of a form are alike.
        for field in [each for each in fields if await each.is_visible()][:3]:
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
        .filter(([{tagName}]) => (counts[tagName] = (counts[tagName] ?? 0) + 1) <= 2)
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


async def test_the_focus_stays_on_the_same_thing_when_a_view_is_drawn_anew(
    scene: PageScene,
) -> None:
    """Enter would otherwise press something else than what was chosen."""
    fill(scene)
    page = await scene.open(width=390, height=844)
    moved = []
    for letter in "twrjmhsbv":
        await go_to(page, letter)
        place = page.locator("#panel" if letter == "t" else "#view")
        await expect(place.get_by_role("heading", name=VIEWS[letter]).first).to_be_visible()
        name = await page.locator("body").get_attribute("data-view") or ""
        fake = getattr(scene.core.fakes, name.replace("-", "_"))
        for number in await place.evaluate(_FIRST_OF_EACH_KIND):
            await place.evaluate(_FOCUS_ON, number)
            async with page.expect_response(f"**/api/panels/{name}?*"):
                fake.change(fake.current)
            await expect(place.locator(".content:visible")).not_to_be_empty()
            if await place.evaluate(_FOCUS_ON, None) != number:
                moved.append((name, number))
    assert moved == []
