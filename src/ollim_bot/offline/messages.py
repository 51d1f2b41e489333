"""What a model is asked and what it may answer, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Block = Mapping[str, object]
_REMARKS = ("<system-reminder>", "[Image: source:")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; plain text stands as a single text block."""

    role: str
    blocks: tuple[Block, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """What was said, without the remarks that the client adds to it."""
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
        """What was said last; empty if the last message only brings results of tools.

        Messages in a row are handed over as one: an interrupted prompt, the note that it was
        interrupted and the next prompt. So only the last text counts.
        """
        texts = self._last.texts if self._last.role == "user" else ()
        return texts[-1] if texts else ""

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results that the last message brings."""
        return self._last.tool_results

    @property
    def _last(self) -> Message:
        # The client adds its own remarks as messages of the system, also behind the last one.
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
class Say:
    text: str


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

    Counts and the reason to stop that are not given follow from the request and the parts.
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
    """Not a byte until the client goes away or the server stops."""


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
    """The stream ends in good order, but the message in it never does."""

    after: Reply


@dataclass(frozen=True, slots=True)
class Garbage:
    """A stream that is no stream of events."""


@dataclass(frozen=True, slots=True)
class SseError:
    """The stream begins and then reports an error."""

    kind: str
    message: str


Failure = Fail | Hang | Stall | Cut | EndWithoutStop | Garbage | SseError


class Model(Protocol):
    def reply(self, request: ModelRequest) -> Reply | Failure:
        """Called once for each request, also for those that the client repeats."""
