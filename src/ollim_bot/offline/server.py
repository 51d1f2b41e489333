"""The Messages API on loopback, spoken for a model of ours."""

from __future__ import annotations

import asyncio
import logging
import uuid
from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.connections import Connections
from ollim_bot.offline.delivery import Delivery, refusal
from ollim_bot.offline.messages import Fail, Failure, Model, ModelRequest, Reply
from ollim_bot.offline.reading import BadRequest, read_request
from ollim_bot.offline.wire import tokens

_logger = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_LARGEST_BODY = 32 * 1024 * 1024
_CONNECTIONS = 100
_STRANGERS = 50
_IDLE_SECONDS = 30.0


class MessagesServer:
    """Serves while its context is open, to this machine only, on a free port.

    Leaving the context ends the requests that are still waiting.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._port = 0
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_errors_in_shape])
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/messages/count_tokens", self._count_tokens)
        app.router.add_get("/", self._greeting)
        app.router.add_route("*", "/{path:.*}", self._unknown)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            keepalive_timeout=_IDLE_SECONDS,
            shutdown_timeout=0.1,
        )
        self._connections = Connections(_CONNECTIONS, _STRANGERS, _IDLE_SECONDS)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self._port}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        serve = self._runner.server
        assert serve is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connections.guarded(serve), _HOST, 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    async def _messages(self, http: web.Request) -> web.StreamResponse:
        body = await http.read()
        request = read_request(body)
        self._connections.trust(http.transport)
        delivery = Delivery(http, f"msg_{uuid.uuid4().hex}", request.model, tokens(len(body)))
        return await delivery.send(self._answer(request), stream=request.stream)

    def _answer(self, request: ModelRequest) -> Reply | Failure:
        try:
            return self._model.reply(request)
        except Exception:  # as any provider's failure would be told
            _logger.exception("The built-in model failed")
            return Fail(500, "api_error", "The built-in model failed")

    async def _count_tokens(self, http: web.Request) -> web.Response:
        body = await http.read()
        read_request(body)
        return web.json_response({"input_tokens": tokens(len(body))})

    async def _greeting(self, _: web.Request) -> web.Response:
        return web.json_response({})

    async def _unknown(self, http: web.Request) -> web.Response:
        return refusal(Fail(404, "not_found_error", f"Not found: {http.path}"))


@web.middleware
async def _errors_in_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What is wrong with a request is told as the API tells it."""
    try:
        return await handler(request)
    except BadRequest as wrong:
        return refusal(Fail(400, "invalid_request_error", str(wrong)))
    except web.HTTPRequestEntityTooLarge:
        return refusal(Fail(413, "request_too_large", "The request is too large"))
