"""The server stops and starts under an open page: tabs agree, nothing is lost or sent twice."""

from __future__ import annotations

import itertools
import json
import re
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from playwright.async_api import Page, Route, expect
from tests.browser.scene import PageScene, box, message, messages, send, sent, set_hidden, texts

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import TextStreamed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

_KEY = "ollim.unsent."


async def test_the_page_reconnects_catches_up_and_offers_the_page_of_an_updated_bot(
    scene: PageScene, page: Page
) -> None:
    connection = page.locator("#connection")
    reload = page.get_by_role("button", name="Reload for the new version")
    await scene.core.say("before")
    await expect(message(page, "before")).to_be_visible()
    turn = scene.core.begin()
    await turn.show(TextStreamed("half an ans"))
    await expect(message(page, "half an ans")).to_be_visible()
    await expect(connection).to_have_text("")
    await expect(reload).to_be_hidden()
    await page.evaluate("window.wasNotReloaded = true")
    async with scene.without_server():
        await expect(connection).to_have_text("reconnecting…")
        await expect(page.locator("#doing")).to_have_text("")
        await turn.end("the whole answer")
        await scene.core.say("missed one", Author.BACKGROUND)
        await scene.core.say("missed two")
        await scene.core.change(version="9.9")
    await expect(messages(page)).to_have_count(4)
    await expect(connection).to_have_text("")
    await expect(page.locator("#doing")).to_have_text("")
    await scene.core.say("after")
    await expect(messages(page)).to_have_count(5)
    await expect(texts(page)).to_have_text(
        ["before", "the whole answer", "missed one", "missed two", "after"]
    )
    assert await page.evaluate("window.wasNotReloaded")

    await box(page).fill("half a thought")
    await reload.click()
    await expect(reload).to_be_hidden()
    await expect(box(page)).to_have_value("half a thought")


@pytest.mark.own_context
async def test_a_bot_that_stays_away_is_said_with_what_that_means(
    scene: PageScene, page: Page
) -> None:
    connection, icon = page.locator("#connection"), page.locator("#icon")
    await expect(page).to_have_title("Ollim")
    await page.clock.install()
    tools = page.locator(".tools")
    place = await tools.bounding_box()
    async with scene.without_server():
        await expect(connection).to_have_text("reconnecting…")
        assert await tools.bounding_box() == place
        await expect(page).to_have_title("Not connected · Ollim")
        await expect(icon).to_have_attribute("href", re.compile("^data:image/svg"))
        await page.clock.run_for(10_000)
        await expect(connection).to_have_text(
            "Your bot does not answer. If it has stopped, reminders wait until you start it again; "
            "then you get the ones you missed. "
            "To start it, run ollim-bot in a terminal, in its folder."
        )
        await expect(connection.locator("code")).to_have_text("ollim-bot")
        await expect(connection).to_be_in_viewport(ratio=1)
        assert await tools.bounding_box() == place, "the icons stay where they were"
    await page.clock.run_for(10_000)
    await expect(connection).to_have_text("")
    await expect(page).to_have_title("Ollim")
    await expect(icon).to_have_attribute("href", "/static/icon.svg")


async def test_who_was_away_too_long_gets_the_newest_messages_and_leftovers_do_no_harm(
    scene: PageScene, page: Page
) -> None:
    old_id = str(uuid4())
    at = datetime(2026, 1, 1, tzinfo=UTC)
    await scene.core.post(ChatMessage(MessageId(old_id), at, Author.OWNER, "long ago"))
    await expect(message(page, "long ago")).to_be_visible()
    async with scene.without_server():
        await scene.post_many_old(70)
        scene.core.remembers = 10
    await expect(messages(page)).to_have_count(60)
    await expect(message(page, "long ago")).to_have_count(0)
    await expect(messages(page).last).to_contain_text("old message 69")

    await leave_behind(page, old_id, "long ago")
    await expect(messages(page)).to_have_count(60)
    await expect(message(page, "long ago")).to_have_count(0)
    assert await page.evaluate("Object.keys(localStorage)") == []
    assert len(scene.core.messages) == 71

    await leave_behind(page, str(uuid4()), "see", "a.png")
    await expect(message(page, "see")).to_contain_text("This browser no longer has the files")
    assert scene.core.received == []


