"""Streams and messages have the shape that the Messages API documents."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.offline.wire_client import client_of, joined, parsed, said

from ollim_bot.offline.server import CallTool, Part, Reply, Say, ServerSentEvent, Think, WireReply

USAGE = {
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "service_tier": "standard",
}
TEXTS = st.text() | st.text(alphabet='a\n \r\u2028👋🏽👩‍👩‍👧é"\\{}') | st.just("\ud800")
ARGUMENTS = st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.booleans())
PARTS = st.builds(Say, TEXTS) | st.builds(Think, TEXTS) | st.builds(CallTool, st.text(), ARGUMENTS)
REPLIES = st.builds(
    Reply, st.lists(PARTS, max_size=4).map(tuple), chunk=st.integers(min_value=1, max_value=50)
)


def outgoing(reply: Reply) -> WireReply:
    return WireReply(reply, "msg_1", "claude-x", input_tokens=7)


async def test_a_text_is_streamed_as_the_documented_sequence_of_events() -> None:
    async with client_of(
        Reply((Say("Hello"),), input_tokens=12, output_tokens=3, chunk=3)
    ) as client:
        start, *rest = await client.stream()

    message = start.pop("message")
    assert start == {"type": "message_start"}
    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 0, **USAGE},
    }
    assert rest == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"input_tokens": 12, "output_tokens": 3, **USAGE},
        },
        {"type": "message_stop"},
    ]


async def test_a_call_of_a_tool_is_streamed_as_pieces_of_json() -> None:
    arguments = {"message": "drink water 👋", "critical": False}
    async with client_of(Reply((Say("Now."), CallTool("ping", arguments)), chunk=5)) as client:
        events = await client.stream()

    call = next(event["content_block"] for event in events if event.get("index") == 1)
    assert call.pop("id").startswith("toolu_")
    assert call == {"type": "tool_use", "name": "ping", "input": {}}
    assert json.loads(joined(events, "partial_json")) == arguments
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_a_thought_is_streamed_with_its_signature_last() -> None:
    async with client_of(Reply((Think("hmm"), Say("ok")))) as client:
        events = await client.stream()

    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [delta["type"] for delta in deltas] == [
        "thinking_delta",
        "signature_delta",
        "text_delta",
    ]
    assert joined(events, "thinking") == "hmm"
    assert joined(events, "signature") != ""


async def test_without_streaming_the_message_comes_whole() -> None:
    parts = (Think("hmm"), Say("Hello"), CallTool("ping", {"n": 1}))
    async with client_of(Reply(parts, input_tokens=12, output_tokens=3)) as client:
        status, message = await client.ask()

    thought, text, call = message["content"]
    assert status == 200
    assert (thought["type"], thought["thinking"]) == ("thinking", "hmm")
    assert text == {"type": "text", "text": "Hello"}
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "ping", {"n": 1})
    assert message["stop_reason"] == "tool_use"
    assert message["usage"] == {"input_tokens": 12, "output_tokens": 3, **USAGE}


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "end_turn"])
async def test_a_given_reason_to_stop_is_kept(reason: str) -> None:
    async with client_of(Reply((CallTool("ping"),), stop_reason=reason)) as client:
        assert (await client.ask())[1]["stop_reason"] == reason


async def test_no_two_answers_share_an_id() -> None:
    async with client_of(Reply((CallTool("ping"), CallTool("ping")))) as client:
        answers = [(await client.ask())[1] for _ in range(3)]
    assert len({answer["id"] for answer in answers}) == 3
    assert len({call["id"] for answer in answers for call in answer["content"]}) == 6


async def test_tokens_are_counted_roughly_and_the_same_each_time() -> None:
    async with client_of(Reply((Say("a" * 400),))) as client:
        first, second = [
            (await client.ask(messages=said("b" * 4000)))[1]["usage"] for _ in range(2)
        ]
        _, counted = await client.ask("/v1/messages/count_tokens", messages=said("b" * 4000))
    assert first == second
    assert first["output_tokens"] == 100
    assert 1000 <= first["input_tokens"] <= 1100
    assert counted == {"input_tokens": first["input_tokens"]}


@given(REPLIES)
def test_what_is_streamed_in_pieces_is_what_is_sent_whole(reply: Reply) -> None:
    answer = outgoing(reply)
    stream = b"".join(event.encoded() for event in answer.complete())
    events = list(parsed(stream))

    whole = json.loads(json.dumps(answer.message()))["content"]
    for number, (part, block) in enumerate(zip(reply.parts, whole, strict=True)):
        own = [event for event in events if event.get("index") == number]
        assert streamed(part, own) == streamed(
            part, [{"type": "content_block_delta", "delta": block}]
        )


def streamed(part: Part, events: list[dict[str, object]]) -> object:
    match part:
        case Say():
            return joined(events, "text")
        case Think():
            return joined(events, "thinking")
        case CallTool():
            pieces = joined(events, "partial_json")
            return json.loads(pieces) if pieces else events[0]["delta"]["input"]  # type: ignore[index]


@given(REPLIES)
def test_a_stream_opens_and_closes_one_block_after_the_other(reply: Reply) -> None:
    names = [event.name for event in outgoing(reply).complete()]
    allowed = {
        ("message_start", "content_block_start"),
        ("message_start", "message_delta"),
        ("content_block_start", "content_block_delta"),
        ("content_block_start", "content_block_stop"),
        ("content_block_delta", "content_block_delta"),
        ("content_block_delta", "content_block_stop"),
        ("content_block_stop", "content_block_start"),
        ("content_block_stop", "message_delta"),
        ("message_delta", "message_stop"),
    }
    assert names[0] == "message_start"
    assert names[-1] == "message_stop"
    assert set(pairwise(names)) <= allowed


@given(REPLIES)
def test_a_torn_stream_is_the_beginning_of_the_whole(reply: Reply) -> None:
    torn, whole = list(outgoing(reply).unfinished()), list(outgoing(reply).complete())
    assert torn == whole[: len(torn)]
    assert torn[0].name == "message_start"
    assert torn[-1].name != "content_block_stop"


def test_no_event_can_break_out_of_its_line() -> None:
    encoded = ServerSentEvent("x", {"text": "a\n\nevent: evil\ndata: \u2028"}).encoded()
    assert encoded.count(b"\n") == 3


def test_pieces_of_no_characters_are_refused() -> None:
    with pytest.raises(ValueError, match="chunk"):
        Reply((), chunk=0)
