"""Where a turn stands: the prompt that began it, and what was done about it since."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ollim_bot.offline.messages import CallTool, Message, ModelRequest, ToolResult
from ollim_bot.offline.prompt import SpokenPrompt, read_prompt
from ollim_bot.offline.texts import SAID_LAST

# What the engine itself puts among the words of the person.
_SUMMED_UP = "This session is being continued from a previous conversation"
_ENGINE_SPEAKS = (
    "Stop hook feedback:",
    "[Request interrupted by user",
    _SUMMED_UP,
    "<local-command-",
    "<command-name>",
)
SHELL = "Bash"
_OUR_SUMMARY = re.compile(rf"^{re.escape(SAID_LAST)}\n(?P<lines>(?:- .+(?:\n|$))+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Situation:
    """`outcomes` are the results of the tools that were called in this turn, by what was called.

    `said_before` is what the owner said before this, oldest first.
    """

    prompt: SpokenPrompt
    tools: tuple[str, ...]
    outcomes: Mapping[str, ToolResult]
    said_before: tuple[str, ...] = ()

    def may_call(self, tool: str) -> bool:
        """Whether the tool is there and was not tried in this turn yet."""
        return tool in self.tools and tool not in self.outcomes

    def outcome(self, call: CallTool) -> ToolResult | None:
        return self.outcomes.get(_called(call.name, call.arguments))


def situation_of(request: ModelRequest) -> Situation:
    prompts = [(start, read_prompt(text)) for start, text in _prompts(request.messages)]
    start, prompt = _to_answer(prompts)
    outcomes = dict(_outcomes(request.messages[start:]))
    return Situation(prompt, request.tools, outcomes, said_by_owner(request)[:-1])


def said_by_owner(request: ModelRequest) -> tuple[str, ...]:
    """Everything that the owner has said in the conversation, oldest first."""
    spoken = (message.texts for message in request.messages if message.role == "user")
    return tuple(said for texts in spoken for text in texts for said in _of_owner(text))


def _to_answer(prompts: Sequence[tuple[int, SpokenPrompt]]) -> tuple[int, SpokenPrompt]:
    """The last prompt; or if it only asks to go on, the one before, with its own news."""
    if not prompts:
        return 0, SpokenPrompt("")
    asked = [(start, prompt) for start, prompt in prompts if not prompt.asks_to_go_on]
    _, last = prompts[-1]
    if not last.asks_to_go_on or not asked:
        return prompts[-1]
    start, prompt = asked[-1]
    updates = tuple(dict.fromkeys((*prompt.updates, *last.updates)))
    return start, replace(
        prompt,
        updates=updates,
        moment=last.moment,
        zone=last.zone,
        may_have_acted=last.may_have_acted,
    )


def _of_owner(text: str) -> Iterator[str]:
    """A summary of ours still has what was said before it."""
    if text.startswith(_SUMMED_UP):
        for summary in _OUR_SUMMARY.finditer(text):
            yield from (line.removeprefix("- ") for line in summary["lines"].splitlines())
    elif not text.startswith(_ENGINE_SPEAKS):
        prompt = read_prompt(text)
        if prompt.text and not prompt.tag:
            yield prompt.text


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
            names[str(call.get("id"))] = _called(str(call.get("name")), call.get("input"))
        for result in message.tool_results:
            yield names.get(result.call_id, ""), result


def _called(tool: str, arguments: object) -> str:
    """The tool; for the shell, with its command, which says what is done."""
    if tool != SHELL or not isinstance(arguments, Mapping):
        return tool
    return f"{tool}({arguments.get('command')})"
