"""Requests are read as the engine really sends them."""

from __future__ import annotations

import json

from ollim_bot.offline.server import ModelRequest, ToolResult, read_request

REMINDER = {"type": "text", "text": "<system-reminder>\nToday is Sunday.\n</system-reminder>"}


def request(*messages: dict[str, object], **fields: object) -> ModelRequest:
    return read_request(json.dumps({"model": "m", "messages": messages, **fields}).encode())


def user(*content: object) -> dict[str, object]:
    return {"role": "user", "content": list(content)}


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def test_the_fields_are_read() -> None:
    read = request(
        {"role": "user", "content": "hi"},
        system=[text("You are x."), text("Be brief.")],
        tools=[{"name": "Read", "input_schema": {}}, {"type": "web_search_1", "name": "search"}],
        max_tokens=100,
        stream=True,
        metadata={"user_id": "u"},
    )
    assert read.system == "You are x.\nBe brief."
    assert read.tools == ("Read", "search")
    assert (read.model, read.max_tokens, read.stream) == ("m", 100, True)
    assert read.body["metadata"] == {"user_id": "u"}
    assert request({"role": "user", "content": "hi"}, system="You are x.").system == "You are x."


def test_remarks_of_the_engine_are_not_what_was_said() -> None:
    """System reminders, system messages and image sources are not part of the text."""
    read = request(
        user(text("hello"), REMINDER, text("[Image: source: /tmp/1.png]")),
        {"role": "system", "content": "# Environment"},
    )
    assert read.last_user_text == "hello"


def test_of_prompts_in_a_row_the_last_counts() -> None:
    read = request(user(text("one"), text("[Request interrupted by user]\n"), text("two")))
    assert read.last_user_text == "two"


def test_results_of_tools_are_not_what_was_said() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": [text("3"), text("4")]},
        {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "t3"},
    ]
    read = request({"role": "user", "content": "add"}, user(*results))
    assert read.last_user_text == ""
    assert read.tool_results == (
        ToolResult("t1", "3\n4", is_error=False),
        ToolResult("t2", "no", is_error=True),
        ToolResult("t3", "", is_error=False),
    )


def test_an_answer_put_in_the_models_mouth_is_not_what_the_user_said() -> None:
    read = request({"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well,"})
    assert read.last_user_text == ""
