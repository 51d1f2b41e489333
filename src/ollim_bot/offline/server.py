"""Serves the Messages API on loopback for the built-in model."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.kernel.base.loopback import Connections

Block = Mapping[str, object]
_REMARKS = ("<system-reminder>", "[Image: source:")
Json = dict[str, object]
# Clients return a thinking block only if it has a signature.
_SIGNATURE = "b2ZmbGluZQ=="


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; plain text is a single text block."""

    role: str
    blocks: tuple[Block, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the message, without the remarks that the client adds."""
        texts = (str(block.get("text", "")) for block in self.of_type("text"))
        return tuple(text for text in texts if not text.lstrip().startswith(_REMARKS))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(_tool_result(block) for block in self.of_type("tool_result"))

    def of_type(self, kind: str) -> Iterator[Block]:
        return (block for block in self.blocks if block.get("type") == kind)


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ModelRequest:
    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[str, ...] = ()
    stream: bool = False
    max_tokens: int = 0
    body: Mapping[str, object] = field(default_factory=dict)

    @property
    def last_user_text(self) -> str:
        """The last text; empty if the last message only has results of tools.

        The client joins consecutive messages: an interrupted prompt, the note about the
        interruption and the next prompt. So only the last text counts.
        """
        texts = self._last.texts if self._last.role == "user" else ()
        return texts[-1] if texts else ""

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results in the last message."""
        return self._last.tool_results

    @property
    def _last(self) -> Message:
        # The client adds its own remarks as system messages, also after the last message.
        spoken = [message for message in self.messages if message.role != "system"]
        return (spoken or self.messages)[-1]


def _tool_result(block: Block) -> ToolResult:
    return ToolResult(
        call_id=str(block.get("tool_use_id", "")),
        text="\n".join(Message("user", as_blocks(block.get("content"))).texts),
        is_error=block.get("is_error") is True,
    )


def as_blocks(content: object) -> tuple[Block, ...]:
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if isinstance(content, list):
        return tuple(block for block in content if isinstance(block, dict))
    return ()


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What the owner may say next, and the whole sentence that it makes.

    `choices` are labels, each with its sentence. A time fills the gap `{}` of a form; any words
    fill that of `blank`. With any of these, something is asked. Where something was done, a
    corrected time fills the gap of `moves`, `about` is what `it` is, and `undo` takes it back.
    `edit` is the id of the job that the owner may change by hand.
    """

    choices: tuple[tuple[str, str], ...] = ()
    forms: tuple[str, ...] = ()
    blank: str = ""
    moves: tuple[str, ...] = ()
    about: str = ""
    undo: str = ""
    edit: str = ""

    @property
    def asks(self) -> bool:
        return bool(self.choices or self.forms or self.blank)


@dataclass(frozen=True, slots=True)
class Say:
    text: str
    follow_up: FollowUp = field(default=FollowUp(), compare=False)


@dataclass(frozen=True, slots=True)
class Think:
    text: str


@dataclass(frozen=True, slots=True)
class CallTool:
    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)


Part = Say | Think | CallTool


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, streamed in pieces of `chunk` characters with `pace` seconds between them.

    Token counts and the stop reason, if not given, follow from the request and the parts.
    """

    parts: tuple[Part, ...]
    input_tokens: int | None = None
    output_tokens: int | None = None
    stop_reason: str | None = None
    pace: float = 0.0
    chunk: int = 20

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise ValueError("chunk: at least one character is needed.")


@dataclass(frozen=True, slots=True)
class Fail:
    """An error answer in place of a message; `retry_after` is in seconds."""

    status: int
    kind: str
    message: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """No byte until the client disconnects or the server stops."""


@dataclass(frozen=True, slots=True)
class Stall:
    """The stream stops before the end of its last block; the connection stays open."""

    after: Reply


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is dropped before the end of the last block."""

    after: Reply


Failure = Fail | Hang | Stall | Cut


class ChatModel(Protocol):
    def reply(self, request: ModelRequest) -> Reply | Failure:
        """Called once for each request, also for those that the client repeats."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    name: str
    fields: Json

    def encoded(self) -> bytes:
        data = json.dumps({"type": self.name, **self.fields})
        return f"event: {self.name}\ndata: {data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class WireReply:
    """A reply in wire format, with its message id and the model's name."""

    reply: Reply
    id: str
    model: str
    input_tokens: int

    @property
    def stop_reason(self) -> str:
        if self.reply.stop_reason is not None:
            return self.reply.stop_reason
        calls = any(isinstance(part, CallTool) for part in self.reply.parts)
        return "tool_use" if calls else "end_turn"

    @property
    def output_tokens(self) -> int:
        given = self.reply.output_tokens
        return tokens(sum(map(_length, self.reply.parts))) if given is None else given

    def message(self) -> Json:
        """The whole answer as one object."""
        blocks = [self._block(number, part) for number, part in enumerate(self.reply.parts)]
        return self._envelope(blocks, self.stop_reason, self.output_tokens)

    def complete(self) -> Iterator[ServerSentEvent]:
        yield from self._unstopped()
        delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
        yield ServerSentEvent(
            "message_delta", {"delta": delta, "usage": self._usage(self.output_tokens)}
        )
        yield ServerSentEvent("message_stop", {})

    def unfinished(self) -> Iterator[ServerSentEvent]:
        """All events before the end of the last block, which stays open."""
        last = ServerSentEvent("content_block_stop", {"index": len(self.reply.parts) - 1})
        return (event for event in self._unstopped() if event != last)

    def _unstopped(self) -> Iterator[ServerSentEvent]:
        """All events except those that end the message."""
        yield ServerSentEvent("message_start", {"message": self._envelope([], None, 0)})
        for number, part in enumerate(self.reply.parts):
            block = self._block(number, _emptied(part))
            yield ServerSentEvent("content_block_start", {"index": number, "content_block": block})
            for delta in _deltas(part, self.reply.chunk):
                yield ServerSentEvent("content_block_delta", {"index": number, "delta": delta})
            yield ServerSentEvent("content_block_stop", {"index": number})

    def _block(self, number: int, part: Part) -> Json:
        match part:
            case Say(text):
                return {"type": "text", "text": text}
            case Think(text):
                return {"type": "thinking", "thinking": text, "signature": _SIGNATURE}
            case CallTool(name, arguments):
                call_id = f"toolu_{self.id.removeprefix('msg_')}_{number}"
                return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)}

    def _envelope(self, blocks: list[Json], stop_reason: str | None, written: int) -> Json:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": blocks,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": self._usage(written),
        }

    def _usage(self, written: int) -> Json:
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": written,
            "service_tier": "standard",
        }


