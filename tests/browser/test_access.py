"""What the browser keeps is useless at another port, and to a program that took over the port."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser, Page, expect
from tests.browser.hostile_server import HostileServer, serving
from tests.browser.scene import PageScene, box, message, send, sent
from tests.patience import patience
from tests.surfaces.web.sign_in import AccessDenied, SignInClient

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.secret import new_web_secret

pytestmark = [
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.own_context,
]

_WORKERS = "navigator.serviceWorker.getRegistrations().then((found) => found.length)"
_GONE = ("ERR_", "WebSocket", "status of", "Failed to load", "is not valid JSON")
_INSTALL_WORKER = (
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
    const stored = asked.result.transaction("keys").objectStore("keys").getAll();
    await new Promise((resolve) => { stored.onsuccess = resolve; });
    asked.result.close();
    const [{key}] = stored.result;
    return [stored.result.length, key.extractable, key.usages, document.cookie,
        {...localStorage}, {...sessionStorage}];
}"""


def expect_that_it_is_gone(scene: PageScene) -> None:
    for error in _GONE:
        scene.expect_browser_error(error)


async def stolen_by(server: HostileServer) -> dict[str, Any]:
    async with asyncio.timeout(patience()):
        return await server.stolen.get()


def strings(value: object) -> set[str]:
    if isinstance(value, dict):
        return {text for each in value.items() for text in strings(each)}
    if isinstance(value, list | tuple):
        return {text for each in value for text in strings(each)}
    return {str(value)} if value else set()


async def is_useless(scene: PageScene, stolen: dict[str, Any], challenges: list[str]) -> None:
    """The restarted bot accepts nothing that was stolen or signed."""
    url = scene.web.url
    browser = next((str(each["browser"]) for each in stolen["records"] if "browser" in each), "")
    async with aiohttp.ClientSession() as http:
        sign_in = SignInClient(http, url)
        for text in strings(stolen):
            for headers in ({"Authorization": f"Bearer {text[:999]}"}, {"Cookie": f"ollim={text}"}):
                if text.isprintable() and text.isascii():
                    async with http.get(f"{url}/api/messages", headers=headers) as refused:
                        assert refused.status == 401
        fresh = await sign_in.challenge(browser)
        for _, signature in stolen["signed"]:
            for challenge in (*challenges, fresh):
                for generation in ("1", "2"):
                    words = {"browser": browser, "generation": generation, "proof": signature}
                    with pytest.raises(AccessDenied):
                        await sign_in.ask("/api/session", challenge=challenge, **words)
        with pytest.raises(AccessDenied):
            await sign_in.enter(stolen["address"].partition("#")[2])


async def hears_nothing(page: Page, server: HostileServer) -> None:
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(page.locator("#connection")).to_contain_text("is not answered by your bot")
    await send(page, "for my bot alone")
    await expect(message(page, "for my bot alone")).to_contain_text("not sent yet")
    assert server.received
    assert "for my bot alone" not in str(server.received)


async def test_who_has_the_port_while_the_bot_is_down_gets_nothing_that_counts_later(
    scene: PageScene, page: Page
) -> None:
    """Neither an open page nor a newly opened one gives anything away, by either address."""
    expect_that_it_is_gone(scene)
    await send(page, "before")
    await expect(sent(page, "before")).to_have_count(1)
    async with aiohttp.ClientSession() as http:
        challenges = [await SignInClient(http, scene.web.url).challenge() for _ in range(2)]
    addresses = (f"{scene.web.url}/", scene.web.surface.address())
    port = scene.web.surface.port
    to_sign = [f"session\n{each}" for each in challenges]
    to_sign += [*challenges, "session\n", "", f"challenge\n{challenges[0]}\nany-nonce"]
    await scene.stop()
    server = HostileServer(to_sign)
    thefts = []
    async with serving(server, port):
        await hears_nothing(page, server)
        for address in addresses:
            trapped = await scene.context.new_page()
            await trapped.goto(address)
            thefts.append(await stolen_by(server))
            await trapped.close()
    for stolen in thefts:
        assert stolen["keys"] == 1
        assert (stolen["exported"], stolen["cookies"]) == ([], "")
        assert len(stolen["signed"]) == len(to_sign)
    assert "Authorization" not in str(server.received)
    assert "Cookie" not in str(server.received)
    assert not any("/api/session" in each or "/api/socket" in each for each in server.received)
    await scene.start()
    await page.evaluate("dispatchEvent(new Event('online'))")
    await expect(sent(page, "for my bot alone")).to_have_count(1)
    await expect(page.locator("#connection")).to_have_text("")
    for stolen in thefts:
        await is_useless(scene, stolen, challenges)
    await page.goto(f"{scene.web.url}/")
    await expect(sent(page, "before")).to_have_count(1)


