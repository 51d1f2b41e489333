"""The offline model: answers by rules, says so, and does what a careful assistant would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from ollim_bot.domain.shortening import shortened
from ollim_bot.offline import texts
from ollim_bot.offline.errands import show_reminders, show_routines, show_upcoming, step_to
from ollim_bot.offline.messages import CallTool, ModelRequest, Part, Reply, Say
from ollim_bot.offline.phrasings import COURTESIES, Intent
from ollim_bot.offline.side_requests import asks_for_summary, side_answer, summary
from ollim_bot.offline.situation import Situation, said_by_owner, situation_of
from ollim_bot.offline.tagged import TAGGED
from ollim_bot.offline.understanding import meant
from ollim_bot.offline.wishes import Remind, Repeat, wish_of

_REMEMBERED = 5
_LONGEST_MEMORY = 120
# How the prompt begins that the owner sends by `/setup` and by a button.
_SET_UP = (
    "Set me up: I want you to know what you need to be of use to me, by a few short questions."
)
_POINTING = re.compile(r"\b(?:this|that)\b", re.IGNORECASE)
_STANDING_FOR_IT = re.compile(r"\b(?:this|that|it|these|those|them)\b", re.IGNORECASE)
# Where no clock is seen, nothing is promised, but a wish is still told from other words.
_ANY_MOMENT = datetime(2000, 1, 1)


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
    return tagged(situation) if tagged else _by_words(situation)


def _by_words(situation: Situation) -> Part:
    if situation.prompt.text.startswith(_SET_UP):
        return Say(texts.SET_UP)
    intents = meant(situation.prompt.text)
    if not intents:
        return _by_wish(situation)
    if _may_be_about_something_else(situation, intents):
        return Say(texts.NOT_UNDERSTOOD)
    return _together([_ANSWERS[intent](situation) for intent in intents])


def _by_wish(situation: Situation) -> Part:
    prompt = situation.prompt
    wish = wish_of(prompt.text, (prompt.moment or _ANY_MOMENT).replace(tzinfo=UTC))
    if wish is None:
        return Say(texts.NOT_UNDERSTOOD)
    if prompt.moment is None:
        return Say(texts.NO_CLOCK)
    is_job = isinstance(wish, Remind | Repeat)
    if is_job and prompt.points_elsewhere and _STANDING_FOR_IT.search(prompt.text):
        return Say(texts.SAY_WHAT)
    return step_to(wish, situation)


def _together(parts: Sequence[Part]) -> Part:
    """What has to be done first; when nothing has, all that is to be said."""
    calls = [part for part in parts if isinstance(part, CallTool)]
    return calls[0] if calls else Say("\n\n".join(_said(part) for part in parts))


def _said(part: Part) -> str:
    return part.text if isinstance(part, Say) else ""


def _may_be_about_something_else(situation: Situation, intents: tuple[Intent, ...]) -> bool:
    """`Is this a person?` asks about the picture that came with it."""
    prompt = situation.prompt
    points = prompt.points_elsewhere and _POINTING.search(prompt.text) is not None
    return points and not COURTESIES.issuperset(intents)


def _time(situation: Situation) -> Part:
    prompt = situation.prompt
    return Say(texts.time(prompt.moment, prompt.zone) if prompt.moment else texts.NO_CLOCK)


def _memory(situation: Situation) -> Part:
    said = _in_short(situation.said_before)
    return Say(texts.said_before(said) if said else texts.NOTHING_SAID)


_ANSWERS: Mapping[Intent, Callable[[Situation], Part]] = {
    Intent.GREETING: lambda _: Say(texts.GREETING),
    Intent.THANKS: lambda _: Say(texts.THANKS),
    Intent.FAREWELL: lambda _: Say(texts.FAREWELL),
    Intent.ABILITIES: lambda _: Say(texts.WHAT_I_CAN_DO),
    Intent.IDENTITY: lambda _: Say(texts.WHAT_I_AM),
    Intent.TIME: _time,
    Intent.MEMORY: _memory,
    Intent.CONNECT: lambda _: Say(texts.HOW_TO_CONNECT),
    Intent.UPCOMING: show_upcoming,
    Intent.REMINDERS: show_reminders,
    Intent.ROUTINES: show_routines,
    Intent.DONE: lambda _: Say(texts.TASK_DONE),
}


def _with_news(situation: Situation, part: Part) -> tuple[Part, ...]:
    """With what the main session was told to mention, once, at the beginning of its turn."""
    updates = situation.prompt.updates
    if not updates or situation.outcomes:
        return (part,)
    news = texts.meanwhile(updates)
    return (Say(f"{news}\n\n{part.text}"),) if isinstance(part, Say) else (Say(news), part)


def _in_short(said: tuple[str, ...]) -> tuple[str, ...]:
    newest = (" ".join(text.split()) for text in said[-_REMEMBERED:])
    return tuple(shortened(text, _LONGEST_MEMORY) for text in newest)
