"""The local Google: one server on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote

from aiohttp import BasicAuth, web
from aiohttp.typedefs import Handler

from devtools.localdiscord.faults import AnswerLost, Delayed, Dropped, Faults, Hanging
from devtools.localgoogle.calendar import CalendarApi
from devtools.localgoogle.gmail import GmailApi
from devtools.localgoogle.oauth import SignIns, consent_page
from devtools.localgoogle.protocol import (
    Api,
    ApiCall,
    ApiRoute,
    GoogleError,
    Json,
    OAuthError,
    RawAnswer,
    Refusal,
    invalid,
    not_found,
)
from devtools.localgoogle.tasks import TasksApi
from devtools.loopback import LoopbackServer

Fault = Refusal | RawAnswer | Dropped | AnswerLost | Delayed | Hanging
# Every API takes these.
_COMMON_PARAMS = frozenset({"alt", "fields", "prettyPrint", "quotaUser"})


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """`status` is 0 without an answer; `query` is as sent; `body` is None if it is not JSON."""

    method: str
    path: str
    query: str
    status: int
    body: Any = None

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def _wall_clock() -> datetime:
    return datetime.now(UTC)


class LocalGoogle:
    """Serves while its context is open. `now` may be a test's clock, which is only read.

    `sign_ins` gives out tokens and ends them; `tasks`, `calendar` and `gmail` hold what the account
    has.
    """

    def __init__(self, *, now: Callable[[], datetime] = _wall_clock, port: int = 0) -> None:
        self.now = now
        self.sign_ins = SignIns(now)
        self.tasks = TasksApi()
        self.calendar = CalendarApi()
        self.gmail = GmailApi()
        self.requests: list[RecordedRequest] = []
        self._faults: Faults[Fault] = Faults()
        apis: Sequence[Api] = (self.tasks, self.calendar, self.gmail)
        self._routes = [route for api in apis for route in api.routes()]
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
        await self._server.close()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def environment(self) -> dict[str, str]:
        """The settings with which the bot talks to this server."""
        return {
            "GOOGLE_API_URL": self.url,
            "GOOGLE_TOKEN_URL": f"{self.url}/token",
            "GOOGLE_AUTH_URL": f"{self.url}/auth",
        }

    @property
    def credentials(self) -> Json:
        """The content of `credentials.json`, as Google's console gives it."""
        client = {
            "client_id": self.sign_ins.client_id,
            "project_id": "ollim-local",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": "https://oauth2.googleapis.com/token",
            "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
            "client_secret": self.sign_ins.client_secret,
            "redirect_uris": ["http://localhost"],
        }
        return {"installed": client}

    def named(self, pattern: str) -> list[RecordedRequest]:
        """The requests with this name, such as `POST /token`."""
        return [each for each in self.requests if each.name == pattern]

    def next_fail(self, pattern: str, fault: Fault | int, times: int | None = 1) -> None:
        """Let the next `times` requests that match fail; all until `mend` if None.

        Patterns are such as `POST /token`, `GET /tasks/v1/*`, `*`.
        """
        self._faults.order(pattern, Refusal(fault) if isinstance(fault, int) else fault, times)

    def mend(self) -> None:
        self._faults.clear()

    def _app(self) -> web.Application:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._recorded(request, handler)

        app = web.Application(middlewares=[middleware])
        app.router.add_get("/auth", self._auth)
        app.router.add_post("/auth/consent", self._consent)
        app.router.add_post("/token", self._token)
        app.router.add_post("/revoke", self._revoke)
        app.router.add_route("*", "/{path:.*}", self._api)
        return app

    async def _recorded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        status = 0
        body = await _json_of(request)
        try:
            response, is_lost = await self._with_fault(request, handler)
            status = 0 if is_lost else response.status
        finally:
            self.requests.append(
                RecordedRequest(request.method, request.path, request.query_string, status, body)
            )
        if is_lost and request.transport is not None:
            request.transport.abort()
        return response

    async def _with_fault(
        self, request: web.Request, handler: Handler
    ) -> tuple[web.StreamResponse, bool]:
        match self._faults.next_for(f"{request.method} {request.path}"):
            case Refusal() as refused:
                return refused.response(), False
            case RawAnswer() as raw:
                headers = {"Content-Type": "application/json", **raw.headers}
                return web.Response(body=raw.body, status=raw.status, headers=headers), False
            case Dropped():
                return web.Response(), True
            case AnswerLost():
                await self._answered(request, handler)
                return web.Response(), True
            case Hanging():
                await asyncio.Event().wait()
            case Delayed(seconds):
                await asyncio.sleep(seconds)
        return await self._answered(request, handler), False

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except (GoogleError, OAuthError) as refused:
            return refused.response()

    async def _auth(self, request: web.Request) -> web.Response:
        asked = self.sign_ins.ask_consent(_single(request.query_string))
        page = consent_page(asked, self.sign_ins.account)
        return web.Response(text=page, content_type="text/html")

    async def _consent(self, request: web.Request) -> web.Response:
        form = parse_qs(await request.text(), strict_parsing=True)
        (asked,), (answer,) = form["request"], form["answer"]
        ticked = form.get("scope", []) if answer == "allow" else None
        location = self.sign_ins.consent(asked, ticked)
        return web.Response(status=302, headers={"Location": location})

    async def _token(self, request: web.Request) -> web.Response:
        if request.query_string:
            raise OAuthError("invalid_request", "The fields belong into the body.")
        form = _single(await request.text())
        if authorization := request.headers.get("Authorization"):
            client = BasicAuth.decode(authorization)
            form |= {"client_id": client.login, "client_secret": client.password}
        return web.json_response(self.sign_ins.token(form))

    async def _revoke(self, request: web.Request) -> web.Response:
        form = _single(await request.text())
        if set(form) != {"token"} or request.query_string:
            raise OAuthError("invalid_request", "Only the field token is known.")
        self.sign_ins.revoke(form["token"])
        return web.json_response({})

    async def _api(self, request: web.Request) -> web.Response:
        route, parts = self._route_of(request)
        self.sign_ins.require(request.headers.get("Authorization", ""), route.scopes)
        params = parse_qs(request.query_string, keep_blank_values=True)
        for name in params:
            if name not in route.params | _COMMON_PARAMS:
                raise invalid(
                    f'Invalid JSON payload received. Unknown name "{name}": '
                    "Cannot bind query parameter."
                )
        call = ApiCall(
            self.sign_ins.account,
            self.now(),
            {name: unquote(part) for name, part in parts.items()},
            params,
            await _body_of(request, route),
            request.headers,
        )
        answer = route.answer(call)
        return web.Response(status=204) if answer is None else web.json_response(answer)

    def _route_of(self, request: web.Request) -> tuple[ApiRoute, Mapping[str, str]]:
        path = request.rel_url.raw_path
        for route in self._routes:
            parts = route.match(path) if route.method == request.method else None
            if parts is not None:
                return route, parts
        raise not_found(f"There is nothing at {request.method} {path}.")


