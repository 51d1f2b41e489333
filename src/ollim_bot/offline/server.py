"""Serves the Messages API on loopback for the built-in model."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.loopback import Connections
from ollim_bot.offline.messages import (
    ChatModel,
    Cut,
    EndWithoutStop,
    Fail,
    Failure,
    Garbage,
    Hang,
    Message,
    ModelRequest,
    Reply,
    ServerSentEvent,
    SseError,
    Stall,
    WireReply,
    as_blocks,
    error,
    tokens,
)

Streamed = Reply | Stall | Cut | EndWithoutStop | Garbage | SseError
_GARBAGE = b"event: message_start\ndata: {not json\n\n"
_SERVER_ERROR = 500
_logger = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_LARGEST_BODY = 32 * 1024 * 1024
_CONNECTIONS = 100
_STRANGERS = 50
_IDLE_SECONDS = 30.0


class MessagesServer:
    """Serves this machine only, on a free port, while its context is open.

    Leaving the context ends the requests that are still waiting.
    """

    def __init__(self, model: ChatModel) -> None:
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
        delivery = ResponseWriter(http, f"msg_{uuid.uuid4().hex}", request.model, tokens(len(body)))
        return await delivery.send(self._answer(request), stream=request.stream)

    def _answer(self, request: ModelRequest) -> Reply | Failure:
        try:
            return self._model.reply(request)
        except Exception:  # the client must get an API error for any failure of the model
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
    """Report a wrong request in the API's error format."""
    try:
        return await handler(request)
    except BadRequest as wrong:
        return refusal(Fail(400, "invalid_request_error", str(wrong)))
    except web.HTTPRequestEntityTooLarge:
        return refusal(Fail(413, "request_too_large", "The request is too large"))


class ResponseWriter:
    """Writes one answer to one HTTP request."""

    def __init__(self, http: web.Request, message_id: str, model: str, input_tokens: int) -> None:
        self._http = http
        self._id = message_id
        self._model = model
        self._input_tokens = input_tokens

    async def send(self, answer: Reply | Failure, *, stream: bool) -> web.StreamResponse:
        match answer:
            case Fail():
                return refusal(answer)
            case Hang():
                return await _never()
            case _ if stream:
                return await self._stream(answer)
            case _:
                return await self._whole(answer)

    async def _whole(self, answer: Streamed) -> web.StreamResponse:
        match answer:
            case Reply():
                return web.json_response(self._outgoing(answer).message())
            case EndWithoutStop(after):
                return web.json_response(self._outgoing(after).message() | {"stop_reason": None})
            case SseError(kind, message):
                return web.json_response(error(kind, message), status=_SERVER_ERROR)
            case Garbage():
                return web.Response(body=_GARBAGE, content_type="application/json")
            case Stall():
                return await _never()
            case Cut():
                self._hang_up()
                return web.Response()

    async def _stream(self, answer: Streamed) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
        response.content_type = "text/event-stream"
        await response.prepare(self._http)
        match answer:
            case Reply():
                await self._events(response, answer, self._outgoing(answer).complete())
            case EndWithoutStop(after):
                await self._events(response, after, self._outgoing(after).unstopped())
            case Stall(after):
                await self._events(response, after, self._outgoing(after).unfinished())
                await _never()
            case Cut(after):
                await self._events(response, after, self._outgoing(after).unfinished())
                self._hang_up()
            case SseError(kind, message):
                await response.write(self._outgoing(Reply(())).opening().encoded())
                await response.write(ServerSentEvent("error", error(kind, message)).encoded())
            case Garbage():
                await response.write(_GARBAGE)
        return response

    async def _events(
        self, response: web.StreamResponse, reply: Reply, events: Iterable[ServerSentEvent]
    ) -> None:
        for event in events:
            await response.write(event.encoded())
            if reply.pace and event.name == "content_block_delta":
                await asyncio.sleep(reply.pace)

    def _outgoing(self, reply: Reply) -> WireReply:
        given = reply.input_tokens
        return WireReply(
            reply, self._id, self._model, self._input_tokens if given is None else given
        )

    def _hang_up(self) -> None:
        if self._http.transport is not None:
            self._http.transport.close()


def refusal(fail: Fail) -> web.Response:
    headers = {} if fail.retry_after is None else {"Retry-After": f"{fail.retry_after:g}"}
    body = error(fail.kind, fail.message)
    return web.json_response(body, status=fail.status, headers=headers)


async def _never() -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


class BadRequest(Exception):
    pass


def read_request(body: bytes) -> ModelRequest:
    """Raises `BadRequest` with the sentence for the client."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as wrong:
        raise BadRequest("The request body is not valid JSON") from wrong
    if not isinstance(fields, dict):
        raise BadRequest("The request body is not an object")
    return ModelRequest(
        model=_text(fields, "model"),
        messages=_messages(fields.get("messages")),
        system="\n".join(str(block.get("text", "")) for block in as_blocks(fields.get("system"))),
        tools=_tool_names(fields.get("tools", [])),
        stream=fields.get("stream") is True,
        max_tokens=_count(fields, "max_tokens"),
        body=fields,
    )


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{name}: a text is required")
    return value


def _count(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRequest(f"{name}: a whole number is required")
    return value


def _messages(value: object) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise BadRequest("messages: at least one message is required")
    return tuple(_message(number, entry) for number, entry in enumerate(value))


def _message(number: int, entry: object) -> Message:
    if not isinstance(entry, dict) or entry.get("role") not in ("user", "assistant", "system"):
        raise BadRequest(f"messages.{number}: a role, user or assistant, is required")
    content = entry.get("content")
    if not isinstance(content, str | list):
        raise BadRequest(f"messages.{number}.content: a text or a list of blocks is required")
    return Message(entry["role"], as_blocks(content))


def _tool_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadRequest("tools: a list is required")
    return tuple(str(tool.get("name", "")) for tool in value if isinstance(tool, dict))
