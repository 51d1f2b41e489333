"""A web server on loopback with the calendars of the owner, which change and fail as told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import TracebackType
from typing import Self

from aiohttp import web

from chaos.calendar_invariants import SECRET_PATH


class FeedFault(StrEnum):
    """How a calendar fails."""

    AWAY = "away"
    GARBAGE = "answers garbage"
    CUT_OFF = "is cut off"
    SLOW = "is slow"
    HANGS = "hangs"


_HOST = "127.0.0.1"
_SLOW_SECONDS = 1.5
_GARBAGE = (b"\xff\xfe\x00BEGIN", b"<!doctype html><title>Sign in</title>", b"")


@dataclass(frozen=True, slots=True)
class FeedVersion:
    """The calendar as it was at one time, with the titles of its events, which begin at `start`."""

    feed: str
    number: int
    titles: Sequence[str]
    start: datetime

    @property
    def etag(self) -> str:
        return f'"{self.feed}v{self.number}"'

    @property
    def text(self) -> bytes:
        events = "".join(_event(title, self.start) for title in self.titles)
        whole = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:chaos\n{events}END:VCALENDAR\n"
        return whole.replace("\n", "\r\n").encode()


class CalendarServer:
    """Serves each feed at its own secret address while its context is open.

    `hits` has the faults that a reader of a calendar has met.
    """

    def __init__(self) -> None:
        self.hits: list[str] = []
        self._newest: dict[str, FeedVersion] = {}
        self._faults: dict[str, FeedFault] = {}
        self._is_mended = asyncio.Event()
        self._port = 0
        app = web.Application()
        app.router.add_get(f"/{SECRET_PATH}{{feed}}/basic.ics", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.mend()
        await self._runner.cleanup()

    def address(self, feed: str) -> str:
        return f"http://{_HOST}:{self._port}/{SECRET_PATH}{feed}/basic.ics"

    def offer(self, feed: str, events: int) -> FeedVersion:
        """Replace all events of the feed by so many new ones."""
        number = self._newest[feed].number + 1 if feed in self._newest else 1
        titles = [f"Meeting {feed}v{number}n{each}" for each in range(events)]
        start = datetime.now(UTC) + timedelta(days=1)
        self._newest[feed] = FeedVersion(feed, number, titles, start)
        return self._newest[feed]

    def newest(self, feed: str) -> FeedVersion:
        return self._newest[feed]

    def fail(self, feed: str, fault: FeedFault) -> None:
        """Let each reading of the feed meet the fault, until `mend`."""
        self._faults[feed] = fault

    def is_readable(self, feed: str) -> bool:
        return self._faults.get(feed) in (None, FeedFault.SLOW)

    def mend(self) -> None:
        """End all faults; a request that hangs is dropped."""
        self._faults.clear()
        self._is_mended.set()
        self._is_mended = asyncio.Event()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        version = self._newest[request.match_info["feed"]]
        fault = self._faults.get(version.feed)
        if fault is not None:
            self.hits.append(f"calendar {fault}")
        match fault:
            case FeedFault.AWAY if version.number % 2:
                return web.Response(status=503)
            case FeedFault.AWAY:
                return _drop(request)
            case FeedFault.GARBAGE:
                return web.Response(body=_GARBAGE[version.number % len(_GARBAGE)])
            case FeedFault.CUT_OFF:
                return await _send_half(request, version.text)
            case FeedFault.HANGS:
                await self._is_mended.wait()
                return _drop(request)
            case FeedFault.SLOW:
                await asyncio.sleep(_SLOW_SECONDS)
                version = self._newest[version.feed]
        if request.headers.get("If-None-Match") == version.etag:
            return web.Response(status=304)
        return web.Response(body=version.text, headers={"ETag": version.etag})


def _event(title: str, start: datetime) -> str:
    return (
        f"BEGIN:VEVENT\nUID:{title.partition(' ')[2]}@example.org\n"
        f"DTSTART:{start:%Y%m%dT%H%M%SZ}\nDURATION:PT1H\nSUMMARY:{title}\nEND:VEVENT\n"
    )


def _drop(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _send_half(request: web.Request, text: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": str(len(text))})
    await response.prepare(request)
    await response.write(text[: len(text) // 2])
    if request.transport is not None:
        request.transport.close()
    return response
