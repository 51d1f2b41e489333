"""Looks at everything that a tool server sends before any library does.

The sizes are looked at first. A long message is reduced in a process of its own, so that nothing a
server sends holds up the bot; a server that sends too much is given up.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx2

from ollim_bot.kernel.base.errors import ToolServerFailed
from ollim_bot.kernel.values import server_messages
from ollim_bot.kernel.values.server_messages import LEFT_OUT, reduce_message

# A picture in a result may be as long as this.
LONGEST_MESSAGE = 8 * 1024 * 1024
# A longer message is not parsed by the bot itself. This one takes some milliseconds.
_LONGEST_PARSED_HERE = 32 * 1024
_LIST_CHANGED = "notifications/tools/list_changed"
_JSON, _EVENTS = "application/json", "text/event-stream"
_MOST_LINES = 1000
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class Allowance:
    """An amount that may be spent at once, and comes back little by little."""

    def __init__(self, at_once: float, each_second: float) -> None:
        self._left = self._most = at_once
        self._each_second = each_second
        self._seen = asyncio.get_running_loop().time()

    def spend(self, amount: float) -> bool:
        """Whether there was enough."""
        now = asyncio.get_running_loop().time()
        self._left = min(self._most, self._left + (now - self._seen) * self._each_second) - amount
        self._seen = now
        return self._left >= 0


class Screen:
    """Screens what one server sends. `note_change` is called when its tools may have changed.

    `give_up` is called with the reason, once, when the server has sent too much.
    `left_out` has the reason for each tool of the last listing that cannot be offered.
    """

    def __init__(self, note_change: Callable[[], None], give_up: Callable[[str], None]) -> None:
        self.left_out: Mapping[str, str] = {}
        self._note_change = note_change
        self._give_up = give_up
        self._odd = Allowance(100, 1)
        self._messages = Allowance(2000, 200)
        self._bytes = Allowance(4 * LONGEST_MESSAGE, 1024 * 1024)

    def count_bytes(self, number: int) -> None:
        """Raises `ToolServerFailed` if too many have come."""
        if not self._bytes.spend(number):
            self.refuse("sends more than can be read.")

    def count_odd(self, number: float = 1) -> None:
        """Count lines that are no messages. Raises `ToolServerFailed` if too many have come."""
        if not self._odd.spend(number):
            self.refuse("prints lines that are no messages.")

    def refuse(self, reason: str) -> None:
        """Give the server up. Raises `ToolServerFailed`."""
        self._give_up(reason)
        raise ToolServerFailed(reason)

    async def screened(self, raw: bytes) -> dict[str, Any] | None:
        """The reduced message for the library; None if it needs none.

        Raises `ToolServerFailed` if the server sends too much.
        """
        if not self._messages.spend(1):
            self.refuse("sends more messages than it was asked for.")
        if len(raw) > LONGEST_MESSAGE:
            self.refuse(f"sent a message of more than {LONGEST_MESSAGE // 1024**2} MB.")
        is_short = len(raw) <= _LONGEST_PARSED_HERE
        message = reduce_message(raw) if is_short else await self._reduced_elsewhere(raw)
        if message is None:
            self.count_odd()
            return None
        if "method" in message and "id" not in message:
            if message["method"] == _LIST_CHANGED:
                self._note_change()
            return None
        result = message.get("result", {})
        if LEFT_OUT in result:
            self.left_out = result.pop(LEFT_OUT)
        return message

    async def _reduced_elsewhere(self, raw: bytes) -> dict[str, Any] | None:
        # The process limits its own time and memory, however busy the machine is.
        command = (sys.executable, "-I", "-S", server_messages.__file__)
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=nowhere, env={}
        )
        try:
            reduced, _ = await process.communicate(raw)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            self.refuse("sent a message that takes too long to read.")
        # Longer than one parsed here, but nothing in it is larger than a listing may be.
        found: dict[str, Any] | None = json.loads(reduced)
        return found


async def screen_response(screen: Screen, response: httpx2.Response) -> None:
    """Let the library read only screened messages from the response.

    Raises `ToolServerFailed` if the response is packed: what it unpacks to has any size.
    """
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        screen.refuse("packs its answers, which nobody asked for.")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    kind = response.headers.get("content-type", "").lower()
    response.stream = _ScreenedBody(response.stream, screen, kind)


class _ScreenedBody(httpx2.AsyncByteStream):
    """A body that the library may read whole. A body that is no message is empty."""

    def __init__(self, body: httpx2.AsyncByteStream, screen: Screen, kind: str) -> None:
        self._body = body
        self._screen = screen
        self._kind = kind

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._kind.startswith(_JSON):
            whole = bytearray()
            async for block in self._blocks():
                whole += block
                if len(whole) > LONGEST_MESSAGE:
                    break
            message = await self._screen.screened(bytes(whole))
            yield (b"" if message is None else json.dumps(message).encode())
        elif self._kind.startswith(_EVENTS):
            async for event in self._events():
                yield event

    async def aclose(self) -> None:
        await self._body.aclose()

    async def _blocks(self) -> AsyncIterator[bytes]:
        async for block in self._body:
            self._screen.count_bytes(len(block))
            yield block
            await asyncio.sleep(0)

    async def _events(self) -> AsyncIterator[bytes]:
        waiting, seen = bytearray(), 0
        async for block in self._blocks():
            waiting += block
            begin = 0
            while found := _BLANK_LINE.search(waiting, max(begin, seen)):
                yield await self._event(bytes(waiting[begin : found.start()]))
                begin = found.end()
            del waiting[:begin]
            if len(waiting) > LONGEST_MESSAGE:
                await self._screen.screened(bytes(waiting))
            # The blank line may have begun at the end of what was seen.
            seen = max(0, len(waiting) - 3)

    async def _event(self, event: bytes) -> bytes:
        """The event with its message screened; empty if it has none."""
        if event.count(b"\n") + event.count(b"\r") > _MOST_LINES:
            self._screen.refuse("sends events of too many lines.")
        lines = event.splitlines()
        data = [line.partition(b":")[2].strip() for line in lines if line.startswith(b"data:")]
        others = [line for line in lines if line.startswith((b"id:", b"event:"))]
        message = await self._screen.screened(b"\n".join(data)) if any(data) else None
        if message is not None:
            others.append(b"data: " + json.dumps(message).encode())
        elif not any(data):
            self._screen.count_odd(0.1)
        return b"\n".join([*others, b"", b""]) if others else b""
