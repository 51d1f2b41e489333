"""Requests and replies of the Messages API, and their wire format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

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


@dataclass(frozen=True, slots=True)
class EndWithoutStop:
    """The stream ends properly, but without the end of its message."""

    after: Reply


@dataclass(frozen=True, slots=True)
class Garbage:
    """A stream that does not consist of events."""


@dataclass(frozen=True, slots=True)
class SseError:
    """The stream begins and then reports an error."""

    kind: str
    message: str


Failure = Fail | Hang | Stall | Cut | EndWithoutStop | Garbage | SseError


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

    def opening(self) -> ServerSentEvent:
        return ServerSentEvent("message_start", {"message": self._envelope([], None, 0)})

    def complete(self) -> Iterator[ServerSentEvent]:
        yield from self.unstopped()
        delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
        yield ServerSentEvent(
            "message_delta", {"delta": delta, "usage": self._usage(self.output_tokens)}
        )
        yield ServerSentEvent("message_stop", {})

    def unstopped(self) -> Iterator[ServerSentEvent]:
        """All events except those that end the message."""
        yield self.opening()
        for number, part in enumerate(self.reply.parts):
            block = self._block(number, _emptied(part))
            yield ServerSentEvent("content_block_start", {"index": number, "content_block": block})
            for delta in _deltas(part, self.reply.chunk):
                yield ServerSentEvent("content_block_delta", {"index": number, "delta": delta})
            yield ServerSentEvent("content_block_stop", {"index": number})

    def unfinished(self) -> Iterator[ServerSentEvent]:
        """All events before the end of the last block, which stays open."""
        last = ServerSentEvent("content_block_stop", {"index": len(self.reply.parts) - 1})
        return (event for event in self.unstopped() if event != last)

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
