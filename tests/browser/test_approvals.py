"""Questions whether something may be done: read whole, answered once, and hard to overlook."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.scene import (
    PageScene,
    announced,
    box,
    listen,
    message,
    messages,
    scroll_to,
    set_hidden,
)

from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import ToolStarted

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

COMMAND = (
    "curl -s 'https://example.org/" + "a-very-long-address-" * 20 + "'\n"
    "    | jq .results > notes/found.json"
)
ONCE = Button("Once", "approve", "k1:once", ButtonStyle.PRIMARY)
ALWAYS = Button("Always", "approve", "k1:always")
NO = Button("No", "approve", "k1:no", ButtonStyle.DANGER)
ASK = Card("Allow Bash?", f"```\n{COMMAND}\n```", Color.YELLOW, buttons=(ONCE, ALWAYS, NO))
ALLOWED = ASK._replace(title="Bash: allowed once", buttons=())


async def ask(scene: PageScene) -> ChatMessage:
    return await scene.core.say(ASK.text, Author.PROGRAM, card=ASK)


def button(page: Page, name: str) -> Locator:
    return messages(page).get_by_role("button", name=name, exact=True)


async def can_be_read_whole(page: Page, width: int) -> None:
    code = messages(page).locator("pre")
    await expect(code).to_have_text(f"{COMMAND}\n")
    assert await code.inner_text() == f"{COMMAND}\n", "its lines are not kept"
    hidden = "it => [it.scrollWidth - it.clientWidth, it.scrollHeight - it.clientHeight]"
    assert await code.evaluate(hidden) == [0, 0]
    await expect(code).to_have_css("overflow-y", "auto")
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    for name in ("Once", "Always", "No"):
        await expect(button(page, name)).to_be_in_viewport(ratio=1)


async def test_the_whole_command_can_be_read_and_a_question_that_expired_says_so(
    scene: PageScene,
) -> None:
    page = await scene.open(width=320, height=640)
    await ask(scene)
    await can_be_read_whole(page, 320)
    await page.set_viewport_size({"width": 1000, "height": 640})
    await can_be_read_whole(page, 1000)

    scene.core.answers[ONCE.custom_id] = CommandAnswer("That question has expired.", is_error=True)
    await button(page, "Once").click()
    note = page.get_by_role("region", name="Answer to Once")
    await expect(note).to_have_text("Once did not workThat question has expired.")


async def is_answered_by_keyboard(scene: PageScene, page: Page) -> None:
    """It does not take the focus."""
    scene.core.answers[NO.custom_id] = CommandAnswer()
    await page.keyboard.type("half a th")
    asked = await ask(scene)
    await expect(button(page, "No")).to_be_visible()
    await expect(box(page)).to_be_focused()
    await page.keyboard.type("ought")
    await expect(box(page)).to_have_value("half a thought")
    # Shift+Tab passes the file button and the two buttons of the message.
    for _ in range(4):
        await page.keyboard.press("Shift+Tab")
    await expect(button(page, "No")).to_be_focused()
    await expect(button(page, "No")).to_have_css("outline-style", "solid")
    await page.keyboard.press("Shift+Tab")
    await expect(button(page, "Always")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(button(page, "No used").last).to_be_disabled()
    await expect(button(page, "No")).to_have_count(0)
    assert scene.core.clicks == [("web", asked.id, NO.custom_id)]
    await expect(box(page)).to_have_value("half a thought")


async def test_it_is_said_that_an_answer_is_needed_until_there_is_one_by_keyboard(
    scene: PageScene, page: Page
) -> None:
    turn = scene.core.begin()
    await turn.show(ToolStarted("1", "Bash", {"command": "curl"}))
    doing = page.locator("#doing")
    await expect(doing).to_have_text("Bash(curl)")
    await listen(page)
    asked = await ask(scene)
    await expect(page).to_have_title("Answer needed · Ollim")
    await expect(doing).to_have_text("Answer needed")
    await scene.core.say("another message")
    await expect(message(page, "another message")).to_be_visible()
    await expect(page).to_have_title("Answer needed · Ollim")
    spoken, _ = await announced(page)
    assert spoken.startswith("Program: Allow Bash?\ncurl -s")
    used = tuple(each._replace(is_used=True) for each in ASK.buttons)
    await scene.core.post(replace(asked, card=ASK._replace(buttons=used)))
    await expect(page).to_have_title("Ollim")
    await expect(doing).to_have_text("Bash(curl)")
    assert len(await announced(page)) == 2
    await turn.end()
    await expect(doing).to_have_text("")
    await is_answered_by_keyboard(scene, page)


async def test_an_answer_from_elsewhere_closes_the_question(scene: PageScene, page: Page) -> None:
    """An owner who reads further up sees that a question came."""
    asked = await ask(scene)
    await scene.core.say("meanwhile")
    await button(page, "Once").focus()
    await scene.core.post(replace(asked, card=ALLOWED, text=ALLOWED.text))
    await expect(message(page, "Bash: allowed once")).to_be_focused()
    await expect(messages(page)).to_have_count(2)
    await expect(button(page, "Once")).to_have_count(0)
    await expect(page).to_have_title("Ollim")

    await scene.core.say("A long answer.\n\n" * 40)
    await expect(message(page, "A long answer.")).to_be_visible()
    await scroll_to(page, 200)
    await expect(page.get_by_role("button", name="To the end")).to_be_visible()
    await ask(scene)
    await expect(page).to_have_title("(1) Answer needed · Ollim")
    await page.get_by_role("button", name="New messages").click()
    await expect(button(page, "Once")).to_be_in_viewport(ratio=1)
    await set_hidden(page, True)
    await expect(page).to_have_title("Answer needed · Ollim")
