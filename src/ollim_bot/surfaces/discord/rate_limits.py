"""Keeps edits within Discord's rate limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
import yarl

UNKNOWN_PAUSE = 1.2
# With a limit of one call at a time, optional edits are left out.
NEVER = 3600.0

_METHODS = frozenset({"POST", "PATCH"})


@dataclass(frozen=True, slots=True)
class _Window:
    limit: int
    remaining: int
    told_at: float
    reset_at: float

    def next_edit(self, now: float, in_flight: int) -> float:
        """When the next optional edit may go and still leave one call for an important message."""
        if self.limit <= 1:
            return now + NEVER
        if now >= self.reset_at:
            return now if self.limit - in_flight > 1 else now + UNKNOWN_PAUSE
        left = max(1, self.remaining - in_flight)
        return self.told_at + (self.reset_at - self.told_at) / left


class EditAllowance:
    """Tracks what Discord allows to be sent and edited in a channel.

    Discord counts the two apart, but discord.py queues them together, so the tighter limit counts.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._windows: dict[str, _Window] = {}
        self._in_flight = 0
        self._unknown_until = monotonic() + UNKNOWN_PAUSE
        self._uncertain_calls = 0

    @property
    def uncertain_calls(self) -> int:
        """How many calls failed with an unknown outcome; discord.py repeats some of them."""
        return self._uncertain_calls

    def pause(self) -> float:
        """How many seconds an optional edit should still wait; 0 if it may go now.

        Discord then accepts it, with room left for an important call. Ask again after waiting:
        other calls may have used the room.
        """
        now = self._monotonic()
        if not self._windows:
            return max(0.0, self._unknown_until - now)
        return max(each.next_edit(now, self._in_flight) - now for each in self._windows.values())

    def began(self) -> None:
        self._in_flight += 1

    def answered(self, method: str, status: int, headers: Mapping[str, str]) -> None:
        self._in_flight -= 1
        self._uncertain_calls += status >= 500
        now = self._monotonic()
        window = _window(headers, now)
        if window is not None:
            self._windows[method] = window
        elif not self._windows:
            self._unknown_until = now + UNKNOWN_PAUSE

    def failed(self, error: BaseException) -> None:
        self._in_flight -= 1
        self._uncertain_calls += not isinstance(error, aiohttp.ClientConnectorError)

    def trace(self) -> aiohttp.TraceConfig:
        """A trace for one client, which reports all that the client sends and edits."""
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._on_start)
        trace.on_request_end.append(self._on_end)
        trace.on_request_exception.append(self._on_exception)
        return trace

    async def _on_start(
        self, _: object, __: object, request: aiohttp.TraceRequestStartParams
    ) -> None:
        if _is_about_messages(request.method, request.url):
            self.began()

    async def _on_end(self, _: object, __: object, request: aiohttp.TraceRequestEndParams) -> None:
        if _is_about_messages(request.method, request.url):
            self.answered(request.method, request.response.status, request.response.headers)

    async def _on_exception(
        self, _: object, __: object, request: aiohttp.TraceRequestExceptionParams
    ) -> None:
        if _is_about_messages(request.method, request.url):
            self.failed(request.exception)


def _is_about_messages(method: str, url: yarl.URL) -> bool:
    """`…/channels/<id>/messages` or `…/channels/<id>/messages/<id>`."""
    return method in _METHODS and "messages" in url.parts[-2:] and "channels" in url.parts


def _window(headers: Mapping[str, str], now: float) -> _Window | None:
    try:
        return _Window(
            limit=int(headers["X-RateLimit-Limit"]),
            remaining=int(headers["X-RateLimit-Remaining"]),
            told_at=now,
            reset_at=now + float(headers["X-RateLimit-Reset-After"]),
        )
    except (KeyError, ValueError):
        return None
