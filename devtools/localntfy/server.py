"""The local ntfy: one server on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler

from devtools.localdiscord.faults import (
    AnswerHanging,
    AnswerLost,
    Delayed,
    Dropped,
    Faults,
    Hanging,
)
from devtools.localntfy.access import READ, WRITE, Access, Limits
from devtools.localntfy.drafts import Draft, DraftReader
from devtools.localntfy.protocol import (
    CLEAR,
    DELETE,
    Changes,
    Message,
    NtfyError,
    RawAnswer,
    Refusal,
    not_found,
    require_sequence,
    require_topic,
)
from devtools.localntfy.topics import Subscription, Topics
from devtools.loopback import LoopbackServer

Fault = Refusal | RawAnswer | Dropped | AnswerLost | Delayed | Hanging | AnswerHanging
_KEPT = 12 * 3600.0
_KEEPALIVE = 45.0
_LARGEST_REQUEST = 64 * 1024 * 1024
_LINES = {"Content-Type": "application/x-ndjson; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """`status` is 0 without an answer; `token` is what the caller gave, empty without one."""

    method: str
    path: str
    query: str
    status: int
    token: str
    body: bytes

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def _wall_clock() -> datetime:
    """The time of the machine, and ahead of it as far as the time of the loop is."""
    ahead = asyncio.get_running_loop().time() - time.monotonic()
    return datetime.now(UTC) + timedelta(seconds=ahead)


class LocalNtfy:
    """Serves while its context is open. `now` may be a test's clock, which is only read.

    `access` gives out tokens and closes topics; `limits` are those of the public server;
    `topics` has what was published. A server before 2.16 knows no `sequence_id`. There is neither
    scheduled delivery nor e-mail, calls, templates, web sockets or server-sent events.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        now: Callable[[], datetime] = _wall_clock,
        version: tuple[int, int] = (2, 16),
        keep_seconds: float = _KEPT,
        keepalive_seconds: float = _KEEPALIVE,
        takes_attachments: bool = True,
    ) -> None:
        self.changes = Changes()
        self.access = Access()
        self.limits = Limits(now)
        self.topics = Topics(now, keep_seconds, self.changes)
        self.requests: list[RecordedRequest] = []
        self.line_delay = 0.0
        self._has_sequences = version >= (2, 16)
        self._reader = DraftReader(
            knows_sequences=self._has_sequences, takes_attachments=takes_attachments
        )
        self._keepalive_seconds = keepalive_seconds
        self._faults: Faults[Fault] = Faults()
        self._reopening: asyncio.Task[None] | None = None
        self._server = LoopbackServer(self._app(), port)

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reopening is not None:
            self._reopening.cancel()
        self.drop_streams()
        await self._server.close()

    @property
    def url(self) -> str:
        return self._server.url

    def published(self, topic: str) -> list[Message]:
        """All that the topic ever got, oldest first."""
        return [each for each in self.topics.published if each.topic == topic]

    def write(self, topic: str, text: str, **details: object) -> Message:
        """Publish as a stranger does who knows the topic, without limits."""
        return self.topics.publish(Draft(topic, text, details=details))

    def named(self, pattern: str) -> list[RecordedRequest]:
        """The requests with this name, such as `POST /`."""
        return [each for each in self.requests if each.name == pattern]

    async def until(self, is_so: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for the condition; raises `TimeoutError`."""
        await self.changes.until(is_so, seconds)

    async def followed(self, topic: str) -> None:
        """Wait until somebody has a stream of the topic."""
        await self.until(lambda: any(topic in each.topics for each in self.topics.followers))

    def next_fail(self, pattern: str, fault: Fault | int, times: int | None = 1) -> None:
        """Let the next `times` requests that match fail; all until `mend` if None.

        Patterns are such as `POST /`, `GET /*/json`, `*`.
        """
        self._faults.order(pattern, Refusal(fault) if isinstance(fault, int) else fault, times)

    @property
    def faults_left(self) -> Sequence[str]:
        """The patterns of the faults that are still to come."""
        return self._faults.left

    def mend(self) -> None:
        self._faults.clear()

    async def refuse_connections(self) -> None:
        """Act as without a network: break open connections and accept no new ones."""
        self.drop_streams()
        await self._server.shut()

    async def accept_again(self) -> None:
        await self._server.open()

    async def go_away(self, seconds: float) -> None:
        """Be out of reach from now on for so many seconds."""
        await self.refuse_connections()

        async def reopen() -> None:
            await asyncio.sleep(seconds)
            await self.accept_again()

        self._reopening = asyncio.create_task(reopen())

    async def restart(self, *, is_cache_kept: bool = False) -> None:
        """Break all connections, and forget the messages if the cache is only in memory."""
        await self.refuse_connections()
        if not is_cache_kept:
            self.topics.forget()
        self.limits.reset()
        await self.accept_again()

    def drop_streams(self) -> None:
        """End all streams; followers may come back."""
        for each in self.topics.followers:
            each.put(None)

    def mute_streams(self) -> None:
        """Keep the current streams open without sending anything; new ones work."""
        for each in self.topics.followers:
            each.is_mute = True

    def _app(self) -> web.Application:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._recorded(request, handler)

        app = web.Application(client_max_size=_LARGEST_REQUEST, middlewares=[middleware])
        app.router.add_get("/v1/health", self._health)
        app.router.add_post("/", self._publish_json)
        app.router.add_post("/{topic}", self._publish)
        app.router.add_get("/{topics}/json", self._subscribe)
        if self._has_sequences:
            app.router.add_put("/{topic}/{sequence}/clear", self._teller(CLEAR))
            app.router.add_delete("/{topic}/{sequence}", self._teller(DELETE))
        app.router.add_route("*", "/{path:.*}", self._nothing)
        return app

    async def _recorded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        body = await request.read()
        status = 0
        try:
            response, is_lost = await self._with_fault(request, handler)
            status = 0 if is_lost else response.status
        finally:
            _, _, token = request.headers.get("Authorization", "").partition(" ")
            self.requests.append(
                RecordedRequest(
                    request.method, request.path, request.query_string, status, token, body
                )
            )
            self.changes.tell()
        if is_lost and request.transport is not None:
            request.transport.abort()
        return response

    async def _with_fault(
        self, request: web.Request, handler: Handler
    ) -> tuple[web.StreamResponse, bool]:
        fault = self._faults.next_for(f"{request.method} {request.path}")
        match fault:
            case Refusal():
                return fault.response(), False
            case RawAnswer():
                return web.Response(
                    body=fault.body, status=fault.status, headers=fault.headers
                ), False
            case Dropped():
                return web.Response(), True
            case Hanging():
                await asyncio.Event().wait()
            case Delayed(seconds):
                await asyncio.sleep(seconds)
        response = await self._answered(request, handler)
        if isinstance(fault, AnswerHanging):
            await asyncio.Event().wait()
        return response, isinstance(fault, AnswerLost)

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self.limits.take_request(self._visitor(request))
            return await handler(request)
        except NtfyError as refused:
            return refused.response()

    def _token(self, request: web.Request) -> str:
        authorization = request.headers.get("Authorization", "")
        return self.access.token_of(authorization, request.query.get("auth", ""))

    def _visitor(self, request: web.Request) -> str:
        """Limits count by token, else by address, which a proxy may give."""
        address = request.headers.get("X-Forwarded-For") or request.remote or ""
        return self._token(request) or address

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"healthy": True})

    async def _nothing(self, _: web.Request) -> web.Response:
        raise not_found()

    async def _publish_json(self, request: web.Request) -> web.Response:
        draft = self._reader.from_json(await request.read())
        return self._accept(request, draft)

    async def _publish(self, request: web.Request) -> web.Response:
        draft = self._reader.from_body(request.match_info["topic"], await request.read())
        return self._accept(request, draft)

    def _accept(self, request: web.Request, draft: Draft) -> web.Response:
        self._take_message(request, draft.topic)
        return web.json_response(self.topics.publish(draft).payload)

    def _teller(self, event: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def tell(request: web.Request) -> web.Response:
            topic = require_topic(request.match_info["topic"])
            sequence = require_sequence(request.match_info["sequence"])
            self._take_message(request, topic)
            return web.json_response(self.topics.tell(topic, event, sequence).payload)

        return tell

    def _take_message(self, request: web.Request, topic: str) -> None:
        self.access.require(self._token(request), topic, WRITE)
        self.limits.take_message(self._visitor(request))

    async def _subscribe(self, request: web.Request) -> web.StreamResponse:
        topics = [require_topic(each) for each in request.match_info["topics"].split(",")]
        token = self._token(request)
        for topic in topics:
            self.access.require(token, topic, READ)
        is_poll = request.query.get("poll") == "1"
        since = request.query.get("since") or ("all" if is_poll else "none")
        kept = self.topics.kept(topics, since)
        if is_poll:
            text = "".join(_line(each) for each in kept)
            return web.Response(body=text.encode(), headers=_LINES)
        return await self._stream(request, topics, kept)

    async def _stream(
        self, request: web.Request, topics: Sequence[str], kept: Sequence[Message]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_LINES)
        subscription = self.topics.follow(topics)
        try:
            await response.prepare(request)
            for each in (self.topics.opening(topics), *kept):
                await self._send(response, each)
            await self._follow(response, subscription)
        except ConnectionError:
            pass  # the follower is gone
        finally:
            self.topics.unfollow(subscription)
        return response

    async def _follow(self, response: web.StreamResponse, subscription: Subscription) -> None:
        """Send what comes, and a sign of life when nothing does."""
        while True:
            message: Message | None
            try:
                async with asyncio.timeout(self._keepalive_seconds):
                    message = await subscription.queue.get()
            except TimeoutError:
                if subscription.is_mute:
                    continue
                message = self.topics.keepalive(subscription.topics)
            if message is None:
                return
            await self._send(response, message)

    async def _send(self, response: web.StreamResponse, message: Message) -> None:
        if self.line_delay:
            await asyncio.sleep(self.line_delay)
        await response.write(_line(message).encode())


def _line(message: Message) -> str:
    return json.dumps(message.payload, ensure_ascii=False, separators=(",", ":")) + "\n"
