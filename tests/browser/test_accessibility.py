"""What a screen reader gets: landmarks, names, and each answer once."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.browser.scene import PageScene, announced, listen, message, messages, send

from ollim_bot.domain.chat import Author
from ollim_bot.domain.events import TextStreamed, ToolStarted

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

_NEED_A_NAME = {"button", "link", "textbox", "listbox", "option", "dialog", "log", "region", "img"}


async def everything_that_can_be_used_has_a_name(scene: PageScene, page: Page) -> None:
    for author in Author:
        await scene.core.say("Text with [a link](https://example.org).\n\n```\ncode\n```", author)
    turn = scene.core.begin()
    await turn.show(ToolStarted("1", "Read", {"file_path": "a.md"}))
    await page.get_by_role("button", name="1 step").click()
    await page.keyboard.press("/")
    await expect(page.get_by_role("listbox")).to_be_visible()
    session = await scene.context.new_cdp_session(page)
    tree: dict[str, Any] = await session.send("Accessibility.getFullAXTree")
    nodes = [node for node in tree["nodes"] if not node["ignored"]]
    unnamed = [
        node
        for node in nodes
        if node["role"]["value"] in _NEED_A_NAME and not node.get("name", {}).get("value")
    ]
    assert len(nodes) > 50
    assert unnamed == []
    await turn.end()


async def test_the_page_has_its_landmarks_and_a_log_and_all_that_can_be_used_has_a_name(
    scene: PageScene, page: Page
) -> None:
    await scene.core.say("Hello.")
    await expect(message(page, "Hello.")).to_be_visible()
    await expect(page.locator("body")).to_match_aria_snapshot("""
        - link "Go to the message box"
        - banner:
          - heading "Ollim" [level=1]
          - button "offline model — not a language model"
          - status
          - button "Notifications"
          - button "Switch to dark"
          - button "Keys"
        - main:
          - region "Conversation":
            - log "Messages":
              - article /Ollim, today/:
                - paragraph: Hello.
        - contentinfo:
          - button "Add files"
          - textbox "Message"
          - button "Send"
    """)
    await expect(page.get_by_role("log")).to_have_attribute("aria-live", "off")
    assert await page.locator("html").get_attribute("lang") == "en"
    await everything_that_can_be_used_has_a_name(scene, page)


async def test_what_comes_is_announced_once_when_it_is_whole_and_what_was_there_before_is_not(
    scene: PageScene,
) -> None:
    await scene.post_many_old(70)
    page = await scene.open()
    assert await page.locator("#announcer").text_content() == ""
    await listen(page)
    await page.locator("#scroller").evaluate("it => { it.scrollTop = 0 }")
    await expect(messages(page)).to_have_count(70)
    await scene.core.say("new")
    await expect(message(page, "new")).to_be_visible()
    heard = ["Ollim: new"]
    assert await announced(page) == heard

    await send(page, "What now?")
    turn = scene.core.begin()
    for word in ("This", " **comes**", " word by word.", "\n\n", "And", " on."):
        await turn.show(TextStreamed(word))
    await expect(messages(page)).to_have_count(73)
    assert await announced(page) == heard
    await turn.end("This **comes** word by word.\n\nAnd on.")
    await expect(page.locator("#doing")).to_have_text("")
    await scene.core.say("Reminder: tea", Author.BACKGROUND)
    await expect(message(page, "Reminder: tea")).to_be_visible()
    heard += ["Ollim: This comes word by word.\nAnd on.", "Ollim, in the background: Reminder: tea"]
    assert await announced(page) == heard

    await send(page, "/clear")
    await expect(page.get_by_role("region", name="Answer to /clear")).to_contain_text("is done")
    assert await announced(page) == [*heard, "/clear is done."]
