"""The Messages API on the wire: a reply as a message, as stream events, and as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ollim_bot.offline.messages import CallTool, Part, Reply, Say, Think

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    fields: Json

    def encoded(self) -> bytes:
        data = json.dumps({"type": self.name, **self.fields})
        return f"event: {self.name}\ndata: {data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A reply on its way to a client, with the id and the model's name that it carries."""

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
        """The whole answer at once."""
        blocks = [self._block(number, part) for number, part in enumerate(self.reply.parts)]
        return self._envelope(blocks, self.stop_reason, self.output_tokens)

    def opening(self) -> Event:
        return Event("message_start", {"message": self._envelope([], None, 0)})

    def complete(self) -> Iterator[Event]:
        yield from self.unstopped()
        delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
        yield Event("message_delta", {"delta": delta, "usage": self._usage(self.output_tokens)})
        yield Event("message_stop", {})

    def unstopped(self) -> Iterator[Event]:
        """All that is said, but not that it is the end."""
        yield self.opening()
        for number, part in enumerate(self.reply.parts):
            yield from self._part(number, part)

    def torn(self) -> Iterator[Event]:
        """All that is said, up to the end of the last block, which stays open."""
        last = Event("content_block_stop", {"index": len(self.reply.parts) - 1})
        return (event for event in self.unstopped() if event != last)

    def _part(self, number: int, part: Part) -> Iterator[Event]:
        block = self._block(number, _emptied(part))
        yield Event("content_block_start", {"index": number, "content_block": block})
        for delta in _deltas(part, self.reply.chunk):
            yield Event("content_block_delta", {"index": number, "delta": delta})
        yield Event("content_block_stop", {"index": number})

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


# Clients hand a thought back only if it is signed.
_SIGNATURE = "b2ZmbGluZQ=="


def tokens(characters: int) -> int:
    """A rough count, the same each time: four characters to a token."""
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
