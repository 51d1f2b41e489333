"""The real page in a real browser, with a fake core behind its server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, timedelta
from urllib.parse import urlsplit
from uuid import uuid4

from playwright.async_api import (
    ConsoleMessage,
    Locator,
    Page,
    WebSocket,
    expect,
)
from tests.browser.served import ServedContext

from ollim_bot.clock import SystemClock
from ollim_bot.domain.chat import Author, ChatMessage, MessageId

_SERVER_GONE = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "WebSocket")

_READY = re.compile("^Write (to Ollim|in the side conversation)$")

_HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {get: () => hidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


class Stage:
    """What the browser complains about, and whom it asks, is looked at when the test is over."""

    def __init__(self, served: ServedContext) -> None:
        self.scene = served.new_scene()
        self.context = served.context
        self.core = self.scene.reception
        self.asked: set[str] = set()
        self.complaints: list[str] = []
        self._expected: list[str] = []
        self._served = served
        self._listeners: Mapping[str, Callable[..., None]] = {
            "request": lambda request: self._asks(request.url),
            "console": self._heard,
            "weberror": lambda error: self.complaints.append(str(error.error)),
        }
        for event, listener in self._listeners.items():
            self.context.on(event, listener)  # type: ignore[call-overload]

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.scene.surface.port}"

    @property
    def commands(self) -> list[str]:
        """The lines that were run."""
        return [line for _, line in self.core.lines]

    async def start(self) -> None:
        await self._served.start()

    async def stop(self) -> None:
        await self._served.stop()

    @asynccontextmanager
    async def without_server(self) -> AsyncIterator[None]:
        """It is gone, and comes back at the same port."""
        self._expected.extend(_SERVER_GONE)
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    def expect_complaint(self, part: str) -> None:
        """A request that is refused is noted by the browser as an error."""
        self._expected.append(part)

    async def open(self, **options: int) -> Page:
        page = await self._served.tab()
        page.on("websocket", self._hears_of)
        if options:
            await page.set_viewport_size({"width": options["width"], "height": options["height"]})
        await page.goto(self._served.address())
        await expect(box(page)).to_have_attribute("placeholder", _READY)
        self._served.is_known = True
        return page

    async def past(
        self, text: str, author: Author = Author.ASSISTANT, *, minutes: float = 0
    ) -> ChatMessage:
        """A message of so many minutes ago."""
        at = SystemClock(UTC).now() - timedelta(minutes=minutes)
        message = ChatMessage(MessageId(f"past-{uuid4()}"), at, author, text)
        await self.core.post(message)
        return message

    async def long_past(self, count: int = 60) -> None:
        for number in range(count):
            author = Author.ASSISTANT if number % 2 else Author.OWNER
            await self.past(f"old message {number}", author, minutes=count - number)

    def check(self) -> None:
        expected = "|".join(map(re.escape, self._expected)) or "^$"
        assert [text for text in self.complaints if not re.search(expected, text)] == []
        assert self.asked <= {self.host}

    def leave(self) -> None:
        """Hear nothing more of the browser."""
        for event, listener in self._listeners.items():
            self.context.remove_listener(event, listener)
        for page in self.context.pages:
            with suppress(KeyError):
                page.remove_listener("websocket", self._hears_of)

    def _hears_of(self, socket: WebSocket) -> None:
        self._asks(socket.url)

    def _asks(self, url: str) -> None:
        if not url.startswith(("blob:", "data:")):
            self.asked.add(urlsplit(url).netloc)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@contextmanager
def staged(served: ServedContext) -> Iterator[Stage]:
    """The context for one test; what the browser complained about is an error then."""
    stage = Stage(served)
    try:
        yield stage
        stage.check()
    finally:
        stage.leave()


def box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message")


def messages(page: Page) -> Locator:
    return page.get_by_role("log").get_by_role("article")


def message(page: Page, text: str) -> Locator:
    return messages(page).filter(has_text=text)


def sent(page: Page, text: str) -> Locator:
    """A message that has arrived, and is not only on its way."""
    return message(page, text).filter(has=page.get_by_role("button", name="Reply"))


def texts(page: Page) -> Locator:
    return messages(page).locator(".body")


async def listen(page: Page) -> None:
    """Write down what is announced from now on."""
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
    """Headless pages are never hidden, so the page is told that it is."""
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
