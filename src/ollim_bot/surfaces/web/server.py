"""The HTTP server of the page."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from aiohttp import web

from ollim_bot import loopback
from ollim_bot.connections import Connections
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.access import (
    HEALTH,
    SHELLS,
    SOCKET,
    AccessControl,
    add_headers,
    forget_former_cookie,
)
from ollim_bot.surfaces.web.api import Api
from ollim_bot.surfaces.web.limits import WebLimits
from ollim_bot.surfaces.web.refusals import RequestRefused, refusals_in_shape
from ollim_bot.surfaces.web.socket import TabSocket

FOLDER = Path(__file__).parent / "static"
PAGE = "index.html"

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

_REVALIDATED = "no-cache"
# An update needs a new start, and that has another folder.
_KEPT = "private, max-age=31536000, immutable"


async def send_page(folder: str) -> web.Response:
    """Send the page, with links to the static files in `folder`.

    The name of `folder` is random at each start, so that the browser's cache cannot hold files of a
    program that had the port before.
    """
    content = await asyncio.to_thread(_content, PAGE)
    if content is None:
        raise RequestRefused(404, texts.NO_PAGE)
    body = content.replace(b'"/static/', f'"/static/{folder}/'.encode())
    return web.Response(body=body, content_type="text/html", charset="utf-8")


async def send_static(request: web.Request, name: str, cache: str) -> web.Response:
    """Send a file, with `cache` as the rule for the browser's cache."""
    content = await asyncio.to_thread(_content, name)
    if content is None:
        raise RequestRefused(404, texts.NOT_FOUND)
    tag = hashlib.sha256(content).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": cache}
    if any(each.value == tag or each.value == "*" for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    kind = _TYPES[Path(name).suffix]
    charset = "utf-8" if kind.startswith("text/") else None
    return web.Response(body=content, content_type=kind, charset=charset, headers=headers)


def _content(name: str) -> bytes | None:
    """Compare with the listing, so that no spelling of a name leads out of the folder."""
    for path in FOLDER.iterdir():
        if path.name == name and path.suffix in _TYPES and not path.is_symlink():
            return path.read_bytes() if path.is_file() else None
    return None


def page_app(
    access: AccessControl,
    api: Api,
    socket: TabSocket,
    limits: WebLimits,
    health: Callable[[], object],
) -> web.Application:
    folder = secrets.token_hex(8)

    async def page(request: web.Request) -> web.Response:
        answer = await send_page(folder)
        forget_former_cookie(request, answer)
        return answer

    async def static(request: web.Request) -> web.Response:
        name, named = request.match_info["name"], request.match_info.get("folder")
        if named is None:
            return await send_static(request, name, _REVALIDATED)
        if named != folder:
            raise RequestRefused(404, texts.NOT_FOUND)
        return await send_static(request, name, _KEPT)

    async def healthy(_: web.Request) -> web.Response:
        return web.json_response(health())

    app = web.Application(
        client_max_size=limits.body, middlewares=[refusals_in_shape, access.admit]
    )
    app.on_response_prepare.append(add_headers)
    app.add_routes(
        [
            *(web.get(path, page) for path in SHELLS),
            web.get("/static/{name}", static),
            web.get("/static/{folder}/{name}", static),
            web.get(HEALTH, healthy),
            web.get(SOCKET, socket.serve),
            *access.routes(),
            *api.routes(),
        ]
    )
    return app


def serving(
    app: web.Application, port: int, limits: WebLimits, connections: Connections
) -> AbstractAsyncContextManager[int]:
    """Serve the page at this port or, for 0, at a free one; gives the port.

    Raises `OllimError`.
    """

    def refusal(refused: OSError) -> str:
        if refused.errno == errno.EADDRINUSE:
            return texts.port_taken(port)
        return texts.port_refused(port, refused.strerror or str(refused))

    return loopback.serving(
        app,
        port,
        connections,
        refusal,
        idle_seconds=limits.idle_seconds,
        linger_seconds=limits.linger_seconds,
    )
