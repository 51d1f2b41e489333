"""Commands: the menu that a slash opens, and their answers."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Locator, Page, Route, expect
from tests.browser.stage import Stage, box, message, messages, send

from ollim_bot.domain.commands import CommandAnswer

pytestmark = pytest.mark.asyncio(loop_scope="session")


def menu(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Commands")


def chosen(page: Page) -> Locator:
    return menu(page).get_by_role("option", selected=True)


def note(page: Page, line: str) -> Locator:
    return page.get_by_role("region", name=f"Answer to {line}")


async def test_a_slash_shows_all_commands_and_arrows_choose_in_a_circle(
    stage: Stage, page: Page
) -> None:
    await page.keyboard.press("/")
    await expect(menu(page).get_by_role("option")).to_have_count(len(stage.core.commands))
    for command in stage.core.commands:
        option = menu(page).get_by_role("option").filter(has_text=command.usage)
        await expect(option).to_contain_text(command.about)
    await expect(chosen(page)).to_have_count(0)
    await page.keyboard.press("ArrowUp")
    await expect(chosen(page)).to_contain_text("/resume")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(chosen(page)).to_contain_text("/compact")
    active = await box(page).get_attribute("aria-activedescendant")
    await expect(chosen(page)).to_have_id(active or "none")


async def test_a_slash_and_enter_runs_and_sends_nothing(stage: Stage, page: Page) -> None:
    await page.keyboard.press("/")
    await expect(menu(page)).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/")
    await expect(menu(page)).to_be_visible()
    await page.keyboard.type("model opus")
    await page.keyboard.press("Enter")
    await expect(note(page, "/model opus")).to_contain_text("is done")
    assert stage.commands == ["/model opus"]
    assert stage.core.received == []


async def test_typing_filters_and_escape_closes(page: Page) -> None:
    await page.keyboard.type("/mod")
    await expect(menu(page).get_by_role("option")).to_have_text(
        ["/model [name]which model answers"]
    )
    await page.keyboard.press("Escape")
    await expect(menu(page)).to_be_hidden()
    await expect(box(page)).to_have_value("/mod")
    await page.keyboard.type("e")
    await expect(menu(page)).to_be_visible()
    await page.keyboard.type("xyz")
    await expect(menu(page)).to_be_hidden()


async def test_enter_runs_a_command_that_takes_nothing_and_takes_choices_for_others(
    stage: Stage, page: Page
) -> None:
    await page.keyboard.type("/cl")
    await page.keyboard.press("Enter")
    await expect(note(page, "/clear")).to_contain_text("/clear is done.")
    await expect(box(page)).to_have_value("")
    assert stage.commands == ["/clear"]
    assert stage.core.received == []
    await page.keyboard.type("/mo")
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/model ")
    await expect(menu(page).get_by_role("option")).to_have_text(["opus", "sonnet", "haiku"])
    await expect(chosen(page)).to_have_count(0)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(chosen(page)).to_have_text("sonnet")
    await page.keyboard.press("Enter")
    await expect(note(page, "/model sonnet")).to_contain_text("is done.")
    assert stage.commands == ["/clear", "/model sonnet"]


async def test_what_is_typed_is_run_as_typed_unless_it_needs_more(stage: Stage, page: Page) -> None:
    """A choice is a proposal: other values may be right too."""
    await page.keyboard.type("/model o")
    await expect(menu(page).get_by_role("option")).to_have_text(["opus", "sonnet"])
    await page.keyboard.press("Enter")
    await expect(note(page, "/model o")).to_contain_text("is done")
    assert stage.commands == ["/model o"]
    await page.keyboard.type("/model")
    await page.keyboard.press("Enter")
    await expect(note(page, "/model").last).to_contain_text("/model is done")
    await page.keyboard.type("/resume")
    await page.keyboard.press("Enter")
    await expect(box(page)).to_have_value("/resume ")
    await expect(menu(page).get_by_role("option")).to_have_text(["aa11", "bb22"])
    assert stage.commands == ["/model o", "/model"]


async def test_tab_fills_in_without_running_and_the_next_argument_is_named(
    stage: Stage, page: Page
) -> None:
    await page.keyboard.type("/mod")
    await page.keyboard.press("Tab")
    await expect(box(page)).to_have_value("/model ")
    await page.keyboard.type("so")
    await page.keyboard.press("Tab")
    await expect(box(page)).to_have_value("/model sonnet")
    await expect(box(page)).to_be_focused()
    assert stage.commands == []
    await box(page).fill("")
    await page.keyboard.type("/compact ")
    usage = page.locator("#menu-usage")
    await expect(usage).to_contain_text("what to keep")
    await expect(usage.locator("b")).to_have_text("[instructions] ")
    await page.keyboard.type("keep the list of names")
    await expect(usage).to_be_visible()


async def test_values_come_from_the_server_too(page: Page) -> None:
    asked = []

    async def answer(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query))
        await route.fulfill(json={"values": ["bb22", "the one about boats"]})

    await page.route("**/api/completions?*", answer)
    await page.keyboard.type("/resume b")
    await expect(menu(page).get_by_role("option")).to_have_text(["bb22", "the one about boats"])
    assert asked[-1] == {"command": ["resume"], "argument": ["id"], "typed": ["b"]}
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(note(page, "/resume the one about boats")).to_be_visible()


async def test_a_click_counts_though_the_same_values_come_before_its_end(page: Page) -> None:
    may_answer = asyncio.Event()

    async def answer(route: Route) -> None:
        await may_answer.wait()
        await route.fulfill(json={"values": ["opus", "sonnet", "haiku"]})

    await page.route("**/api/completions?*", answer)
    await page.keyboard.type("/model ")
    async with page.expect_response("**/api/completions?*"):
        await menu(page).get_by_role("option", name="haiku").hover()
        await page.mouse.down()
        may_answer.set()
    await page.evaluate("() => new Promise(requestAnimationFrame)")
    await page.mouse.up()
    await expect(note(page, "/model haiku")).to_be_visible()


async def test_a_click_takes_a_command(page: Page) -> None:
    await page.keyboard.press("/")
    await menu(page).get_by_role("option", name="/model").click()
    await menu(page).get_by_role("option", name="haiku").click()
    await expect(note(page, "/model haiku")).to_be_visible()
    await expect(box(page)).to_be_focused()


async def test_an_error_is_shown_until_removed_and_no_answer_leaves_no_note(
    stage: Stage, page: Page
) -> None:
    stage.core.answers["/modle"] = CommandAnswer("There is no command `/modle`.", is_error=True)
    await send(page, "/modle sonnet")
    error = note(page, "/modle sonnet")
    await expect(error).to_contain_text("/modle sonnet was not done")
    await expect(error).to_contain_text("There is no command /modle.")
    await error.get_by_role("button", name="Remove this note").click()
    await expect(error).to_have_count(0)
    stage.core.answers["/compact"] = CommandAnswer()
    await send(page, "/compact")
    await send(page, "/clear")
    await expect(note(page, "/clear")).to_contain_text("is done")
    await expect(note(page, "/compact")).to_have_count(0)
    assert stage.commands == ["/modle sonnet", "/compact", "/clear"]


async def test_a_note_stands_where_the_conversation_was_and_passes(
    stage: Stage, page: Page
) -> None:
    await stage.core.say("before")
    await expect(message(page, "before")).to_be_visible()
    await send(page, "/clear")
    await expect(note(page, "/clear")).to_contain_text("is done")
    await stage.core.say("after")
    await expect(message(page, "after")).to_be_visible()
    shown = page.get_by_role("log").locator("> article, > section")
    texts = await shown.all_inner_texts()
    assert [text.split("\n")[0] for text in texts] == ["before", "/clear", "after"]

    await page.reload()

    await expect(messages(page)).to_have_count(2)
    await expect(note(page, "/clear")).to_have_count(0)


async def test_a_path_is_no_command(stage: Stage, page: Page) -> None:
    await send(page, "/etc/hosts is empty")
    await expect(message(page, "/etc/hosts is empty")).to_be_visible()
    assert stage.commands == []
