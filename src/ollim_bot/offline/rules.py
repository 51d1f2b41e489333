"""The offline model: answers by rules, says so, and does what a careful assistant would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ollim_bot.offline import texts
from ollim_bot.offline.messages import ModelRequest, Part, Reply, Say
from ollim_bot.offline.phrasings import COURTESIES, Intent
from ollim_bot.offline.side_requests import asks_for_summary, side_answer, summary
from ollim_bot.offline.situation import Situation, said_by_owner, situation_of
from ollim_bot.offline.tagged import TAGGED
from ollim_bot.offline.understanding import meant

_REMEMBERED = 5
_LONGEST_MEMORY = 120
_POINTING = re.compile(r"\b(?:this|that)\b", re.IGNORECASE)


class OfflineModel:
    """The same request always gets the same answer."""

    def reply(self, request: ModelRequest) -> Reply:
        aside = side_answer(request)
        if aside is not None:
            return aside
        if asks_for_summary(request):
            return summary(texts.talk_so_far(_in_short(said_by_owner(request)[:-1])))
        situation = situation_of(request)
        return Reply(_with_news(situation, _part(situation)))


def _part(situation: Situation) -> Part:
    tagged = TAGGED.get(situation.prompt.tag)
    return tagged(situation) if tagged else Say(_by_words(situation))


def _by_words(situation: Situation) -> str:
    intents = meant(situation.prompt.text)
    if not intents or _may_be_about_something_else(situation, intents):
        return texts.NOT_UNDERSTOOD
    return "\n\n".join(_ANSWERS[intent](situation) for intent in intents)


def _may_be_about_something_else(situation: Situation, intents: tuple[Intent, ...]) -> bool:
    """`Is this a person?` asks about the picture that came with it."""
    prompt = situation.prompt
    points = prompt.points_elsewhere and _POINTING.search(prompt.text) is not None
    return points and not COURTESIES.issuperset(intents)


def _time(situation: Situation) -> str:
    prompt = situation.prompt
    return texts.time(prompt.moment, prompt.zone) if prompt.moment else texts.NO_CLOCK


def _memory(situation: Situation) -> str:
    said = _in_short(situation.said_before)
    return texts.said_before(said) if said else texts.NOTHING_SAID


_ANSWERS: Mapping[Intent, Callable[[Situation], str]] = {
    Intent.GREETING: lambda _: texts.GREETING,
    Intent.THANKS: lambda _: texts.THANKS,
    Intent.FAREWELL: lambda _: texts.FAREWELL,
    Intent.ABILITIES: lambda _: texts.WHAT_I_CAN_DO,
    Intent.IDENTITY: lambda _: texts.WHAT_I_AM,
    Intent.TIME: _time,
    Intent.MEMORY: _memory,
    Intent.CONNECT: lambda _: texts.HOW_TO_CONNECT,
}


def _with_news(situation: Situation, part: Part) -> tuple[Part, ...]:
    """With what the main session was told to mention, once, at the beginning of its turn."""
    updates = situation.prompt.updates
    if not updates or situation.outcomes:
        return (part,)
    news = texts.meanwhile(updates)
    return (Say(f"{news}\n\n{part.text}"),) if isinstance(part, Say) else (Say(news), part)


def _in_short(said: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_shortened(" ".join(text.split())) for text in said[-_REMEMBERED:])


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_MEMORY else f"{text[: _LONGEST_MEMORY - 1]}…"
