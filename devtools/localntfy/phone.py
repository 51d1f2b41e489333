"""A phone with the ntfy app: it shows notifications and presses their buttons."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp

from devtools.localntfy.protocol import CLEAR, DELETE, MESSAGE, Changes, Json

_RETRY = 5.0
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Notification:
    """What the phone shows; `id` is the server's, `sequence_id` equals it if none was given."""

    id: str
    sequence_id: str
    title: str
    text: str
    priority: int
    tags: tuple[str, ...]
    click: str
    actions: tuple[Json, ...]

    @property
    def labels(self) -> list[str]:
        return [str(each["label"]) for each in self.actions]

    def action(self, label: str) -> Json:
        for each in self.actions:
            if each["label"] == label:
                return each
        raise LookupError(f"There is no button {label!r} below {self.text!r}.")


class Phone:
    """Follows a topic while its context is open, and comes back after each break.

    An Android replaces what has the same sequence id, and clears and deletes; an iPhone does
    neither. `shown` is what is in the drawer; `received` counts what rang, repeats included.
    """

    def __init__(
        self, url: str, topic: str, *, token: str = "", is_iphone: bool = False, name: str = "phone"
    ) -> None:
        self.changes = Changes()
        self.shown: list[Notification] = []
        self.received = 0
        self._address = f"{url}/{topic}/json"
        self._is_iphone = is_iphone
        self._name = name
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._last_id = ""
        self._known: set[str] = set()
        self._is_connected = False

    async def __aenter__(self) -> Self:
        # The server counts its limits by address, and a phone has another one than the bot.
        self._session = aiohttp.ClientSession(
            headers={"X-Forwarded-For": self._name}, read_bufsize=_LONGEST_LINE
        )
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._following.cancel()
        await asyncio.wait([self._following])
        await self._session.close()

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.shown]

    async def until(self, is_so: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for the condition; raises `TimeoutError` with what is shown."""
        try:
            await self.changes.until(is_so, seconds)
        except TimeoutError:
            raise TimeoutError(f"It did not come to be so; the phone shows {self.shown}") from None

    async def connected(self) -> None:
        await self.until(lambda: self._is_connected)

    async def shows(self, *words: str) -> None:
        """Wait until exactly these are shown, oldest first, each by its title or its text."""

        def is_so() -> bool:
            pairs = zip(words, self.shown, strict=False)
            found = [word in (each.title, each.text) for word, each in pairs]
            return len(words) == len(self.shown) and all(found)

        await self.until(is_so)

    def swipe(self, notification: Notification) -> None:
        """Dismiss it; nothing tells the server."""
        self.shown.remove(notification)
        self.changes.tell()

    async def press(self, notification: Notification, label: str) -> int:
        """Do what the button says; return the status of its request, 0 if nothing answered.

        A button that opens an address or sends a broadcast has the status 200.
        """
        action = notification.action(label)
        status = 200
        if action["action"] == "http":
            status = await self._request(action)
        if action.get("clear") and status < 300 and status and notification in self.shown:
            self.swipe(notification)
        return status

    async def _request(self, action: Json) -> int:
        method, body = action.get("method", "POST"), action.get("body", "")
        headers = action.get("headers", {})
        with suppress(aiohttp.ClientError):
            async with self._session.request(
                method, action["url"], data=body.encode(), headers=headers
            ) as answer:
                return answer.status
        return 0

    async def _follow(self) -> None:
        while True:
            with suppress(aiohttp.ClientError, ValueError):
                await self._listen()
            self._is_connected = False
            self.changes.tell()
            await asyncio.sleep(_RETRY)

    async def _listen(self) -> None:
        since = {"since": self._last_id or "all"}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
        async with self._session.get(
            self._address, params=since, headers=self._headers, timeout=timeout
        ) as answer:
            if answer.status == 200:
                self._is_connected = True
                self.changes.tell()
                async for line in answer.content:
                    self._take(json.loads(line))

    def _take(self, event: Json) -> None:
        kind = event["event"]
        if kind in (MESSAGE, CLEAR, DELETE):
            self._last_id = event["id"]
        if kind == MESSAGE:
            self._show(_notification(event))
        elif kind in (CLEAR, DELETE) and not self._is_iphone:
            gone = event.get("sequence_id")
            self.shown = [each for each in self.shown if each.sequence_id != gone]
        self.changes.tell()

    def _show(self, new: Notification) -> None:
        if new.id in self._known:
            return
        self._known.add(new.id)
        self.received += 1
        places = [each.sequence_id for each in self.shown]
        if not self._is_iphone and new.sequence_id in places:
            self.shown[places.index(new.sequence_id)] = new
        else:
            self.shown.append(new)


def _notification(event: Json) -> Notification:
    return Notification(
        event["id"],
        event.get("sequence_id") or event["id"],
        event.get("title", ""),
        event.get("message", ""),
        event.get("priority", 3),
        tuple(event.get("tags", [])),
        event.get("click", ""),
        tuple(event.get("actions", [])),
    )