def tokens(characters: int) -> int:
    """A rough, constant estimate: four characters to a token."""
    return max(1, characters // 4)


def error(kind: str, message: str) -> Json:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _length(part: Part) -> int:
    match part:
        case CallTool(name, arguments):
            return len(name) + len(json.dumps(dict(arguments)))
        case Say(text) | Think(text):
            return len(text)


def _emptied(part: Part) -> Part:
    match part:
        case CallTool(name):
            return CallTool(name)
        case Say():
            return Say("")
        case Think():
            return Think("")


def _deltas(part: Part, size: int) -> Iterator[Mapping[str, object]]:
    match part:
        case Say(text):
            for piece in _pieces(text, size):
                yield {"type": "text_delta", "text": piece}
        case Think(text):
            for piece in _pieces(text, size):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": _SIGNATURE}
        case CallTool(_, arguments):
            for piece in _pieces(json.dumps(dict(arguments)), size):
                yield {"type": "input_json_delta", "partial_json": piece}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


Streamed = Reply | Stall | Cut
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
            case Stall(after):
                await self._events(response, after, self._outgoing(after).unfinished())
                await _never()
            case Cut(after):
                await self._events(response, after, self._outgoing(after).unfinished())
                self._hang_up()
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
    value = fields.get("tools", [])
    if not isinstance(value, list):
        raise BadRequest("tools: a list is required")
    return ModelRequest(
        model=_text(fields, "model"),
        messages=_messages(fields.get("messages")),
        system="\n".join(str(block.get("text", "")) for block in as_blocks(fields.get("system"))),
        tools=tuple(str(tool.get("name", "")) for tool in value if isinstance(tool, dict)),
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
