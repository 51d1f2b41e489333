"""Makes a whole sentence of a question and its answer, so that one grammar reads both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum, auto

from ollim_bot.domain.phrases import parse_day
from ollim_bot.domain.phrases.durations import spelled_out
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import vocabulary
from ollim_bot.offline.messages import FollowUp
from ollim_bot.offline.vocabulary import AmbiguousIntent, ScheduleIntent

Read = Callable[[str], ScheduleIntent | None]


class Unanswered(Enum):
    """Words that answer a question without naming what is wanted."""

    DROPPED = auto()
    STILL_OPEN = auto()


_YES = re.compile(
    r"(?:y|yes|yeah|yep|yup|ya|sure|ok|okay|right|correct|exactly|of course|fine|please do|do it"
    r"|go ahead|that one|that is right|sounds good|perfect)(?:,? (?:please|thanks|do(?: it| that)?"
    r"|set it|that one|that is right))?"
)
_NO = re.compile(
    r"(?:no|nope|nah|never ?mind|forget (?:it|that|about it)|leave it|stop|skip(?: it| this| that)?"
    r"|cancel(?: it| that)?|drop it|none(?: of (?:them|those|these))?|neither|nothing|not now"
    r"|do(?:n'?t| not) bother|it is fine|no need)(?:,? (?:thanks|thank you|please))?"
)
_PLACE = re.compile(
    r"(?:(?:the|option|number|no|#) ?)*(?P<place>1|2|3|4|5|1st|2nd|3rd|4th|5th|first|second|third"
    r"|fourth|fifth|former|latter|last)(?: (?:one|option|please))*"
)
_PLACES = (("1", "first", "former"), ("2", "second"), ("3", "third"), ("4", "fourth"), ("5", "fif"))
_LEAD = re.compile(
    r"(?:(?:(?:let['’]?s |can you |please )?(?:make|do|set) (?:it|that)(?: for| to)?|let['’]?s say"
    r"|say|how about|maybe|ok|okay|h+m+|oh|um|well|sorry|i mean|i meant|no|yes|yeah|yep|please"
    r"|then|rather|just|for|remind me|actually|wait|make that|better|until|till|to)[ ,:]+)+",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"[ ,]+(?:please|thanks|thank you|then|works|is (?:fine|good|ok)|would be (?:good|great|fine)"
    r"|i guess|i think|instead|sharp)$",
    re.IGNORECASE,
)
_PARTS = {"morning": "am", "evening": "pm", "afternoon": "pm", "night": "pm", "tonight": "pm"}
_FILLING = frozenset(
    ("the", "a", "in", "at", "one", "my", "it", "is", "please", "and", "i", "mean")
)


def answered(asked: FollowUp, words: str, read: Read) -> str | Unanswered | None:
    """The sentence that the answer makes of the question; None if the words are no answer to it."""
    said = " ".join(spelled_out(words).split()).rstrip(" .!?…")
    plain = said.casefold().replace("’", "'")
    lead, tail = _LEAD.match(said), _TAIL.search(said)
    core = _TAIL.sub("", said[lead.end() if lead else 0 :])
    is_time = vocabulary.tells_time(core.split())
    if not asked.asks:
        is_correction = is_time and bool(lead or tail)
        return (
            _best([form.replace("{}", core) for form in asked.moves], read)
            if is_correction
            else None
        )
    if chosen := _chosen(asked.choices, plain):
        return chosen
    if _NO.fullmatch(plain):
        return Unanswered.DROPPED
    if _YES.fullmatch(plain):
        return asked.choices[0][1] if len(asked.choices) == 1 else Unanswered.STILL_OPEN
    if asked.forms and is_time:
        return _best([form.replace("{}", core) for form in asked.forms], read)
    if asked.blank and read(said) is None:
        return asked.blank.replace("{}", said)
    return None


def _chosen(choices: Sequence[tuple[str, str]], plain: str) -> str:
    """The sentence of the one choice that the words name, by its place or by words of its label."""
    wanted = _pieces(plain) - _FILLING
    labels = [_pieces(label) for label, _ in choices]
    if len({each - {"am", "pm"} for each in labels}) == 1:
        wanted = frozenset(_PARTS.get(each, each) for each in wanted)
    is_in_label = any(wanted & label for label in labels)
    if len(choices) > 1 and not is_in_label and (found := _PLACE.fullmatch(plain)):
        last = len(choices) - 1
        place = last if found["place"] in ("last", "latter") else _number(found["place"])
        return choices[place][1] if place <= last else ""
    named = [sentence for label, sentence in choices if wanted and _names(wanted, _pieces(label))]
    exact = [sentence for label, sentence in choices if wanted == _pieces(label) - _FILLING]
    fitting = exact or named
    return fitting[0] if len(fitting) == 1 else ""


def _names(wanted: frozenset[str], label: frozenset[str]) -> bool:
    """Whether the words are some of the label's; of its weekdays, they name all or none."""
    days = frozenset(each for each in label if vocabulary.names_day(each))
    return wanted <= label and (days <= wanted or not days & wanted)


def _number(name: str) -> int:
    return next(place for place, starts in enumerate(_PLACES) if name.startswith(starts))


def _pieces(text: str) -> frozenset[str]:
    """The words of a text; `6:30pm` is a time and a half of the day."""
    return frozenset(re.findall(r"[0-9]+(?::[0-9]+)?|[^\W\d_]+", text.casefold()))


def _best(sentences: Sequence[str], read: Read) -> str | None:
    """The first sentence that says all, else the first that leaves one thing to ask."""
    intents = [(each, read(each)) for each in sentences]
    whole = (each for each, intent in intents if intent and not isinstance(intent, AmbiguousIntent))
    asking = (
        each
        for each, intent in intents
        if isinstance(intent, AmbiguousIntent) and intent.follow_up.asks
    )
    return next(whole, None) or next(asking, None)


def time_question(
    form: str, readings: Sequence[str] = (), said: str = "", now: datetime | None = None
) -> FollowUp:
    """Ask for the time of a form, which keeps the day that was said, if the answer names none."""
    words = said.split()
    parts = [
        words[start:end] for start in range(len(words)) for end in range(len(words), start, -1)
    ]
    days = [" ".join(part) for part in parts if now and _is_day(" ".join(part), now)]
    forms = [form.replace("{}", f"{day} {at}{{}}") for day in days[:1] for at in ("", "at ")]
    choices = tuple((each, form.replace("{}", each)) for each in readings)
    bare = (form, form.replace("{}", "at {}"), form.replace("{}", "in {}"))
    return FollowUp(choices, (*forms, *bare))


def _is_day(words: str, now: datetime) -> bool:
    try:
        return bool(parse_day(words, now.date()))
    except BadPhrase:
        return False
