"""The offline model: answers by rules, says so, and does what a careful assistant would."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ollim_bot.offline import texts
from ollim_bot.offline.messages import ModelRequest, Part, Reply, Say
from ollim_bot.offline.side_requests import asks_for_summary, side_answer, summary
from ollim_bot.offline.situation import Situation, said_by_owner, situation_of
from ollim_bot.offline.tagged import TAGGED

_REMEMBERED = 5
_LONGEST_MEMORY = 120


@dataclass(frozen=True, slots=True)
class Rule:
    """What to answer when the words of the owner match from their beginning to their end."""

    pattern: re.Pattern[str]
    answer: Callable[[Situation, re.Match[str]], Part]


def says(pattern: str, text: str) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE), lambda _, __: Say(text))


RULES: tuple[Rule, ...] = (
    says(r"(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening))(?:,? \w+)?", texts.GREETING),
    says(r"(?:thanks|thank you|thx|ty)(?: (?:a lot|so much|very much))?", texts.THANKS),
    says(r"(?:bye|goodbye|good night|see you(?: later)?)", texts.FAREWELL),
    says(r"(?:help|what (?:all )?can you do(?: for me)?|how does this work)", texts.WHAT_I_CAN_DO),
    says(r"(?:who|what) are you(?: exactly)?", texts.WHAT_I_AM),
    says(
        r"(?:are you|is this) (?:really |actually )?(?:an? )?(?:real |language )?"
        r"(?:ai|model|llm|claude|bot|human|person|real)",
        texts.WHAT_I_AM,
    ),
    says(r"(?:which|what) (?:model|ai|llm) (?:are you|is this|do you use)", texts.WHAT_I_AM),
)


class OfflineModel:
    """The same request always gets the same answer."""

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        self._rules = rules

    def reply(self, request: ModelRequest) -> Reply:
        aside = side_answer(request)
        if aside is not None:
            return aside
        if asks_for_summary(request):
            return summary(texts.talk_so_far(_remembered(request)))
        situation = situation_of(request)
        return Reply(_with_news(situation, self._part(situation)))

    def _part(self, situation: Situation) -> Part:
        tagged = TAGGED.get(situation.prompt.tag)
        return tagged(situation) if tagged else self._by_words(situation)

    def _by_words(self, situation: Situation) -> Part:
        words = " ".join(situation.prompt.text.rstrip(" .!?").split())
        for rule in self._rules:
            if found := rule.pattern.fullmatch(words):
                return rule.answer(situation, found)
        return Say(texts.NOT_UNDERSTOOD)


def _with_news(situation: Situation, part: Part) -> tuple[Part, ...]:
    """With what the main session was told to mention, once, at the beginning of its turn."""
    updates = situation.prompt.updates
    if not updates or situation.outcomes:
        return (part,)
    news = texts.meanwhile(updates)
    return (Say(f"{news}\n\n{part.text}"),) if isinstance(part, Say) else (Say(news), part)


def _remembered(request: ModelRequest) -> tuple[str, ...]:
    said = said_by_owner(request)[:-1]
    return tuple(" ".join(text.split())[:_LONGEST_MEMORY] for text in said[-_REMEMBERED:])