def _single(form: str) -> dict[str, str]:
    fields = parse_qs(form, keep_blank_values=True)
    if any(len(values) > 1 for values in fields.values()):
        raise OAuthError("invalid_request", "OAuth 2 parameters can only have a single value.")
    return {name: values[0] for name, values in fields.items()}


async def _json_of(request: web.Request) -> Any:
    if request.content_type != "application/json":
        return None
    try:
        return json.loads(await request.read())
    except ValueError:
        return None


async def _body_of(request: web.Request, route: ApiRoute) -> Json:
    raw = await request.read()
    if not raw:
        return {}
    if not route.has_body:
        raise invalid("This request has no body.")
    if request.content_type != "application/json":
        raise invalid("The body is not application/json.")
    try:
        body = json.loads(raw)
    except ValueError:
        raise GoogleError(400, "parseError", "Parse Error") from None
    if not isinstance(body, dict):
        raise GoogleError(400, "parseError", "Parse Error")
    return body


@contextmanager
def in_thread(google: LocalGoogle) -> Iterator[LocalGoogle]:
    """Serve from another thread, for a caller that waits for its answers."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(google.__aenter__(), loop).result(30)
        try:
            yield google
        finally:
            asyncio.run_coroutine_threadsafe(google.__aexit__(None, None, None), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
