"""What the browser keeps is no good at another port, nor to who has had ours meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser, Page, expect
from tests.browser.squatter import Squatter, squatting
from tests.browser.stage import Stage, box, message, send, sent
from tests.web.sign_in import AccessDenied, SignInClient

from ollim_bot.paths import DataPaths
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.secret import new_web_secret

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.own_context]

_LIMIT = 60.0
_WORKERS = "navigator.serviceWorker.getRegistrations().then((found) => found.length)"
_GONE = ("ERR_", "WebSocket", "status of", "Failed to load", "is not valid JSON")
_LEAVE_WORKER = (
    'await navigator.serviceWorker.register("/worker.js", { scope: "/" });'
    "await navigator.serviceWorker.ready;"
)
_WORKER = (
    'addEventListener("install", () => skipWaiting());'
    'addEventListener("activate", (event) => event.waitUntil(clients.claim()));'
    'addEventListener("fetch", (event) => event.request.mode === "navigate" && '
    'event.respondWith(new Response("left behind", {headers: {"Content-Type": "text/html"}})));'
)
_KEPT = """async () => {
    const asked = indexedDB.open("ollim-key");
    await new Promise((resolve) => { asked.onsuccess = resolve; });
    const shelf = asked.result.transaction("keys").objectStore("keys").getAll();
    await new Promise((resolve) => { shelf.onsuccess = resolve; });
    asked.result.close();
    const [{key}] = shelf.result;
    return [shelf.result.length, key.extractable, key.usages, document.cookie,
        {...localStorage}, {...sessionStorage}];
}"""


def expect_that_it_is_gone(stage: Stage) -> None:
    for complaint in _GONE:
        stage.expect_complaint(complaint)


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
        sign_in = SignInClient(http, url)
        for text in strings(loot):
            for headers in ({"Authorization": f"Bearer {text[:999]}"}, {"Cookie": f"ollim={text}"}):
                if text.isprintable() and text.isascii():
                    async with http.get(f"{url}/api/messages", headers=headers) as refused:
                        assert refused.status == 401
        fresh = await sign_in.challenge(browser)
        for _, signature in loot["signed"]:
            for challenge in (*challenges, fresh):
                for generation in ("1", "2"):
                    words = {"browser": browser, "generation": generation, "proof": signature}
                    with pytest.raises(AccessDenied):
                        await sign_in.ask("/api/session", challenge=challenge, **words)
        with pytest.raises(AccessDenied):
            await sign_in.enter(loot["address"].partition("#")[2])


async def hears_nothing(page: Page, squatter: Squatter) -> None:
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(page.locator("#connection")).to_contain_text("could not show that it is your")
    await send(page, "for my bot alone")
    await expect(message(page, "for my bot alone")).to_contain_text("not sent yet")
    assert squatter.heard
    assert "for my bot alone" not in str(squatter.heard)


async def test_who_has_the_port_while_the_bot_is_down_gets_nothing_that_counts_later(
    stage: Stage, page: Page
) -> None:
    """Not from a page that is open, nor from one that is opened, by either address."""
    expect_that_it_is_gone(stage)
    await send(page, "before")
    await expect(sent(page, "before")).to_have_count(1)
    async with aiohttp.ClientSession() as http:
        challenges = [await SignInClient(http, stage.scene.url).challenge() for _ in range(2)]
    addresses = (f"{stage.scene.url}/", stage.scene.surface.address())
    port = stage.scene.surface.port
    to_sign = [f"session\n{each}" for each in challenges]
    to_sign += [*challenges, "session\n", "", f"challenge\n{challenges[0]}\nany-nonce"]
    await stage.stop()
    squatter = Squatter(to_sign)
    loots = []
    async with squatting(squatter, port):
        await hears_nothing(page, squatter)
        for address in addresses:
            trapped = await stage.context.new_page()
            await trapped.goto(address)
            loots.append(await taken(squatter))
            await trapped.close()
    for loot in loots:
        assert loot["keys"] == 1
        assert (loot["exported"], loot["cookies"]) == ([], "")
        assert len(loot["signed"]) == len(to_sign)
    assert "Authorization" not in str(squatter.heard)
    assert "Cookie" not in str(squatter.heard)
    assert not any("/api/session" in each or "/api/socket" in each for each in squatter.heard)
    await stage.start()
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(sent(page, "for my bot alone")).to_have_count(1)
    await expect(page.locator("#connection")).to_have_text("")
    for loot in loots:
        await is_useless(stage, loot, challenges)
    await page.goto(f"{stage.scene.url}/")
    await expect(sent(page, "before")).to_have_count(1)


async def is_told_how_to_get_in(page: Page, stage: Stage, used: str) -> None:
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


async def test_an_address_lets_in_one_browser_which_keeps_what_is_no_good_elsewhere(
    stage: Stage, browser: Browser
) -> None:
    """No cookie, nothing in the plain storage, and a key that no script can export."""
    used = stage.scene.surface.address()
    page = await stage.context.new_page()
    await page.goto(used)
    await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
    assert page.url == f"{stage.scene.url}/"
    assert await page.evaluate(_KEPT) == [1, False, ["sign"], "", {}, {"ollim.draft": ""}]

    elsewhere = await browser.new_context()
    try:
        await is_told_how_to_get_in(await elsewhere.new_page(), stage, used)
    finally:
        await elsewhere.close()
    stage.check()

    expect_that_it_is_gone(stage)
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


async def test_nothing_that_was_left_behind_is_shown_in_place_of_ours(
    stage: Stage, page: Page
) -> None:
    """By who had the port: no page of a cache, by a new address and the bare one; no worker."""
    expect_that_it_is_gone(stage)
    root, port = f"{stage.scene.url}/", stage.scene.surface.port
    await page.close()
    await stage.stop()
    squatter = Squatter(cache="public, max-age=31536000, immutable")
    async with squatting(squatter, port):
        trapped = await stage.context.new_page()
        await trapped.goto(f"{stage.scene.url}/static/main.js")
        await trapped.goto(root)
        await taken(squatter)
        await trapped.close()
    await stage.start()
    page = await stage.context.new_page()
    for address in (stage.scene.surface.address(), root):
        await page.goto(address)
        await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
    await stage.stop()
    squatter = Squatter(plant=_LEAVE_WORKER)
    squatter.worker = _WORKER
    async with squatting(squatter, port):
        await page.goto(root)
        await taken(squatter)
    await stage.start()
    await page.goto(root)
    # The browser looks for a newer one in its own time.
    async with asyncio.timeout(3 * _LIMIT):
        while await page.evaluate(_WORKERS):  # noqa: ASYNC110 - it rings no bell
            await asyncio.sleep(0.1)
    await page.close()
    page = await stage.context.new_page()
    await page.goto(root)
    await expect(page.locator("#exclusion")).to_contain_text("ollim-bot web url")


async def test_tabs_reloads_and_restarts_need_no_new_address_but_a_new_secret_does(
    stage: Stage, page: Page
) -> None:
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
    stage.check()

    stage.expect_complaint("status of 401")
    new_web_secret(DataPaths(stage.scene.folder))
    await expect(again.locator("#connection")).to_contain_text("nothing is sent")
    await again.reload()
    await expect(again.locator("#exclusion")).to_contain_text("ollim-bot web url")
    await again.goto(stage.scene.surface.address())
    await expect(box(again)).to_have_attribute("placeholder", "Write to Ollim")
