"""Commands: the menu that a slash opens, and their answers."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Locator, Page, Route, expect
from tests.browser.scene import PageScene, box, message, messages, send

from ollim_bot.domain.commands import CommandAnswer

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
