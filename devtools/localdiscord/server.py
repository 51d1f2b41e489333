"""The local Discord: one server on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
    Fail,
    Fault,
    Faults,
    Hanging,
)
from devtools.localdiscord.gateway import PRIVILEGED, Gateway, Identity
from devtools.localdiscord.interactions import Desk, Interaction
from devtools.localdiscord.messages import Papers, Postings
from devtools.localdiscord.owner import Hand
from devtools.localdiscord.refusals import Json, Refused, not_found, unauthorized
from devtools.localdiscord.routes import (
    Commands,
    InteractionRoutes,
    Routes,
    answer,
    nothing_there,
    refusal,
)
from devtools.localdiscord.state import Message, World

HOST = "127.0.0.1"


class Listening:
    """The port is this one's until `close`; it takes connections while it is `open`."""

    def __init__(self, runner: web.AppRunner, port: int) -> None:
        self._runner = runner
        self._kept = _bound(port)
        self._site: web.SockSite | None = None

    @property
    def port(self) -> int:
        number: int = self._kept.getsockname()[1]
        return number

    async def open(self) -> None:
        if self._site is None:
            self._site = web.SockSite(self._runner, _bound(self.port))
            await self._site.start()

    async def shut(self) -> None:
        """Connections that are there break, and no other is taken."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        server = self._runner.server
        for connection in list(server.connections if server else []):
            if connection.transport is not None:
                connection.transport.abort()

    def close(self) -> None:
        self._kept.close()


def _bound(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((HOST, port))
    return bound


API = "/api/v10"
SOCKET = "/gateway"

_BAN = "<html>You are being blocked from accessing our API temporarily.</html>"
_OPEN_TO_ALL = ("/interactions/", "/webhooks/")


@dataclass(frozen=True, slots=True)
class RequestNote:
    """`status` is 0 where there was no answer; `body` is None where it was no JSON."""

    method: str
    path: str
    status: int
    at: float
    body: Any = None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class Door:
    world: World
    buckets: Buckets
    faults: Faults
    token: Callable[[], str]
    notes: list[RequestNote] = field(default_factory=list)

    async def pass_through(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        at = self.world.monotonic()
        body = await _json_of(request)
        fault = self.faults.meet(_name(request))
        self.world.has_changed()
        status = 0
        try:
            response = await self._with_fault(request, handler, fault)
            if not isinstance(fault, AnswerLost | Dropped):
                status = response.status
        finally:
            path = request.path.removeprefix(API)
            self.notes.append(RequestNote(_method(request), path, status, at, body))
            self.world.has_changed()
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
            if isinstance(fault, Fail):
                raise _refused(fault)
            self._let_in(request)
            return await handler(request)
        except Refused as refused:
            return refusal(refused)

    def _let_in(self, request: web.Request) -> None:
        path = request.path.removeprefix(API)
        is_api = request.path.startswith(API) and path != SOCKET
        if is_api and not path.startswith(_OPEN_TO_ALL):
            if request.headers.get("Authorization") != f"Bot {self.token()}":
                raise unauthorized()
            self.buckets.take_global()


def _method(request: web.Request) -> str:
    return "WS" if request.path == SOCKET else request.method


def _name(request: web.Request) -> str:
    """As patterns of faults see it: `POST /channels/1/messages`, `WS /gateway`."""
    return f"{_method(request)} {request.path.removeprefix(API)}"


def _broken(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _refused(fault: Fail) -> Refused:
    return Refused(
        fault.status, fault.code, fault.message, after=fault.after, is_global=fault.is_global
    )


async def _json_of(request: web.Request) -> Any:
    if request.content_type != "application/json":
        return None
    try:
        return json.loads(await request.read())
    except ValueError:
        return None


_LARGEST_REQUEST = 64 * 1024 * 1024
_ALL_INTENTS = (1 << 32) - 1


def _wall_clock() -> datetime:
    return datetime.now(UTC)


def _new_token(bot_id: str) -> str:
    """In the shape of a real one, so that what hides those in logs hides this."""
    owner = base64.urlsafe_b64encode(bot_id.encode()).decode().rstrip("=")
    return f"{owner}.{secrets.token_urlsafe(6)[:6]}.{secrets.token_urlsafe(38)[:38]}"


class LocalDiscord(Hand):
    """Serves while its context is open.

    `now` and `monotonic` may be a test's own; nothing here waits by them, they are only read.
    With `members`, the application belongs to a team of the owner and these.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        token: str | None = None,
        members: Sequence[str] | None = None,
        now: Callable[[], datetime] = _wall_clock,
        monotonic: Callable[[], float] = time.monotonic,
        heartbeat_interval: float = 41.25,
        largest_file: int = 10 * 1024 * 1024,
        granted_intents: int = _ALL_INTENTS & ~PRIVILEGED,
    ) -> None:
        world = World(now, monotonic)
        owner, bot = world.new_user("owner"), world.new_user("ollim", is_bot=True)
        self.stranger = world.new_user("stranger")
        self.team = None if members is None else [owner, *(world.new_user(m) for m in members)]
        identity = Identity(bot, owner, world.new_id(), self.team)
        self.token = token or _new_token(bot.id)
        self.history_has_nonces = True
        self.buckets = Buckets(monotonic)
        self.gateway = Gateway(
            lambda: self.token,
            lambda session: identity.ready(session, self.gateway_url),
            world.new_id,
            world.has_changed,
            monotonic,
            heartbeat_interval,
            granted_intents,
        )
        papers = Papers(world, bot, lambda: self.url, self._shows_nonce)
        postings = Postings(world, papers, self.buckets, self.gateway.tell)
        desk = Desk(world, postings, bot, lambda: secrets.token_urlsafe(48))
        commands = Commands()
        super().__init__(world, owner, bot, postings, desk, commands, self.gateway)
        self._routes = Routes(
            world, bot, postings, self.buckets, commands, identity.application, largest_file
        )
        self._door = Door(world, self.buckets, Faults(), lambda: self.token)
        app = self._app(InteractionRoutes(desk, self.buckets, largest_file))
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        self._wanted_port = port
        self._listening: Listening | None = None

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        self._listening = Listening(self._runner, self._wanted_port)
        await self._listening.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._listening is not None
        await self._listening.shut()
        await self._runner.cleanup()
        self._listening.close()

    @property
    def url(self) -> str:
        assert self._listening is not None, "It is not open."
        return f"http://{HOST}:{self._listening.port}"

    @property
    def api_url(self) -> str:
        return f"{self.url}{API}"

    @property
    def gateway_url(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}{SOCKET}"

    @property
    def messages(self) -> list[Message]:
        """What stands in the owner's direct messages, from both sides, oldest first."""
        return list(self.world.standing(self.world.dm_with(self.owner)))

    @property
    def said(self) -> list[Message]:
        """What the bot has said there and still stands."""
        return [each for each in self.messages if each.author == self.bot]

    @property
    def texts(self) -> list[str]:
        """The words of the bot there, as they stand."""
        return [each.text for each in self.said]

    def message(self, message_id: str) -> Message:
        """Whether it still stands or not."""
        return self.world.messages[message_id]

    @property
    def interactions(self) -> list[Interaction]:
        """All that people began."""
        return list(self._desk.all.values())

    @property
    def commands(self) -> list[Json]:
        return self._commands.all

    @property
    def command_puts(self) -> int:
        return self._commands.puts

    @property
    def typing(self) -> list[tuple[str, float]]:
        """The channel and the moment of each time that the bot was seen to type."""
        return self._routes.typing

    @property
    def requests(self) -> list[RequestNote]:
        """All of them, with what became of each."""
        return self._door.notes

    @property
    def rate_limited(self) -> int:
        """How often it said 429 by its own count."""
        return self.buckets.refused

    async def until(self, is_so: Callable[[], object], seconds: float = 10.0) -> None:
        """Wait for something to be so; raises `TimeoutError`, with what stands there."""
        try:
            await self.world.until(is_so, seconds)
        except TimeoutError:
            raise TimeoutError(f"It did not come to be so; the bot said {self.texts}") from None

    async def connected(self, seconds: float = 10.0) -> None:
        """Wait until a bot hears events."""
        await self.until(lambda: self.gateway.listeners, seconds)

    def next_fail(self, pattern: str, fault: Fault | int, times: int | None = 1) -> None:
        """Of the requests that match (`POST /channels/*/messages`, `WS /gateway`, `*`), the next
        `times` go wrong; all of them with None, until `mend`."""
        order = Fail(fault) if isinstance(fault, int) else fault
        self._door.faults.order(pattern, order, times)

    @property
    def faults_left(self) -> Sequence[str]:
        """The patterns of those that are still to come."""
        return self._door.faults.left

    def mend(self) -> None:
        self._door.faults.clear()

    def allowance(self, limit: int, per: float, *, of: Sequence[str] = ("send", "edit")) -> None:
        """How many in how many seconds from now on: of `send`, `edit`, `delete`, `react`,
        `webhook`, `global`, or `old` (edits of messages older than an hour)."""
        for route in of:
            self.buckets.allow(route, limit, per)

    def forget_nonces(self) -> None:
        self._postings.nonces.clear()

    async def refuse_connections(self) -> None:
        """There is no network: what is open breaks, and nothing new is taken."""
        assert self._listening is not None
        await self._listening.shut()

    async def accept_again(self) -> None:
        assert self._listening is not None
        await self._listening.open()

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
        """The sockets that are open now stay so and tell of no event; new ones do."""
        for line in self.gateway.lines:
            line.hears_events = False
            line.gets_acks = acks

    def revoke_token(self) -> str:
        """Gives the one that is right from now on."""
        self.token = _new_token(self.bot.id)
        self.drop_gateway(4004, resumable=False)
        return self.token

    def _app(self, interactions: InteractionRoutes) -> web.Application:
        @web.middleware
        async def door(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._door.pass_through(request, handler)

        app = web.Application(client_max_size=_LARGEST_REQUEST, middlewares=[door])
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
        file = self.world.files.get(request.match_info["file"])
        if file is None:
            raise not_found()
        return web.Response(body=file.content, headers={"Content-Type": file.kind})

    def _shows_nonce(self, message: Message) -> bool:
        return self.history_has_nonces and self._postings.remembered(message.nonce) is message
