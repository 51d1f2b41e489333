"""Who is let in: the owner's own browser, from the page itself, and nobody else.

Every request is checked here first. The server listens on loopback only, so those to keep out are
other sites in the owner's browser, and other users of the machine.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.settings import Secret
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.refusals import Refused

COOKIE = "ollim"
HEALTH = "/healthz"
SOCKET = "/api/socket"

_PURPOSE = b"cookie of the local page"
_COOKIE_SECONDS = 400 * 24 * 3600
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


class Access:
    def __init__(self, secret: Secret, hosts: Sequence[str]) -> None:
        self._token = secret.reveal().encode()
        # Derived, so that who sees the cookie does not know the secret; the same after a restart.
        self._cookie = hmac.new(self._token, _PURPOSE, "sha256").hexdigest()
        self._hosts = frozenset((*_LOOPBACK, *hosts))

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._is_known_host(request):
            raise Refused(403, texts.WRONG_HOST)
        is_harmless = request.method in _HARMLESS
        if is_harmless and request.path == HEALTH:
            return await handler(request)
        if is_harmless and request.path == "/" and self._has_token(request):
            return self._entrance(request)
        if not _equal(request.cookies.get(COOKIE, ""), self._cookie.encode()):
            raise Refused(401, texts.NO_SECRET)
        can_do_something = not is_harmless or request.path == SOCKET
        if can_do_something and not _is_same_origin(request):
            raise Refused(403, texts.WRONG_ORIGIN)
        return await handler(request)

    def _is_known_host(self, request: web.Request) -> bool:
        """Another site may have made its own name point to this machine (DNS rebinding)."""
        given = request.headers.getall("Host", [])
        found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
        return found is not None and found[1] in self._hosts

    def _has_token(self, request: web.Request) -> bool:
        return _equal(request.query.get("token", ""), self._token)

    def _entrance(self, request: web.Request) -> web.Response:
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(
            COOKIE,
            self._cookie,
            path="/",
            max_age=_COOKIE_SECONDS,
            httponly=True,
            samesite="Strict",
            secure=request.headers.get("X-Forwarded-Proto") == "https",
        )
        return answer


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "ollim-bot"


def _equal(given: str, right: bytes) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right)


def _is_same_origin(request: web.Request) -> bool:
    given = request.headers.getall("Origin", [])
    host = request.headers.get("Host", "").lower()
    return len(given) == 1 and given[0].lower() in (f"http://{host}", f"https://{host}")