async def test_what_is_typed_is_sent_once_and_in_order_though_the_bot_is_away(
    scene: PageScene, page: Page
) -> None:
    """A command is not kept for later."""
    async with scene.without_server():
        await expect(page.locator("#connection")).to_have_text("reconnecting…")
        await send(page, "first")
        await send(page, "second")
        await expect(message(page, "first")).to_contain_text("not sent yet")
        await expect(message(page, "second")).to_contain_text("not sent yet")
        await send(page, "/clear")
        await expect(page.get_by_role("region", name="Answer to /clear")).to_contain_text(
            "The bot does not answer"
        )
    await expect(sent(page, "second")).to_have_count(1)
    await expect(page.get_by_text("not sent yet")).to_have_count(0)
    await expect(texts(page)).to_have_text(["first", "second"])
    assert [received.text for received in scene.core.received] == ["first", "second"]
    await expect(page.locator("#connection")).to_have_text("")
    assert scene.commands == []
    scene.check()

    scene.expect_browser_error("ERR_FAILED")
    tries = itertools.count()

    async def lose_the_first_answer(route: Route) -> None:
        if next(tries) == 0:
            await route.fetch()
            await route.abort()
        else:
            await route.continue_()

    await page.route("**/api/messages", lose_the_first_answer)
    await send(page, "once")
    await expect(sent(page, "once")).to_have_count(1)
    await expect(messages(page)).to_have_count(3)
    await send(page, "twice")
    await expect(sent(page, "twice")).to_have_count(1)
    order = ["first", "second", "once", "twice"]
    await expect(texts(page)).to_have_text(order)
    assert [received.text for received in scene.core.received] == order


async def test_tabs_show_the_same_and_share_what_was_read_and_what_waits(
    scene: PageScene, page: Page
) -> None:
    other = await scene.open()
    await send(page, "from one tab")
    await expect(message(other, "from one tab")).to_be_visible()
    await send(other, "from the other")
    for tab in (page, other):
        await expect(texts(tab)).to_have_text(["from one tab", "from the other"])

    await set_hidden(page, True)
    await set_hidden(other, True)
    await scene.core.say("news")
    for tab in (page, other):
        await expect(tab).to_have_title("(1) Ollim")
    await set_hidden(page, False)
    for tab in (page, other):
        await expect(tab).to_have_title("Ollim")
    assert scene.web.mark.value == scene.core.messages[-1].id

    await page.close()
    async with scene.without_server():
        await send(other, "do not forget")
        await expect(message(other, "do not forget")).to_contain_text("not sent yet")
        await other.close()
    again = await scene.open()
    await expect(sent(again, "do not forget")).to_have_count(1)
    await expect(messages(again)).to_have_count(4)
    assert len(scene.core.received) == 3


async def leave_behind(page: Page, entry_id: str, text: str, *files: str) -> None:
    """The message of a page that is closed before the server confirmed it."""
    entry = {
        "id": entry_id,
        "at": "",
        "text": text,
        "replyTo": None,
        "files": [{"name": name, "size": 3} for name in files],
        "error": "",
        "tries": 0,
    }
    await page.evaluate(
        "entry => localStorage.setItem(...entry)", [_KEY + entry_id, json.dumps(entry)]
    )
    await page.reload()


async def test_a_page_whose_key_is_gone_says_what_to_do(scene: PageScene, page: Page) -> None:
    async with scene.without_server():
        await send(page, "kept")
        await page.evaluate("""() => new Promise((resolve) => {
            indexedDB.deleteDatabase("ollim-key").addEventListener("success", resolve);
        })""")
        # Wait for it before the server is back: an attempt that already read the key could succeed.
        await expect(page.locator("#connection")).to_contain_text("Run ollim-bot web url")
    await expect(page.locator("#connection")).to_contain_text("Run ollim-bot web url")
    await page.evaluate("""() => {
        window.said = [];
        const connection = document.getElementById("connection");
        new MutationObserver(() => said.push(connection.textContent))
            .observe(connection, {childList: true});
    }""")
    await page.evaluate("dispatchEvent(new Event('online'))")
    await page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    assert await page.evaluate("said") == []
    await page.goto(scene.web.surface.address())
    await expect(sent(page, "kept")).to_have_count(1)
    await expect(box(page)).to_be_focused()
