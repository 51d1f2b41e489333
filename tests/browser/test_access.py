"""What the browser keeps is no good at another port, nor to who has had ours meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser, Page, expect
from tests.browser.squatter import Squatter, squatting
from tests.browser.stage import Stage, box, message, send, sent
from tests.web.sign_in import AccessDenied, Door

from ollim_bot.paths import DataPaths
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.secret import new_web_secret

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.own_context]

_LIMIT = 10.0
_WORKERS = "navigator.serviceWorker.getRegistrations().then((found) => found.length)"
_GONE = ("ERR_", "WebSocket", "status of", "Failed to load", "is not valid JSON")


async def taken(squatter: Squatter) -> dict[str, Any]:
    async with asyncio.timeout(_LIMIT):
        return await squatter.loot.get()


def strings(value: object) -> set[str]:
    if isinstance(value, dict):
        return {text for each in value.items() for text in strings(each)}
    if isinstance(value, list | tuple):
        return {text for each in value for text in strings(each)}
    return {str(value)} if value else set()


async def is_useless(stage: Stage, loot: dict[str, Any], challenges: list[str]) -> None:
    """Whatever was found or signed there, the bot that is back takes none of it."""
    url = stage.scene.url
    browser = next((str(each["browser"]) for each in loot["records"] if "browser" in each), "")
    async with aiohttp.ClientSession() as http:
        door = Door(http, url)
        for text in strings(loot):
            for headers in ({"Authorization": f"Bearer {text[:999]}"}, {"Cookie": f"ollim={text}"}):
                if text.isprintable() and text.isascii():
                    async with http.get(f"{url}/api/messages", headers=headers) as refused:
                        assert refused.status == 401
        fresh = await door.challenge(browser)
        for _, signature in loot["signed"]:
            for challenge in (*challenges, fresh):
                for generation in ("1", "2"):
                    words = {"browser": browser, "generation": generation, "proof": signature}
                    with pytest.raises(AccessDenied):
                        await door.ask("/api/session", challenge=challenge, **words)
        with pytest.raises(AccessDenied):
            await door.enter(loot["address"].partition("#")[2])


@pytest.mark.parametrize("bare", [True, False], ids=["the page", "an address of the terminal"])
async def test_who_has_the_port_while_the_bot_is_down_gets_nothing_that_counts_later(
    stage: Stage, bare: bool
) -> None:
    for complaint in _GONE:
        stage.expect_complaint(complaint)
    page = await stage.open()
    await send(page, "before")
    await expect(sent(page, "before")).to_have_count(1)
    async with aiohttp.ClientSession() as http:
        challenges = [await Door(http, stage.scene.url).challenge() for _ in range(2)]
    address = f"{stage.scene.url}/" if bare else stage.scene.surface.address()
    port = stage.scene.surface.port
    to_sign = [f"session\n{each}" for each in challenges]
    to_sign += [*challenges, "session\n", "", f"challenge\n{challenges[0]}\nany-nonce"]
    await page.close()
    await stage.stop()
    squatter = Squatter(to_sign)
    async with squatting(squatter, port):
        trapped = await stage.context.new_page()
        await trapped.goto(address)
        loot = await taken(squatter)
        await trapped.close()
    assert loot["keys"] == 1
    assert (loot["exported"], loot["cookies"]) == ([], "")
    assert len(loot["signed"]) == len(to_sign)
    assert "Authorization" not in str(squatter.heard)
    assert "Cookie" not in str(squatter.heard)
    await stage.start()
    await is_useless(stage, loot, challenges)
    again = await stage.context.new_page()
    await again.goto(f"{stage.scene.url}/")
    await expect(sent(again, "before")).to_have_count(1)


async def test_an_open_page_tells_nothing_to_who_has_the_port_now(stage: Stage, page: Page) -> None:
    for complaint in _GONE:
        stage.expect_complaint(complaint)
    await send(page, "before")
    await expect(sent(page, "before")).to_have_count(1)
    port = stage.scene.surface.port
    await stage.stop()
    squatter = Squatter()
    async with squatting(squatter, port):
        await page.evaluate("dispatchEvent(new Event('online'))")
        await expect(page.locator("#connection")).to_contain_text("could not show that it is your")
        await send(page, "for my bot alone")
        await expect(message(page, "for my bot alone")).to_contain_text("not sent yet")
    assert squatter.heard
    assert "for my bot alone" not in str(squatter.heard)
    assert not any("/api/session" in each or "/api/socket" in each for each in squatter.heard)
    await stage.start()
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(sent(page, "for my bot alone")).to_have_count(1)
    await expect(page.locator("#connection")).to_have_text("")


async def test_a_server_at_another_port_is_sent_and_shown_nothing(stage: Stage, page: Page) -> None:
    for complaint in _GONE:
        stage.expect_complaint(complaint)
    await expect(box(page)).to_be_visible()
    squatter = Squatter(["x"])
    async with squatting(squatter) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        loot = await taken(squatter)
    await page.close()
    stage.asked.discard(f"127.0.0.1:{port}")
    assert (loot["cookies"], loot["keys"], loot["records"]) == ("", 0, [])
    assert loot["stored"] == "[{},{}]"
    assert "Cookie" not in str(squatter.heard)
    assert "Authorization" not in str(squatter.heard)


async def test_pages_left_in_the_cache_are_not_shown_in_place_of_ours(stage: Stage) -> None:
    """By who had the port: not by a new address, and not by the bare one after that."""
    for complaint in _GONE:
        stage.expect_complaint(complaint)
    page = await stage.open()
    port = stage.scene.surface.port
    await page.close()
    await stage.stop()
    squatter = Squatter(cache="public, max-age=31536000, immutable")
    async with squatting(squatter, port):
        trapped = await stage.context.new_page()
        await trapped.goto(f"{stage.scene.url}/static/main.js")
        await trapped.goto(f"{stage.scene.url}/")
        await taken(squatter)
        await trapped.close()
    await stage.start()
    page = await stage.context.new_page()
    await page.goto(stage.scene.surface.address())
    await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
    await page.goto(f"{stage.scene.url}/")
    await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")


async def test_a_service_worker_that_was_left_behind_goes(stage: Stage) -> None:
    for complaint in _GONE:
        stage.expect_complaint(complaint)
    page = await stage.open()
    port = stage.scene.surface.port
    await page.close()
    await stage.stop()
    plant = 'await navigator.serviceWorker.register("/worker.js", { scope: "/" });'
    squatter = Squatter(plant=plant + "await navigator.serviceWorker.ready;")
    squatter.worker = (
        'addEventListener("install", () => skipWaiting());'
        'addEventListener("activate", (event) => event.waitUntil(clients.claim()));'
        'addEventListener("fetch", (event) => event.request.mode === "navigate" && '
        'event.respondWith(new Response("left behind", {headers: {"Content-Type": "text/html"}})));'
    )
    async with squatting(squatter, port):
        trapped = await stage.context.new_page()
        await trapped.goto(f"{stage.scene.url}/")
        await taken(squatter)
    await stage.start()
    await trapped.goto(f"{stage.scene.url}/")
    # The browser looks for a newer one in its own time.
    async with asyncio.timeout(3 * _LIMIT):
        while await trapped.evaluate(_WORKERS):  # noqa: ASYNC110 - it rings no bell
            await asyncio.sleep(0.1)
    await trapped.close()
    page = await stage.context.new_page()
    await page.goto(f"{stage.scene.url}/")
    await expect(page.locator("#exclusion")).to_contain_text("ollim-bot web url")


async def test_tabs_reloads_and_restarts_need_no_new_address(stage: Stage, page: Page) -> None:
    root = f"{stage.scene.url}/"
    assert page.url == root
    other = await stage.context.new_page()
    await other.goto(root)
    await expect(box(other)).to_have_attribute("placeholder", "Write to Ollim")
    for _ in range(2):
        async with stage.without_server():
            await expect(page.locator("#connection")).to_have_text("reconnecting…")
        await send(page, "one more")
        await expect(sent(other, "one more").first).to_be_visible()
    await asyncio.gather(page.reload(), other.reload())
    for tab in (page, other):
        await expect(sent(tab, "one more")).to_have_count(2)
    async with stage.without_server():
        await other.close()
        await page.close()
    again = await stage.context.new_page()
    await again.goto(root)
    await expect(sent(again, "one more")).to_have_count(2)


async def test_what_is_kept_can_be_used_and_not_be_read(page: Page) -> None:
    """No cookie, nothing in the plain storage, and a key that no script can export."""
    kept = await page.evaluate("""async () => {
        const asked = indexedDB.open("ollim-key");
        await new Promise((resolve) => { asked.onsuccess = resolve; });
        const shelf = asked.result.transaction("keys").objectStore("keys").getAll();
        await new Promise((resolve) => { shelf.onsuccess = resolve; });
        asked.result.close();
        const [{key}] = shelf.result;
        return [shelf.result.length, key.extractable, key.usages, document.cookie,
            {...localStorage}, {...sessionStorage}];
    }""")
    assert kept == [1, False, ["sign"], "", {}, {"ollim.draft": ""}]


async def test_a_page_that_is_not_let_in_says_in_one_sentence_how_to_get_in(
    stage: Stage, browser: Browser
) -> None:
    used = stage.scene.surface.address()
    own = await stage.context.new_page()
    await own.goto(used)
    await expect(box(own)).to_have_attribute("placeholder", "Write to Ollim")
    assert own.url == f"{stage.scene.url}/"
    elsewhere = await browser.new_context()
    try:
        page = await elsewhere.new_page()
        for address, sentence in ((stage.scene.url, texts.NO_KEY), (used, texts.USED_ADDRESS)):
            await page.goto(address)
            await expect(page.locator("#exclusion")).to_have_text(sentence.replace("`", ""))
            await expect(box(page)).to_be_hidden()
            await expect(page.get_by_text("Three things to try")).to_be_hidden()
            steps = page.get_by_role("list", name="How to open this page")
            await expect(steps).to_contain_text(".venv/bin/ollim-bot web url")
            await expect(steps).to_contain_text("start it first")
        await page.add_init_script(
            "Object.defineProperty(globalThis, 'isSecureContext', {value: false})"
        )
        await page.goto(stage.scene.surface.address())
        await expect(page.locator("#exclusion")).to_contain_text("by https only")
        await expect(page.get_by_role("list", name="How to open this page")).to_be_hidden()
    finally:
        await elsewhere.close()


async def test_a_new_secret_shuts_open_pages_until_they_are_let_in_again(
    stage: Stage, page: Page
) -> None:
    stage.expect_complaint("status of 401")
    stage.expect_complaint("WebSocket")
    new_web_secret(DataPaths(stage.scene.folder))
    await expect(page.locator("#connection")).to_contain_text("nothing is sent")
    await page.reload()
    await expect(page.locator("#exclusion")).to_contain_text("ollim-bot web url")
    await page.goto(stage.scene.surface.address())
    await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