async def is_told_how_to_get_in(page: Page, scene: PageScene, used: str) -> None:
    for address, sentence in ((scene.web.url, frames.NO_KEY), (used, frames.USED_ADDRESS)):
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
    await page.goto(scene.web.surface.address())
    await expect(page.locator("#exclusion")).to_contain_text("works only over https")
    await expect(page.get_by_role("list", name="How to open this page")).to_be_hidden()


async def test_an_address_lets_in_one_browser_which_keeps_what_is_no_good_elsewhere(
    scene: PageScene, browser: Browser
) -> None:
    """No cookie, nothing in the plain storage, and a key that no script can export."""
    used = scene.web.surface.address()
    page = await scene.context.new_page()
    await page.goto(used)
    await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
    assert page.url == f"{scene.web.url}/"
    assert await page.evaluate(_KEPT) == [1, False, ["sign"], "", {}, {"ollim.draft": ""}]

    elsewhere = await browser.new_context()
    try:
        await is_told_how_to_get_in(await elsewhere.new_page(), scene, used)
    finally:
        await elsewhere.close()
    scene.check()

    expect_that_it_is_gone(scene)
    server = HostileServer(["x"])
    async with serving(server) as port:
        await page.goto(f"http://127.0.0.1:{port}/")
        stolen = await stolen_by(server)
    await page.close()
    scene.requested_hosts.discard(f"127.0.0.1:{port}")
    assert (stolen["cookies"], stolen["keys"], stolen["records"]) == ("", 0, [])
    assert stolen["stored"] == "[{},{}]"
    assert "Cookie" not in str(server.received)
    assert "Authorization" not in str(server.received)


async def test_nothing_that_was_left_behind_is_shown_in_place_of_ours(
    scene: PageScene, page: Page
) -> None:
    """Neither cached pages nor a service worker of the other program appear, by either address."""
    expect_that_it_is_gone(scene)
    root, port = f"{scene.web.url}/", scene.web.surface.port
    await page.close()
    await scene.stop()
    server = HostileServer(cache="public, max-age=31536000, immutable")
    async with serving(server, port):
        trapped = await scene.context.new_page()
        await trapped.goto(f"{scene.web.url}/static/main.js")
        await trapped.goto(root)
        await stolen_by(server)
        await trapped.close()
    await scene.start()
    page = await scene.context.new_page()
    for address in (scene.web.surface.address(), root):
        await page.goto(address)
        await expect(box(page)).to_have_attribute("placeholder", "Write to Ollim")
    await scene.stop()
    server = HostileServer(plant=_INSTALL_WORKER)
    server.worker = _WORKER
    async with serving(server, port):
        await page.goto(root)
        await stolen_by(server)
    await scene.start()
    await page.goto(root)
    # The browser decides when it looks for a newer service worker.
    async with asyncio.timeout(3 * patience()):
        while await page.evaluate(_WORKERS):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.1)
    await page.close()
    page = await scene.context.new_page()
    await page.goto(root)
    await expect(page.locator("#exclusion")).to_contain_text("ollim-bot web url")


async def test_tabs_reloads_and_restarts_need_no_new_address_but_a_new_secret_does(
    scene: PageScene, page: Page
) -> None:
    root = f"{scene.web.url}/"
    assert page.url == root
    other = await scene.context.new_page()
    await other.goto(root)
    await expect(box(other)).to_have_attribute("placeholder", "Write to Ollim")
    for _ in range(2):
        async with scene.without_server():
            await expect(page.locator("#connection")).to_have_text("reconnecting…")
        await send(page, "one more")
        await expect(sent(other, "one more").first).to_be_visible()
    await asyncio.gather(page.reload(), other.reload())
    for tab in (page, other):
        await expect(sent(tab, "one more")).to_have_count(2)
    async with scene.without_server():
        await other.close()
        await page.close()
    again = await scene.context.new_page()
    await again.goto(root)
    await expect(sent(again, "one more")).to_have_count(2)
    scene.check()

    scene.expect_browser_error("status of 401")
    new_web_secret(DataPaths(scene.web.folder))
    await expect(again.locator("#connection")).to_contain_text("Nothing was sent")
    await again.reload()
    await expect(again.locator("#exclusion")).to_contain_text("ollim-bot web url")
    await again.goto(scene.web.surface.address())
    await expect(box(again)).to_have_attribute("placeholder", "Write to Ollim")
