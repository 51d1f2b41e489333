"""Where a turn stands: the prompt that began it, and what was done about it since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ollim_bot.offline.messages import Message, ModelRequest, ToolResult
from ollim_bot.offline.prompt import SpokenPrompt, read_prompt

# What the engine itself puts among the words of the person.
_ENGINE_SPEAKS = (
    "Stop hook feedback:",
    "[Request interrupted by user",
    "This session is being continued from a previous conversation",
    "<local-command-",
    "<command-name>",
)


@dataclass(frozen=True, slots=True)
class Situation:
    prompt: SpokenPrompt
    tools: tuple[str, ...]
    outcomes: Mapping[str, ToolResult]

    def may_call(self, tool: str) -> bool:
        """Whether the tool is there and was not tried in this turn yet."""
        return tool in self.tools and tool not in self.outcomes


def situation_of(request: ModelRequest) -> Situation:
    prompts = _prompts(request.messages)
    start, prompt = prompts[-1] if prompts else (0, "")
    outcomes = dict(_outcomes(request.messages[start:]))
    return Situation(read_prompt(prompt), request.tools, outcomes)


def said_by_owner(request: ModelRequest) -> tuple[str, ...]:
    """Everything that was asked in the conversation, oldest first."""
    prompts = (read_prompt(text) for _, text in _prompts(request.messages))
    return tuple(prompt.text for prompt in prompts if prompt.text)


def _prompts(messages: Sequence[Message]) -> list[tuple[int, str]]:
    """Each with the number of its message; one message may bring several."""
    return [
        (number, text)
        for number, message in enumerate(messages)
        if message.role == "user"
        for text in message.texts
        if not text.startswith(_ENGINE_SPEAKS)
    ]


def _outcomes(messages: Iterable[Message]) -> Iterable[tuple[str, ToolResult]]:
    names: dict[str, str] = {}
    for message in messages:
        for call in message.of_type("tool_use"):
            names[str(call.get("id"))] = str(call.get("name"))
        for result in message.tool_results:
            yield names.get(result.call_id, ""), result
