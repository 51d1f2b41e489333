"""The HTTP server of the page."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ollim_bot.connections import Connections
from ollim_bot.errors import OllimError
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.access import (
    HEALTH,
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


_HOST = "127.0.0.1"
_SHUTDOWN_SECONDS = 1.0
_logger = logging.getLogger(__name__)


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


async def send_static(request: web.Request, name: str) -> web.Response:
    """Send a file; the browser revalidates it each time, so that an update shows at once."""
    content = await asyncio.to_thread(_content, name)
    if content is None:
        raise RequestRefused(404, texts.NOT_FOUND)
    tag = hashlib.sha256(content).hexdigest()[:32]
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache"}
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
        if request.match_info.get("folder", folder) != folder:
            raise RequestRefused(404, texts.NOT_FOUND)
        return await send_static(request, request.match_info["name"])

    async def healthy(_: web.Request) -> web.Response:
        return web.json_response(health())

    app = web.Application(
        client_max_size=limits.body, middlewares=[refusals_in_shape, access.admit]
    )
    app.on_response_prepare.append(add_headers)
    app.add_routes(
        [
            web.get("/", page),
            web.get("/static/{name}", static),
            web.get("/static/{folder}/{name}", static),
            web.get(HEALTH, healthy),
            web.get(SOCKET, socket.serve),
            *access.routes(),
            *api.routes(),
        ]
    )
    return app


@asynccontextmanager
async def serving(
    app: web.Application, port: int, limits: WebLimits, connections: Connections
) -> AsyncIterator[int]:
    """Serve on loopback, at this port or, for 0, at a free one; gives the port.

    Raises `OllimError`.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_WireLog(_logger),
        keepalive_timeout=limits.idle_seconds,
        lingering_time=limits.linger_seconds,
        shutdown_timeout=_SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await _bind(runner, port, connections)
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _bind(runner: web.AppRunner, port: int, connections: Connections) -> None:
    try:
        await _Site(runner, port, connections).start()
    except OSError as refused:
        if refused.errno == errno.EADDRINUSE:
            raise OllimError(texts.port_taken(port)) from refused
        reason = refused.strerror or str(refused)
        raise OllimError(texts.port_refused(port, reason)) from refused


class _Site(web.BaseSite):
    """A `TCPSite` with a limit on its connections."""

    def __init__(self, runner: web.AppRunner, port: int, connections: Connections) -> None:
        super().__init__(runner)
        self._port = port
        self._connections = connections

    @property
    def name(self) -> str:
        return f"http://{_HOST}:{self._port}"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._connections.guarded(server), _HOST, self._port, backlog=self._backlog
        )


class _WireLog(logging.LoggerAdapter[logging.Logger]):
    """Drops errors about malformed HTTP: they quote the request, which may hold the secret."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not isinstance(kwargs.get("exc_info"), HttpProcessingError):
            super().log(level, msg, *args, **kwargs)
