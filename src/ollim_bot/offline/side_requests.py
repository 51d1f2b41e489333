"""What the engine asks for its own ends: titles, searches, probes, and summaries of the whole."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ollim_bot.offline.messages import ModelRequest, Reply, Say


def side_answer(request: ModelRequest) -> Reply | None:
    """A harmless answer to what is no part of a conversation; None for everything else."""
    if request.max_tokens == 1:
        return Reply((Say("ok"),))
    if _asks_for_title(request):
        return Reply((Say(json.dumps({"title": "Conversation"})),))
    if request.tools == ("web_search",):
        return Reply((Say("Nothing was found: there is no web search here."),))
    return None


def asks_for_summary(request: ModelRequest) -> bool:
    """Whether the engine wants to go on with a summary in place of the conversation."""
    text = request.last_user_text
    return "create a detailed summary" in text and "<summary>" in text


def summary(text: str) -> Reply:
    """The form in which the engine accepts one at the first try."""
    return Reply((Say(f"<analysis>\n</analysis>\n<summary>\n{text}\n</summary>"),))


def _asks_for_title(request: ModelRequest) -> bool:
    """A title is the only thing that is wanted as an object of one field."""
    value: object = request.body
    for step in ("output_config", "format", "schema", "properties"):
        value = value.get(step) if isinstance(value, Mapping) else None
    return isinstance(value, Mapping) and list(value) == ["title"]
