"""The prompt after a crash: a turn that was cut off goes on, and nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from ollim_bot.domain.inbox import ToolCalled
from ollim_bot.domain.inputs import OwnerMessage
from ollim_bot.domain.shortening import shortened
from ollim_bot.prompts.context import joined, owner_words, timestamp
from ollim_bot.prompts.tags import SYSTEM, one_line

THE_WORDS = "What the owner had written:"

_CUT_OFF = "The program was restarted in the middle of your answer. Part of it may be lost."
_NEVER_TAKEN = "The program was restarted while the message below was being answered."
_ALREADY = "These tools had already been called:"
_NOT_AGAIN = (
    "Do not call them again, unless you can see that a call did not work. Where it matters, look "
    "at what is there now before you act."
)
_FINISH = "Finish the answer now, so that it can be understood by itself."

_LONGEST_LABEL = 300


def continued_prompt(
    tools: Sequence[ToolCalled],
    now: datetime,
    *,
    again: Sequence[OwnerMessage] = (),
    updates: str = "",
) -> str:
    """For a turn that was cut off after `tools` had been called.

    `again` are the messages of the turn where the engine never took its prompt, and so has to be
    told what they said.
    """
    words = owner_words(again)
    body = joined(
        "\n\n",
        _NEVER_TAKEN if words else _CUT_OFF,
        joined("\n", _ALREADY, *_labels(tools)) if tools else "",
        _NOT_AGAIN if tools else "",
        _FINISH,
        f"{THE_WORDS}\n\n{words}" if words else "",
    )
    return joined("\n\n", joined("\n", SYSTEM, timestamp(now), updates), body)


def _labels(tools: Iterable[ToolCalled]) -> list[str]:
    """One line for each call; the same call several times is one line that says so."""
    counted = Counter(map(_label, tools))
    return [label if times == 1 else f"{label} ({times} times)" for label, times in counted.items()]


def _label(call: ToolCalled) -> str:
    return f"- {shortened(one_line(call.summary or call.tool), _LONGEST_LABEL)}"
