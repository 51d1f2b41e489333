"""A wish for something that comes again and again: its rhythm as a cron line, and its words.

wish   = rhythm order | order rhythm | (remind | ask | … ) me rhythm rest
rhythm = days [part] time | time days | every hour | every 2 hours | every 30 minutes
days   = every day | daily | every weekday | weekdays | every monday [and friday] | mondays
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ollim_bot.domain.phrases.clock_time import MIDNIGHT, ClockTime, read_time
from ollim_bot.domain.phrases.day import PARTS
from ollim_bot.domain.phrases.wording import NUMBERS, Unclear, normalized
from ollim_bot.offline import texts
from ollim_bot.offline.wishes import vocabulary
from ollim_bot.offline.wishes.reminding import POLITELY
from ollim_bot.offline.wishes.wish import Repeat, Unsure

_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY = rf"(?:{'|'.join(_NAMES)})"
_SEPARATOR = r"(?: and |, and |, | )(?:every |each |on )?"
_DAYS = re.compile(
    r"(?P<daily>(?:every|each)(?: single)? day|everyday|daily)"
    r"|(?P<weekdays>(?:every|each) (?:weekday|workday|working day)|(?:on )?weekdays)"
    rf"|(?:every|each) (?P<named>{_DAY}(?:{_SEPARATOR}{_DAY})*)"
    rf"|(?:on )?(?P<plural>{_DAY}s(?:{_SEPARATOR}{_DAY}s)*)"
    r"|(?:every|each)(?= (?:morning|afternoon|evening|night)\b)"
)
_PART = re.compile(rf"({'|'.join(PARTS)})\b")
_INTERVAL = re.compile(
    rf"(?:every|each) (?:(?P<count>\d+|{'|'.join(NUMBERS)}) )?(?P<unit>minute|hour)s?"
)
# An hour without am or pm means the 24-hour clock only where nobody would mean the other one.
_DAYTIME = range(7, 13)
_SHORTEST = 5

_ORDER = re.compile(
    rf"{POLITELY}?(?P<verb>(?:remind|ask|tell|show|give|send|message|ping|nudge|wish"
    r"|prompt) me) (?P<rest>.+)",
    re.IGNORECASE,
)
_REMINDED = re.compile(r"(?:to|that|about|of) \S.*", re.IGNORECASE)


def repeating(text: str) -> Repeat | Unsure | None:
    """None if nothing in it is to come again and again, or nobody is told to do it."""
    if not vocabulary.names_rhythm(text) and not _has_rhythm(text):
        return None
    for rhythm, order, is_behind in _arrangements(text):
        cron = _cron(rhythm)
        if cron is None or (is_behind and not _ORDER.fullmatch(order)):
            continue
        is_doubtful = is_behind and vocabulary.holds_a_moment_of_its_own(order)
        return Unsure(texts.RHYTHM_FIRST) if is_doubtful else _wish(order, cron)
    is_order = _ORDER.fullmatch(text) or text.lower().startswith(("every ", "each ", "daily "))
    return Unsure(texts.RHYTHM) if is_order and _ORDER.search(text) else None


def _has_rhythm(text: str) -> bool:
    return re.search(rf"\b{_DAY}s\b", text, re.IGNORECASE) is not None


def _arrangements(text: str) -> Iterator[tuple[str, str, bool]]:
    """Every way to cut the text into a rhythm and an order, the longest rhythms first.

    And whether the rhythm stands behind the order, where it may belong to something in it.
    """
    words = text.split()
    for end in range(len(words) - 1, 0, -1):
        yield " ".join(words[:end]), " ".join(words[end:]), False
    for start in range(1, len(words)):
        yield " ".join(words[start:]), " ".join(words[:start]), True
    order = _ORDER.fullmatch(text)
    if order:
        inner = order["rest"].split()
        for end in range(len(inner) - 1, 0, -1):
            rest = " ".join(inner[end:])
            yield " ".join(inner[:end]), f"{order['verb']} {rest}", False


def _wish(words: str, cron: str | Unsure) -> Repeat | Unsure:
    order = _ORDER.fullmatch(words)
    if order is None:
        return Unsure(texts.ORDER)
    if isinstance(cron, Unsure):
        return cron
    rest, verb = order["rest"], order["verb"].lower()
    if verb == "remind me" and not _REMINDED.fullmatch(rest):
        return Unsure(texts.ORDER)
    if vocabulary.is_nothing(rest.partition(" ")[2] or rest):
        return Unsure(texts.SAY_WHAT)
    if vocabulary.is_more_than_one(rest) or "\\" in rest:
        return Unsure(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(rest):
        return Unsure(texts.DOUBT)
    has_other_time = vocabulary.names_rhythm(rest) or vocabulary.names_clock(rest)
    if has_other_time or _names_other_day(rest):
        return Unsure(texts.RHYTHM)
    return Repeat(f"{verb} {rest}", cron)


def _names_other_day(rest: str) -> bool:
    """What is asked for each day may well be about that day."""
    return vocabulary.names_day(re.sub(r"\b(?:today|tomorrow|tonight)\b", "", rest, flags=re.I))


def _cron(words: str) -> str | Unsure | None:
    """None if the words are no rhythm."""
    phrase = normalized(words)
    if every := _INTERVAL.fullmatch(phrase):
        return _interval(every)
    found = _DAYS.search(phrase)
    if found is None:
        return None
    before, behind = phrase[: found.start()].strip(), phrase[found.end() :].strip()
    part = _PART.match(behind)
    if part:
        behind = behind[part.end() :].strip()
    if before and behind:
        return None
    return _at(before or behind, _days(found), part[1] if part else "")


def _interval(every: re.Match[str]) -> str | Unsure:
    count = every["count"] or "1"
    number = NUMBERS.get(count) or int(count)
    whole, shortest = (24, 1) if every["unit"] == "hour" else (60, _SHORTEST)
    if not shortest <= number < whole or whole % number:
        return Unsure(texts.RHYTHM)
    step = "*" if number == 1 else f"*/{number}"
    return f"0 {step} * * *" if every["unit"] == "hour" else f"{step} * * * *"


def _days(found: re.Match[str]) -> str:
    if found["weekdays"]:
        return "1-5"
    named = found["named"] or found["plural"]
    if not named:
        return "*"
    return ",".join(str(place) for place, name in enumerate(_NAMES) if name in named)


def _at(words: str, days: str, part: str) -> str | Unsure | None:
    try:
        time = read_time(words)
    except Unclear:
        return Unsure(texts.RHYTHM)
    if time is None:
        if words:
            return None
        if not part:
            return Unsure(texts.RHYTHM_WITHOUT_TIME)
        time = ClockTime((PARTS[part].usual,))
    hours = [hour for hour in time.hours if not part or hour in PARTS[part].hours]
    is_open = len(hours) > 1 and hours[0] not in _DAYTIME
    # The midnight of a day can be its start or its end.
    if not hours or is_open or time.second or (hours[0] == MIDNIGHT and days != "*"):
        return Unsure(texts.RHYTHM)
    return f"{time.minute} {hours[0] % 24} * * {days}"
