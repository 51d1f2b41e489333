"""The real page in a real browser, with a fake core behind its server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, timedelta
from urllib.parse import urlsplit
from uuid import uuid4

from playwright.async_api import ConsoleMessage, Locator, Page, WebSocket, expect
from tests.browser.served import ServedContext

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author, ChatMessage

_SERVER_GONE = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "WebSocket")

_READY = re.compile("^Write (to Ollim|here)$")

_HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {get: () => hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


class PageScene:
    """The page with its server. `check` looks at the browser's errors and at the hosts it asked."""

    def __init__(self, served: ServedContext) -> None:
        self.web = served.new_scene()
        self.context = served.context
        self.core = self.web.reception
        self.requested_hosts: set[str] = set()
        self.browser_errors: list[str] = []
        self._expected: list[str] = []
        self._served = served
        self._listeners: Mapping[str, Callable[..., None]] = {
            "request": lambda request: self._note_request(request.url),
            "console": self._on_console,
            "weberror": lambda error: self.browser_errors.append(str(error.error)),
        }
        for event, listener in self._listeners.items():
            self.context.on(event, listener)  # type: ignore[call-overload]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.web.surface.port}"

    @property
    def commands(self) -> list[str]:
        """The command lines that the page sent."""
        return [line for _, line in self.core.lines]

    async def start(self) -> None:
        await self._served.start()

    async def stop(self) -> None:
        await self._served.stop()

    @asynccontextmanager
    async def without_server(self) -> AsyncIterator[None]:
        """Stop the server, and start it again at the same port."""
        self._expected.extend(_SERVER_GONE)
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    def expect_browser_error(self, part: str) -> None:
        """Allow an error that contains this text. Browsers report a refused request as an error."""
        self._expected.append(part)

    async def open(self, **options: int) -> Page:
        page = await self._served.tab()
        page.on("websocket", self._on_socket)
        if options:
            await page.set_viewport_size({"width": options["width"], "height": options["height"]})
        await page.goto(self._served.address())
        await expect(box(page)).to_have_attribute("placeholder", _READY)
        self._served.is_known = True
        return page

    async def post_old(
        self, text: str, author: Author = Author.ASSISTANT, *, minutes: float = 0
    ) -> ChatMessage:
        """Post a message that was sent so many minutes ago."""
        at = SystemClock(UTC).now() - timedelta(minutes=minutes)
        message = ChatMessage(MessageId(f"past-{uuid4()}"), at, author, text)
        await self.core.post(message)
        return message

    async def post_many_old(self, count: int = 60) -> None:
        for number in range(count):
            author = Author.ASSISTANT if number % 2 else Author.OWNER
            await self.post_old(f"old message {number}", author, minutes=count - number)

    def check(self) -> None:
        expected = "|".join(map(re.escape, self._expected)) or "^$"
        assert [text for text in self.browser_errors if not re.search(expected, text)] == []
        assert self.requested_hosts <= {self.host}

    def stop_listening(self) -> None:
        """Remove all listeners from the browser context."""
        for event, listener in self._listeners.items():
            self.context.remove_listener(event, listener)
        for page in self.context.pages:
            with suppress(KeyError):
                page.remove_listener("websocket", self._on_socket)

    def _on_socket(self, socket: WebSocket) -> None:
        self._note_request(socket.url)

    def _note_request(self, url: str) -> None:
        if not url.startswith(("blob:", "data:")):
            self.requested_hosts.add(urlsplit(url).netloc)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.browser_errors.append(message.text)


@contextmanager
def checked_scene(served: ServedContext) -> Iterator[PageScene]:
    """A scene for one test. Unexpected errors of the browser fail the test."""
    scene = PageScene(served)
    try:
        yield scene
        scene.check()
    finally:
        scene.stop_listening()


def box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def messages(page: Page) -> Locator:
    return page.get_by_role("log").get_by_role("article")


def message(page: Page, text: str) -> Locator:
    return messages(page).filter(has_text=text)


def sent(page: Page, text: str) -> Locator:
    """A message that the server has confirmed."""
    return message(page, text).filter(has=page.get_by_role("button", name="Reply"))


def texts(page: Page) -> Locator:
    return messages(page).locator(".body")


async def listen(page: Page) -> None:
    """Record all announcements from now on."""
    await page.evaluate("""() => {
        window.announced = [];
        new MutationObserver((records) => {
            const nodes = records.flatMap((record) => [...record.addedNodes]);
            announced.push(...nodes.map((node) => node.textContent));
        }).observe(document.getElementById("announcer"), {childList: true, subtree: true});
    }""")


async def announced(page: Page) -> list[str]:
    heard: list[str] = await page.evaluate("announced")
    return heard


async def send(page: Page, text: str) -> None:
    await box(page).fill(text)
    await box(page).press("Enter")


async def set_hidden(page: Page, hidden: bool) -> None:
    """Set `document.hidden`, since a headless page is never hidden."""
    await page.evaluate(_HIDE, hidden)


async def scroll_to(page: Page, top: int) -> None:
    await page.locator("#scroller").evaluate("(it, top) => { it.scrollTop = top }", top)


async def scroll_top(page: Page) -> float:
    top = await page.locator("#scroller").evaluate("it => it.scrollTop")
    assert isinstance(top, (int, float))
    return top


async def is_at_end(page: Page) -> bool:
    rest = await page.locator("#scroller").evaluate(
        "it => it.scrollHeight - it.scrollTop - it.clientHeight"
    )
    return bool(rest <= 1)
