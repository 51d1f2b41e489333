"""The local Discord: one server on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from aiohttp.typedefs import Handler

from devtools.localdiscord.faults import (
    AnswerHanging,
    AnswerLost,
    Banned,
    Buckets,
    Delayed,
    Dropped,
    ErrorResponse,
    Fault,
    Faults,
    Hanging,
)
from devtools.localdiscord.gateway import PRIVILEGED, Gateway, Identity
from devtools.localdiscord.interactions import Interaction, InteractionResponses
from devtools.localdiscord.messages import MessagePayloads, MessageService
from devtools.localdiscord.owner import OwnerActions
from devtools.localdiscord.routes import (
    Commands,
    InteractionRoutes,
    Routes,
    answer,
    nothing_there,
    refusal,
)
from devtools.localdiscord.state import DiscordState, Message
from devtools.localdiscord.validation import DiscordError, Json, not_found, unauthorized
from devtools.loopback import LoopbackServer

API = "/api/v10"
SOCKET = "/gateway"
_BAN = "<html>You are being blocked from accessing our API temporarily.</html>"
_OPEN_TO_ALL = ("/interactions/", "/webhooks/")
_LARGEST_REQUEST = 64 * 1024 * 1024
_ALL_INTENTS = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """`status` is 0 without an answer; `body` is None if it is not JSON."""

    method: str
    path: str
    status: int
    at: float
    body: Any = None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class FaultMiddleware:
    state: DiscordState
    buckets: Buckets
    faults: Faults[Fault]
    token: Callable[[], str]
    notes: list[RecordedRequest] = field(default_factory=list)

    async def handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        at = self.state.monotonic()
        body = await _json_of(request)
        fault = self.faults.next_for(_name(request))
        self.state.has_changed()
        status = 0
        try:
            response = await self._with_fault(request, handler, fault)
            if not isinstance(fault, AnswerLost | Dropped):
                status = response.status
        finally:
            path = request.path.removeprefix(API)
            self.notes.append(RecordedRequest(_method(request), path, status, at, body))
            self.state.has_changed()
        return response

    async def _with_fault(
        self, request: web.Request, handler: Handler, fault: Fault | None
    ) -> web.StreamResponse:
        if isinstance(fault, Dropped):
            return _broken(request)
        if isinstance(fault, Banned):
            return web.Response(status=429, text=_BAN, content_type="text/html")
        if isinstance(fault, Hanging):
            await asyncio.Event().wait()
        if isinstance(fault, Delayed):
            await asyncio.sleep(fault.seconds)
        response = await self._answer(request, handler, fault)
        if isinstance(fault, AnswerHanging):
            await asyncio.Event().wait()
        return _broken(request) if isinstance(fault, AnswerLost) else response

    async def _answer(
        self, request: web.Request, handler: Handler, fault: Fault | None
    ) -> web.StreamResponse:
        try:
            if isinstance(fault, ErrorResponse):
                raise _refused(fault)
            self._check_token(request)
            return await handler(request)
        except DiscordError as refused:
            return refusal(refused)

    def _check_token(self, request: web.Request) -> None:
        path = request.path.removeprefix(API)
        is_api = request.path.startswith(API) and path != SOCKET
        if is_api and not path.startswith(_OPEN_TO_ALL):
            if request.headers.get("Authorization") != f"Bot {self.token()}":
                raise unauthorized()
            self.buckets.take_global()


def _method(request: web.Request) -> str:
    return "WS" if request.path == SOCKET else request.method


def _name(request: web.Request) -> str:
    """The form that fault patterns match: `POST /channels/1/messages`, `WS /gateway`."""
    return f"{_method(request)} {request.path.removeprefix(API)}"


def _broken(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _refused(fault: ErrorResponse) -> DiscordError:
    return DiscordError(
        fault.status, fault.code, fault.message, after=fault.after, is_global=fault.is_global
    )


async def _json_of(request: web.Request) -> Any:
    if request.content_type != "application/json":
        return None
    try:
        return json.loads(await request.read())
    except ValueError:
        return None


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _wall_clock() -> datetime:
    """The time of the machine, and ahead of it as far as the time of the loop is."""
    return datetime.now(UTC) + timedelta(seconds=_loop_time() - time.monotonic())


def _new_token(bot_id: str) -> str:
    """In the shape of a real token, so that log redaction hides it."""
    owner = base64.urlsafe_b64encode(bot_id.encode()).decode().rstrip("=")
    return f"{owner}.{secrets.token_urlsafe(6)[:6]}.{secrets.token_urlsafe(38)[:38]}"


class LocalDiscord(OwnerActions):
    """Serves while its context is open.

    `now` and `monotonic` may be a test's clock, which is only read, never waited for. With
    `members`, the application belongs to a team of the owner and these.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        token: str | None = None,
        members: Sequence[str] | None = None,
        now: Callable[[], datetime] = _wall_clock,
        monotonic: Callable[[], float] = _loop_time,
        heartbeat_interval: float = 41.25,
        largest_file: int = 10 * 1024 * 1024,
        granted_intents: int = _ALL_INTENTS & ~PRIVILEGED,
    ) -> None:
        state = DiscordState(now, monotonic)
        owner, bot = state.new_user("owner"), state.new_user("ollim", is_bot=True)
        self.stranger = state.new_user("stranger")
        self.team = None if members is None else [owner, *(state.new_user(m) for m in members)]
        identity = Identity(bot, owner, state.new_id(), self.team)
        self.token = token or _new_token(bot.id)
        self.history_has_nonces = True
        self.buckets = Buckets(monotonic)
        self.gateway = Gateway(
            lambda: self.token,
            lambda session: identity.ready(session, self.gateway_url),
            state.new_id,
            state.has_changed,
            monotonic,
            heartbeat_interval,
            granted_intents,
        )
        payloads = MessagePayloads(state, bot, lambda: self.url, self._shows_nonce)
        messages = MessageService(state, payloads, self.buckets, self.gateway.tell)
        responses = InteractionResponses(state, messages, bot, lambda: secrets.token_urlsafe(48))
        commands = Commands()
        super().__init__(state, owner, bot, messages, responses, commands, self.gateway)
        self._routes = Routes(
            state, bot, messages, self.buckets, commands, identity.application, largest_file
        )
        self._middleware = FaultMiddleware(state, self.buckets, Faults(), lambda: self.token)
        app = self._app(InteractionRoutes(responses, self.buckets, largest_file))
        self._server = LoopbackServer(app, port)

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def api_url(self) -> str:
        return f"{self.url}{API}"

    @property
    def gateway_url(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}{SOCKET}"

    @property
    def messages(self) -> list[Message]:
        """The owner's direct messages from both sides, without deleted ones, oldest first."""
        return list(self.state.visible(self.state.dm_with(self.owner)))

    @property
    def said(self) -> list[Message]:
        """The bot's messages there, without deleted ones."""
        return [each for each in self.messages if each.author == self.bot]

    @property
    def texts(self) -> list[str]:
        """The current texts of the bot's messages there."""
        return [each.text for each in self.said]

    def message(self, message_id: str) -> Message:
        """The message, deleted or not."""
        return self.state.messages[message_id]

    @property
    def interactions(self) -> list[Interaction]:
        """All interactions that people began."""
        return list(self._responses.all.values())

    @property
    def commands(self) -> list[Json]:
        return self._commands.all

    @property
    def command_puts(self) -> int:
        return self._commands.puts

    @property
    def typing(self) -> list[tuple[str, float]]:
        """The channel and the moment of each typing notice of the bot."""
        return self._routes.typing

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests, with their outcomes."""
        return self._middleware.notes

    @property
    def rate_limited(self) -> int:
        """How many 429 answers the rate limits gave."""
        return self.buckets.refused

    async def until(self, is_so: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for the condition; raises `TimeoutError` with the bot's texts."""
        try:
            await self.state.until(is_so, seconds)
        except TimeoutError:
            raise TimeoutError(f"It did not come to be so; the bot said {self.texts}") from None

    async def connected(self, seconds: float = 60.0) -> None:
        """Wait until a bot receives events."""
        await self.until(lambda: self.gateway.listeners, seconds)

    def next_fail(self, pattern: str, fault: Fault | int, times: int | None = 1) -> None:
        """Let the next `times` requests that match fail; all until `mend` if None.

        Patterns are such as `POST /channels/*/messages`, `WS /gateway`, `*`.
        """
        order = ErrorResponse(fault) if isinstance(fault, int) else fault
        self._middleware.faults.order(pattern, order, times)

    @property
    def faults_left(self) -> Sequence[str]:
        """The patterns of the faults that are still to come."""
        return self._middleware.faults.left

    def mend(self) -> None:
        self._middleware.faults.clear()

    def allowance(self, limit: int, per: float, *, of: Sequence[str] = ("send", "edit")) -> None:
        """Set the limit, from now on, of some routes.

        Routes are `send`, `edit`, `delete`, `react`, `webhook`, `global`, and `old` (edits of
        messages older than an hour).
        """
        for route in of:
            self.buckets.allow(route, limit, per)

    def forget_nonces(self) -> None:
        self._messages.nonces.clear()

    async def refuse_connections(self) -> None:
        """Act as without a network: break open connections and accept no new ones."""
        await self._server.shut()

    async def accept_again(self) -> None:
        await self._server.open()

    def drop_gateway(self, code: int | None = None, *, resumable: bool = True) -> None:
        """Close the sockets with a code, or break them."""
        if not resumable:
            self.gateway.sessions.clear()
        for line in self.gateway.lines:
            if code is None:
                line.cut()
            else:
                line.close(code)

    def refuse_resume(self, *, refuse: bool = True) -> None:
        self.gateway.refuses_resume = refuse

    def silence_gateway(self, *, acks: bool = True) -> None:
        """Keep the current sockets open without sending events; new sockets work."""
        for line in self.gateway.lines:
            line.hears_events = False
            line.gets_acks = acks

    def revoke_token(self) -> str:
        """Return the new token."""
        self.token = _new_token(self.bot.id)
        self.drop_gateway(4004, resumable=False)
        return self.token

    def _app(self, interactions: InteractionRoutes) -> web.Application:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._middleware.handle(request, handler)

        app = web.Application(client_max_size=_LARGEST_REQUEST, middlewares=[middleware])
        for each in [*self._routes.table(), *interactions.table()]:
            app.router.add_route(each.method, API + each.path, each.handler)
        app.router.add_get(f"{API}{SOCKET}", self._where)
        app.router.add_get(f"{API}{SOCKET}/bot", self._where)
        app.router.add_get(SOCKET, self.gateway.serve)
        app.router.add_get("/attachments/{channel}/{file}/{name}", self._file)
        app.router.add_route("*", "/{path:.*}", nothing_there)
        return app

    async def _where(self, _: web.Request) -> web.Response:
        left = {
            "total": 1000,
            "remaining": 1000 - self.gateway.identified,
            "reset_after": 86400000,
            "max_concurrency": 1,
        }
        return answer({"url": self.gateway_url, "shards": 1, "session_start_limit": left})

    async def _file(self, request: web.Request) -> web.Response:
        file = self.state.files.get(request.match_info["file"])
        if file is None:
            raise not_found()
        return web.Response(body=file.content, headers={"Content-Type": file.kind})

    def _shows_nonce(self, message: Message) -> bool:
        return self.history_has_nonces and self._messages.remembered(message.nonce) is message
