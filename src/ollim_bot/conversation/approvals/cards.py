"""The card that asks whether a call may be made: all of its arguments, as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from ollim_bot.agent import ToolCall
from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color, Field
from ollim_bot.domain.permissions import in_words
from ollim_bot.domain.shortening import shortened
from ollim_bot.domain.taint import TaintedCall
from ollim_bot.domain.tool_policy import Pattern
from ollim_bot.domain.visible_text import fenced, visible

ACTION = "approve"

_LONGEST_TITLE = 200
_LONGEST_LABEL = 80
_LONGEST_NAME = 40
_LONGEST_DESCRIPTION = 4096
_MOST_PARTS = 12
# What a name, a fence and a note about what is left out take at most.
_FRAME = 120
# What a call does stands in these, so they come first.
_DECISIVE = ("command", "file_path", "notebook_path", "url", "path", "pattern", "glob")


class Answer(Enum):
    """What a button says."""

    ONCE = "once"
    ALWAYS = "always"
    NO = "no"


def asking_card(
    call: ToolCall, key: str, grant: Pattern | None, tainted: TaintedCall | None = None
) -> Card:
    """`grant` is what would be allowed for good; without one, that is not offered.

    `tainted` says why it is asked about although it may be allowed as such.
    """
    offer: tuple[Field, ...] = ()
    if grant is not None:
        offer = (Field("🔓 allows from now on", f"`{grant}` ({in_words(grant)})"),)
    warning = () if tainted is None else (Field("Why I ask", _why(tainted)),)
    parts = _parts(call.arguments)
    whole = _described(parts, [len(text) for _, text in parts])
    if len(whole) > _LONGEST_DESCRIPTION:
        whole = _described(parts, _shares([len(text) for _, text in parts]))
    buttons = tuple(_buttons(key, grant))
    fields = (*warning, *offer)
    return Card(_title(call), whole, Color.YELLOW, fields=fields, buttons=buttons)


def answered_card(card: Card, outcome: str, color: Color) -> Card:
    """With all buttons used, and a line that says what came of it."""
    buttons = tuple(replace(each, is_used=True) for each in card.buttons)
    return replace(card, color=color, fields=(Field("Answer", outcome),), buttons=buttons)


def read_button(button: Button) -> tuple[str, Answer] | None:
    """The key of the question and what is answered to it."""
    key, _, word = button.data.partition(":")
    return next(((key, answer) for answer in Answer if answer.value == word), None)


def _why(tainted: TaintedCall) -> str:
    return (
        f"I have read {tainted.read}, and now want to {tainted.wanted}. "
        "Allow it only if you want that yourself."
    )


def _title(call: ToolCall) -> str:
    name = visible(call.tool).replace("\n", " ")
    asker = " (asked by a subagent)" if call.by_subagent else ""
    return f"Allow {_cut(name, _LONGEST_TITLE)}?{asker}"


def _buttons(key: str, grant: Pattern | None) -> Iterator[Button]:
    yield Button("✅ Allow once", ACTION, f"{key}:{Answer.ONCE.value}", ButtonStyle.SUCCESS)
    if grant is not None:
        label = _cut(f"🔓 Always allow {grant}", _LONGEST_LABEL)
        yield Button(label, ACTION, f"{key}:{Answer.ALWAYS.value}")
    yield Button("❌ Refuse", ACTION, f"{key}:{Answer.NO.value}", ButtonStyle.DANGER)


def _described(parts: Sequence[tuple[str, str]], shares: Sequence[int]) -> str:
    lines = []
    for (name, text), share in zip(parts, shares, strict=True):
        lines += [f"`{name}`", "```", text[:share], "```"]
        if share < len(text):
            lines.append(f"{len(text) - share} more characters of it are not shown here.")
    return "\n".join(lines)


def _parts(arguments: Mapping[str, object]) -> list[tuple[str, str]]:
    """Each argument by its name, or all as one where they are too many."""
    if len(arguments) > _MOST_PARTS:
        return [("arguments", fenced(_json(dict(arguments))))]
    names = sorted(arguments, key=lambda name: name not in _DECISIVE)
    return [(_plain_name(name), fenced(_words(arguments[name]))) for name in names]


def _shares(lengths: Sequence[int]) -> list[int]:
    """How much of each is shown, so that no long one takes the room of the others."""
    left = len(lengths)
    shares, room = [0] * left, _LONGEST_DESCRIPTION - left * _FRAME
    for place in sorted(range(left), key=lambda each: lengths[each]):
        shares[place] = min(lengths[place], room // left)
        room, left = room - shares[place], left - 1
    return shares


def _words(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _plain_name(name: str) -> str:
    return _cut(re.sub(r"\W", "_", name, flags=re.ASCII) or "_", _LONGEST_NAME)


def _cut(text: str, longest: int) -> str:
    return shortened(text, longest)
