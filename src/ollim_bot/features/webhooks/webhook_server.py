"""The HTTP server of webhooks, on loopback."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.features.webhooks.hook_requests import LARGEST_BODY
from ollim_bot.features.webhooks.reception import (
    BodyTooLarge,
    BodyTooSlow,
    CallAcceptor,
    WebhookReception,
)
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.loopback import Connections, serving
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import Job

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookLimits:
    """Limits that keep a stranger, or a program that has gone wrong, from exhausting the bot."""

    connections: int = 300
    # As many may come in one turn of a busy loop, and the oldest of them may be an honest caller.
    strangers: int = 150
    stranger_seconds: float = 20
    body_seconds: float = 15
    idle_seconds: float = 30
    linger_seconds: float = 2


class WebhookServer:
    """Serves `POST /hook/{id}`. When a call is answered with 202, it is on disk.

    `find` and `secret_of` are those of `WebhookReception`.
    """

    def __init__(
        self,
        port: int,
        find: Callable[[str], WebhookSpec | None],
        secret_of: Callable[[str | None], bytes | None],
        store: Store,
        clock: Clock,
        limits: WebhookLimits | None = None,
    ) -> None:
        self._port = port
        self._store = store
        self._limits = limits = limits or WebhookLimits()
        self._calls = CallAcceptor(store)
        self._reception = WebhookReception(find, secret_of, self._calls, clock)
        self._connections = Connections(
            limits.connections, limits.strangers, limits.stranger_seconds
        )
        self._is_serving = asyncio.Event()

    @property
    def port(self) -> int:
        """The actual port, once it serves."""
        return self._port

    async def ready(self) -> None:
        """Return when requests are answered."""
        await self._is_serving.wait()

    async def run(self) -> None:
        """Serve until cancelled. Raises `OllimError` if the port is not available."""
        app = web.Application(middlewares=[_answers_in_json])
        app.add_routes([web.post("/hook/{id}", self._serve)])
        try:
            with self._store.changes("config") as config_changed:
                await self._load_config()
                async with serving(
                    app,
                    self._port,
                    self._connections,
                    self._refusal,
                    idle_seconds=self._limits.idle_seconds,
                    linger_seconds=self._limits.linger_seconds,
                ) as self._port:
                    self._is_serving.set()
                    while True:
                        await config_changed.wait()
                        config_changed.clear()
                        await self._load_config()
        finally:
            self._is_serving.clear()
            await self._calls.close()

    async def _serve(self, http: web.Request) -> web.Response:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in http.raw_headers:
            headers.setdefault(name.lower(), []).append(value)

        def trust() -> None:
            self._connections.trust(http.transport)

        answer = await self._reception.answer(
            http.match_info["id"], headers, lambda: self._body(http), trust
        )
        response = web.json_response(answer.body, status=answer.status)
        if answer.retry_after is not None:
            response.headers["Retry-After"] = str(answer.retry_after)
        if answer.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    async def _body(self, http: web.Request) -> bytes:
        if (http.content_length or 0) > LARGEST_BODY:
            raise BodyTooLarge
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for part in http.content.iter_any():
                    body += part
                    if len(body) > LARGEST_BODY:
                        raise BodyTooLarge
        except TimeoutError:
            raise BodyTooSlow from None
        return bytes(body)

    def _refusal(self, refused: OSError) -> str:
        reason = refused.strerror or str(refused)
        if refused.errno == errno.EADDRINUSE:
            reason = "another program has it"
        return (
            f"Webhooks cannot use port {self._port}: {reason}. "
            "Free that port, or set WEBHOOK_PORT to another one."
        )

    async def _load_config(self) -> None:
        reading = self._store.read(lambda tx: tx.config.get())
        config = await unless_refused("The limits of webhooks could not be read", reading)
        self._reception.config = config or self._reception.config


async def serve_webhooks(
    settings: Settings, job: Callable[[JobKey], Job | None], store: Store, clock: Clock
) -> None:
    """Serve on the port of the settings, which is set, until cancelled."""

    def find(hook_id: str) -> WebhookSpec | None:
        found = job(JobKey(JobKind.WEBHOOK, hook_id))
        return found if isinstance(found, WebhookSpec) else None

    def secret_of(name: str | None) -> bytes | None:
        secret = settings.hook_secret(name)
        return None if secret is None else secret.reveal().encode("utf-8", "surrogateescape")

    assert settings.webhook_port is not None
    await WebhookServer(settings.webhook_port, find, secret_of, store, clock).run()


@web.middleware
async def _answers_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every other request in the same form, and tell no detail of a fault."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed:
        return web.json_response(
            {"error": "method not allowed"}, status=405, headers={"Allow": "POST"}
        )
    except web.HTTPException as refused:
        words = "not found" if refused.status == 404 else "not understood"
        return web.json_response({"error": words}, status=refused.status)
    except ConnectionError:
        raise
    except Exception:  # no detail of a fault may reach a stranger
        _logger.exception("A webhook call could not be answered")
        return web.json_response({"error": "failed"}, status=500)
