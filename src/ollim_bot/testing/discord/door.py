"""The way in of every request: what is to fail fails, who may not come is sent away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.testing.discord.bodies import refusal
from ollim_bot.testing.discord.buckets import Buckets
from ollim_bot.testing.discord.faults import (
    AnswerHanging,
    AnswerLost,
    Banned,
    Delayed,
    Dropped,
    Fail,
    Fault,
    Faults,
    Hanging,
)
from ollim_bot.testing.discord.refusals import Refused, unauthorized
from ollim_bot.testing.discord.state import World

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
