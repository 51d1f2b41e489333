"""Admits only the owner's own browser, from the page itself.

Every request is checked here first. The server listens on loopback only, so the threats are other
sites in the owner's browser, other servers on the machine, and its other users.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.keys import AccessDenied, BrowserKey, BrowserKeys, BrowserSession
from ollim_bot.surfaces.web.limits import WebLimits
from ollim_bot.surfaces.web.refusals import RequestRefused
from ollim_bot.surfaces.web.secret import encoded

HEALTH = "/healthz"
SOCKET = "/api/socket"
PROTOCOL = "ollim"
# The addresses that answer the page itself, which holds no data: the conversation and the views.
SHELLS = ("/", "/today")
BROWSER = web.RequestKey("browser", str)

_ENTER = "/api/enter"
_CHALLENGE = "/api/challenge"
_SESSION = "/api/session"
_ENTRANCES = (_ENTER, _CHALLENGE, _SESSION)
_STATIC = "/static/"
# Browsers that an earlier version admitted still have this cookie, and send it to other ports too.
_FORMER_COOKIE = "ollim"
_SOCKET_SESSION = "ollim.session."
_LARGEST_ENTRANCE = 4096
_LONGEST_TEXT = 512
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"(\[::1\]|[a-z0-9.-]+)(:[0-9]{1,5})?")
_HARMLESS = ("GET", "HEAD")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class AccessControl:
    """Checks every request. `trust` is called with each request that is admitted."""

    def __init__(
        self,
        keys: BrowserKeys,
        hosts: Sequence[str],
        limits: WebLimits,
        trust: Callable[[web.Request], None] = lambda _: None,
    ) -> None:
        self._keys = keys
        self._hosts = frozenset((*_LOOPBACK, *hosts))
        self._limits = limits
        self._trust = trust

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post(_ENTER, self._enter),
            web.post(_CHALLENGE, self._challenge),
            web.post(_SESSION, self._session),
        ]

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        host = self._known_host(request)
        if host is None:
            raise RequestRefused(403, texts.WRONG_HOST)
        if "Service-Worker" in request.headers:
            return _without_service_workers()
        is_harmless = request.method in _HARMLESS
        if is_harmless and request.path in SHELLS:
            return _redirect_to_loopback(request, host) or await handler(request)
        if is_harmless and (request.path == HEALTH or request.path.startswith(_STATIC)):
            return await handler(request)
        is_entrance = request.method == "POST" and request.path in _ENTRANCES
        browser = None if is_entrance else self._keys.browser_of(_bearer(request))
        if browser is None and not is_entrance:
            raise RequestRefused(401, texts.NO_KEY)
        can_do_something = not is_harmless or request.path == SOCKET
        if can_do_something and not _is_same_origin(request):
            raise RequestRefused(403, texts.WRONG_ORIGIN)
        if browser is not None:
            request[BROWSER] = browser
            self._trust(request)
        return await handler(request)

    def _known_host(self, request: web.Request) -> str | None:
        """The host of the request; None for names that a site may resolve here (DNS rebinding)."""
        given = request.headers.getall("Host", [])
        found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
        return found[1] if found is not None and found[1] in self._hosts else None

    async def _enter(self, request: web.Request) -> web.Response:
        [code] = await self._texts(request, "code")
        try:
            given = await self._keys.enter(code)
        except AccessDenied:
            raise RequestRefused(401, texts.USED_ADDRESS) from None
        return _with_empty_cache(web.json_response(_key_json(given)))

    async def _challenge(self, request: web.Request) -> web.Response:
        browser, nonce = await self._texts(request, "browser", "nonce")
        challenge, proof = await self._keys.challenge(browser, nonce)
        return web.json_response({"challenge": challenge, "proof": proof})

    async def _session(self, request: web.Request) -> web.Response:
        names = ("browser", "generation", "challenge", "proof")
        browser, generation, challenge, proof = await self._texts(request, *names)
        if not re.fullmatch(r"[1-9][0-9]{0,8}", generation, re.ASCII):
            raise RequestRefused(400, texts.NOT_UNDERSTOOD)
        try:
            given = await self._keys.prove(browser, int(generation), challenge, proof)
        except AccessDenied:
            raise RequestRefused(401, texts.NO_KEY) from None
        if isinstance(given, BrowserSession):
            return web.json_response({"session": given.bearer, "bot": encoded(given.bot_key)})
        return _with_empty_cache(web.json_response({"next": _key_json(given)}))

    async def _texts(self, request: web.Request, *names: str) -> list[str]:
        """Read the named texts of an unauthenticated request, within a size and a time limit."""
        if (request.content_length or 0) > _LARGEST_ENTRANCE:
            raise RequestRefused(413, texts.NOT_UNDERSTOOD)
        try:
            async with asyncio.timeout(self._limits.entrance_seconds):
                body = json.loads(await request.read())
        except TimeoutError:
            raise RequestRefused(408, texts.TOO_SLOW) from None
        except (ValueError, RecursionError, web.HTTPRequestEntityTooLarge):
            body = None
        given = [body.get(name) for name in names] if isinstance(body, dict) else [None]
        if not all(isinstance(text, str) and len(text) <= _LONGEST_TEXT for text in given):
            raise RequestRefused(400, texts.NOT_UNDERSTOOD)
        return [str(text) for text in given]


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "ollim-bot"


def _redirect_to_loopback(request: web.Request, host: str) -> web.Response | None:
    """Redirect to 127.0.0.1 if the page was opened under another loopback name.

    `localhost` may lead to `::1`, where another program may have the port; so the browser must not
    store anything under that name.
    """
    if host in _LOOPBACK[1:] and "X-Forwarded-Proto" not in request.headers:
        port = request.headers["Host"].lower().removeprefix(host)
        return web.Response(
            status=303, headers={"Location": f"http://127.0.0.1{port}{request.path}"}
        )
    return None


def forget_former_cookie(request: web.Request, response: web.StreamResponse) -> None:
    # Anybody can send cookies, and to parse many takes long.
    if f"{_FORMER_COOKIE}=" in request.headers.get("Cookie", ""):
        response.del_cookie(_FORMER_COOKIE, path="/", httponly=True, samesite="Strict")


def _without_service_workers() -> web.Response:
    """Remove service workers: the page has none, so another program at the port left it."""
    return web.Response(status=404, headers={"Clear-Site-Data": '"cache", "storage"'})


def _with_empty_cache(answer: web.Response) -> web.Response:
    """Clear the browser's cache: another program at the port may have left pages in it."""
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


def _bearer(request: web.Request) -> str:
    """The session of the request; on a socket, a browser can only set the protocol header."""
    if request.path == SOCKET:
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        words = [word.strip() for word in offered.split(",")]
        return next(
            (w.removeprefix(_SOCKET_SESSION) for w in words if w.startswith(_SOCKET_SESSION)), ""
        )
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    return value if kind == "Bearer" else ""


def _key_json(given: BrowserKey) -> dict[str, object]:
    return {
        "browser": given.browser,
        "generation": given.generation,
        "key": encoded(given.key),
    }


def _is_same_origin(request: web.Request) -> bool:
    given = request.headers.getall("Origin", [])
    host = request.headers.get("Host", "").lower()
    return len(given) == 1 and given[0].lower() in (f"http://{host}", f"https://{host}")
