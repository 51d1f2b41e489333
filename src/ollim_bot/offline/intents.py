"""Reads from a message what the owner wants of the schedule: remind, repeat, or cancel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.phrases import parse_moment
from ollim_bot.domain.phrases.dates import MIDNIGHT, PARTS, ClockTime, read_time
from ollim_bot.domain.phrases.durations import NUMBERS, Unclear, normalized
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.phrasings import is_courteous
from ollim_bot.offline.vocabulary import AmbiguousIntent, Cancel, Remind, Repeat, ScheduleIntent

POLITELY = (
    r"(?:(?:please|pls|plz) |(?:can|could|would) (?:you|u) (?:(?:please|pls|plz) )?"
    r"|i(?:['’]d| would) like you to |i (?:want|need) you to )"
)
_FRAME = re.compile(
    rf"{POLITELY}?(?:remind me(?: again)?"
    r"|(?P<noun>(?:(?:set(?: up)?|make|create|add|give|i need|i want|i(?:['’]d| would) like)"
    r" (?:me )?)?(?:an? |another )?(?:new )?reminder))(?=[\s:,]|$)[:,]?",
    re.IGNORECASE,
)
_LINKS = ("to", "that", "about", "of")
# Names of days and months that are also other words.
_ALSO_A_WORD = frozenset({"sun", "sat", "may", "march", "mar", "wed"})
_Split = tuple[list[str], str, list[str]]
_CANCEL_VERB = rf"{POLITELY}?(?:cancel|delete|remove|drop|take back)"
_KIND = r"(?P<kind>reminder|routine)"
_ID = r"(?P<subject>[0-9a-f]{8})"
_CANCEL_FORMS = tuple(
    re.compile(rf"{_CANCEL_VERB} {form}", re.IGNORECASE)
    for form in (
        _ID,
        rf"(?:the |my |that )?{_KIND}(?P<subject>)",
        rf"(?:the |my |that )?{_KIND} (?:with (?:the )?id )?{_ID}",
        rf"(?:the |my |that )?{_KIND} (?:about|to|for|of|that) (?P<subject>.+)",
        rf"(?:the |my |that )(?P<subject>.+) {_KIND}",
        rf"(?P<subject>.+) {_KIND}",
    )
)
_CANCEL_REQUEST = re.compile(rf"{_CANCEL_VERB}\b.*\b(?:reminders?|routines?)\b.*", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\b(?:and|or|all|both|every|each|any|everything|but|reminders?|routines?)\b|[,;&+.]",
    re.IGNORECASE,
)
_DAY_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY = rf"(?:{'|'.join(_DAY_NAMES)})"
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
# Only in these hours does an hour without am or pm mean the 24-hour clock beyond doubt.
_DAYTIME = range(7, 13)
_SHORTEST_MINUTES = 5
_ORDER = re.compile(
    rf"{POLITELY}?(?P<verb>(?:remind|ask|tell|show|give|send|message|ping|nudge|wish"
    r"|prompt) me) (?P<rest>.+)",
    re.IGNORECASE,
)
_REMINDED = re.compile(r"(?:to|that|about|of) \S.*", re.IGNORECASE)
# A longer text is not a single order.
_LONGEST = 400
_PIECES = re.compile(r"(?<=[.,!?;…])\s+")
_OPENING = re.compile(
    r"(?:(?:hi|hey|hello|yo|ok|okay|alright|so|well|um|oh|ah|please|pls|plz|and|also|now|then|ollim"
    r"|ollim[- ]bot|bot|good (?:morning|afternoon|evening))\b[\s,.!:]*)+",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?:[\s,]+(?:please|pls|plz|thanks|thank you|thx|ty))+[\s.!]*$", re.IGNORECASE
)
# After these words, thanks and greetings belong to the task.
_SAYING = re.compile(
    r"\b(?:say(?:ing)?|writ(?:e|ing)|tell(?:ing)?|text|send|reply|answer|wish|greet|thank|message"
    r"|note|card|post|email|mail)\b",
    re.IGNORECASE,
)
_ASKED = re.compile(r"(?:can|could|would) (?:you|u)\b", re.IGNORECASE)


def reminder_intent(text: str, now: datetime) -> Remind | AmbiguousIntent | None:
    """None if the text does not ask for a reminder."""
    frame = _FRAME.search(text)
    if frame is None:
        return None
    before, words = text[: frame.start()].split(), text[frame.end() :].split()
    if before:
        return _moment_before(before, words, now)
    if frame["noun"] and words and words[0].lower() == "for":
        # `set a reminder for 5pm to …`, and `set a reminder for the laundry in 30 minutes`.
        found = _moment_in_front(words[1:], now)
        return found or _moment_behind("for", words[1:], now)
    return _moment_in_front(words, now) or _linked(words, now)


def _linked(words: Sequence[str], now: datetime) -> Remind | AmbiguousIntent | None:
    if not words or words[0].lower() not in _LINKS:
        return None
    return _moment_behind(words[0].lower(), words[1:], now)


def _moment_before(
    before: Sequence[str], words: Sequence[str], now: datetime
) -> Remind | AmbiguousIntent | None:
    """`In 10 minutes, remind me to …`."""
    if not vocabulary.tells_time(before) or not vocabulary.names_time(" ".join(before)):
        return None
    if not words or words[0].lower() not in _LINKS:
        return AmbiguousIntent(texts.LINK if words else texts.SAY_WHAT)
    if vocabulary.names_time(" ".join(words)):
        return AmbiguousIntent(texts.MOMENT_FIRST)
    return _checked_reminder(before, words[1:], now)


def _moment_in_front(words: Sequence[str], now: datetime) -> Remind | AmbiguousIntent | None:
    splits = [split for split in _splits(words) if vocabulary.tells_time(split[0])]
    for head, _, task in splits:
        if _problem(head, now) is None:
            return _checked_reminder(head, task, now)
    if splits:
        head, _, task = splits[0]
        return _checked_reminder(head, task, now)
    if words and _problem(words, now) is None:
        return AmbiguousIntent(texts.SAY_WHAT)
    starts_with_time = any(_problem(words[:end], now) is None for end in range(1, len(words)))
    return AmbiguousIntent(texts.LINK) if starts_with_time else None


def _splits(words: Sequence[str]) -> Iterator[_Split]:
    """Every way to cut the words into a head, a link and the rest."""
    for place in range(1, len(words)):
        word = words[place].lower()
        if word in _LINKS:
            yield list(words[:place]), word, list(words[place + 1 :])
        elif words[place - 1].endswith((":", ",")):
            head = [*words[: place - 1], words[place - 1][:-1]]
            yield head, "", list(words[place:])


def _moment_behind(
    link: str, words: Sequence[str], now: datetime
) -> AmbiguousIntent | Remind | None:
    """`remind me to call mum at 5pm`: only where the moment cannot belong to the task itself."""
    for start in range(1, len(words)):
        if _problem(words[start:], now) is None:
            task, when = words[:start], words[start:]
            return (
                AmbiguousIntent(texts.MOMENT_FIRST)
                if _may_belong_to_task(link, task, when)
                else _checked_reminder(when, task, now)
            )
    for start in range(1, len(words)):
        when = words[start:]
        if vocabulary.tells_time(when) and vocabulary.names_time(" ".join(when)):
            return AmbiguousIntent(_problem(when, now) or texts.MOMENT_FIRST)
    if not words:
        return None
    return AmbiguousIntent(
        texts.MOMENT_FIRST if vocabulary.names_time(" ".join(words)) else texts.WHEN
    )


def _may_belong_to_task(link: str, task: Sequence[str], when: Sequence[str]) -> bool:
    """Whether the moment may be when something in the task takes place."""
    is_length = when[0].lower() == "in" or when[-1].lower() == "now"
    if link == "that" or (link != "to" and not is_length):
        return True
    return when[0].lower() in _ALSO_A_WORD or vocabulary.may_own_the_moment(" ".join(task))


def _checked_reminder(
    when: Sequence[str], words: Sequence[str], now: datetime
) -> Remind | AmbiguousIntent:
    """The reminder at the moment `when`, unless something about the task is doubtful."""
    phrase, task = " ".join(when).rstrip(",:"), " ".join(words)
    if problem := _problem(when, now):
        return AmbiguousIntent(problem)
    if vocabulary.names_no_task(task):
        return AmbiguousIntent(texts.SAY_WHAT)
    if vocabulary.is_more_than_one(task) or _FRAME.search(task) or "\\" in task:
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(task):
        return AmbiguousIntent(texts.DOUBT)
    if vocabulary.names_rhythm(task):
        return AmbiguousIntent(texts.RHYTHM)
    has_other_day = vocabulary.names_day(task) and not _has_day(phrase)
    if has_other_day or vocabulary.names_length(task) or _starts_with_time(words):
        return AmbiguousIntent(texts.MOMENT_FIRST)
    return Remind(task, phrase)


def _has_day(phrase: str) -> bool:
    return vocabulary.names_day(phrase) or phrase.lower().startswith("in ")


def _starts_with_time(words: Sequence[str]) -> bool:
    return any(
        vocabulary.tells_time(words[:end]) and vocabulary.names_time(" ".join(words[:end]))
        for end in range(1, len(words) + 1)
    )


def _problem(words: Sequence[str], now: datetime) -> str | None:
    """Why the words are not one future moment; None if they are."""
    try:
        parse_moment(" ".join(words).rstrip(",:"), now)
    except BadPhrase as refused:
        return texts.unclear_moment(str(refused))
    return None


def cancel_intent(text: str) -> Cancel | AmbiguousIntent | None:
    """None if the text does not cancel a job."""
    for form in _CANCEL_FORMS:
        if found := form.fullmatch(text):
            kind = found.groupdict().get("kind")
            return _checked_cancel(
                JobKind(kind.lower()) if kind else None, found["subject"].strip()
            )
    return AmbiguousIntent(texts.ONE_AT_A_TIME) if _CANCEL_REQUEST.fullmatch(text) else None


def _checked_cancel(kind: JobKind | None, subject: str) -> Cancel | AmbiguousIntent:
    if _SEVERAL.search(subject) or vocabulary.is_more_than_one(subject):
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(subject):
        return AmbiguousIntent(texts.WHICH_ONE)
    return Cancel(kind, subject)


def routine_intent(text: str) -> Repeat | AmbiguousIntent | None:
    """None if the text names no repetition, or gives no order."""
    if not vocabulary.names_rhythm(text) and not _has_rhythm(text):
        return None
    for rhythm, order, is_behind in _arrangements(text):
        cron = _cron(rhythm)
        if cron is None or (is_behind and not _ORDER.fullmatch(order)):
            continue
        is_doubtful = is_behind and vocabulary.may_own_the_moment(order)
        return AmbiguousIntent(texts.RHYTHM_FIRST) if is_doubtful else _checked_routine(order, cron)
    is_order = _ORDER.fullmatch(text) or text.lower().startswith(("every ", "each ", "daily "))
    return AmbiguousIntent(texts.RHYTHM) if is_order and _ORDER.search(text) else None


def _has_rhythm(text: str) -> bool:
    return re.search(rf"\b{_DAY}s\b", text, re.IGNORECASE) is not None


def _arrangements(text: str) -> Iterator[tuple[str, str, bool]]:
    """Every way to cut the text into a rhythm and an order, the longest rhythms first.

    The third value says whether the rhythm follows the order, where it may belong to something in
    the order.
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


def _checked_routine(words: str, cron: str | AmbiguousIntent) -> Repeat | AmbiguousIntent:
    order = _ORDER.fullmatch(words)
    if order is None:
        return AmbiguousIntent(texts.ORDER)
    if isinstance(cron, AmbiguousIntent):
        return cron
    rest, verb = order["rest"], order["verb"].lower()
    if verb == "remind me" and not _REMINDED.fullmatch(rest):
        return AmbiguousIntent(texts.ORDER)
    if vocabulary.names_no_task(rest.partition(" ")[2] or rest):
        return AmbiguousIntent(texts.SAY_WHAT)
    if vocabulary.is_more_than_one(rest) or "\\" in rest:
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(rest):
        return AmbiguousIntent(texts.DOUBT)
    has_other_time = vocabulary.names_rhythm(rest) or vocabulary.names_clock(rest)
    if has_other_time or _names_other_day(rest):
        return AmbiguousIntent(texts.RHYTHM)
    return Repeat(f"{verb} {rest}", cron)


def _names_other_day(rest: str) -> bool:
    """A daily question may be about that very day."""
    return vocabulary.names_day(re.sub(r"\b(?:today|tomorrow|tonight)\b", "", rest, flags=re.I))


def _cron(words: str) -> str | AmbiguousIntent | None:
    """None if the words are not a rhythm."""
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


def _interval(every: re.Match[str]) -> str | AmbiguousIntent:
    count = every["count"] or "1"
    number = NUMBERS.get(count) or int(count)
    whole, shortest = (24, 1) if every["unit"] == "hour" else (60, _SHORTEST_MINUTES)
    if not shortest <= number < whole or whole % number:
        return AmbiguousIntent(texts.RHYTHM)
    step = "*" if number == 1 else f"*/{number}"
    return f"0 {step} * * *" if every["unit"] == "hour" else f"{step} * * * *"


def _days(found: re.Match[str]) -> str:
    if found["weekdays"]:
        return "1-5"
    named = found["named"] or found["plural"]
    if not named:
        return "*"
    return ",".join(str(place) for place, name in enumerate(_DAY_NAMES) if name in named)


def _at(words: str, days: str, part: str) -> str | AmbiguousIntent | None:
    try:
        time = read_time(words)
    except Unclear:
        return AmbiguousIntent(texts.RHYTHM)
    if time is None:
        if words:
            return None
        if not part:
            return AmbiguousIntent(texts.RHYTHM_WITHOUT_TIME)
        time = ClockTime((PARTS[part].usual,))
    hours = [hour for hour in time.hours if not part or hour in PARTS[part].hours]
    is_open = len(hours) > 1 and hours[0] not in _DAYTIME
    # The midnight of a day can be its start or its end.
    if not hours or is_open or time.second or (hours[0] == MIDNIGHT and days != "*"):
        return AmbiguousIntent(texts.RHYTHM)
    return f"{time.minute} {hours[0] % 24} * * {days}"


def schedule_intent(text: str, now: datetime) -> ScheduleIntent | None:
    """None if there is no intent; `AmbiguousIntent` if part of the text is unclear."""
    if len(text) > _LONGEST:
        return None
    lines = [" ".join(line.split()) for line in text.splitlines()]
    spoken = [line for line in lines if line and not is_courteous(line)]
    intents = [intent for intent in (_of_line(line, now) for line in spoken) if intent]
    if len(spoken) == 1 or not intents:
        return intents[0] if intents else None
    return AmbiguousIntent(texts.ONE_AT_A_TIME)


def _of_line(line: str, now: datetime) -> ScheduleIntent | None:
    core = _without_courtesies(line)
    words = core.rstrip(" .!?…")
    intent = cancel_intent(words) or routine_intent(words) or reminder_intent(words, now)
    if intent and core.endswith("?") and not _ASKED.match(core):
        return AmbiguousIntent(texts.ASKED_OR_TOLD)
    return intent


def _without_courtesies(line: str) -> str:
    pieces = _PIECES.split(line)
    while len(pieces) > 1 and is_courteous(pieces[0]):
        pieces = pieces[1:]
    while len(pieces) > 1 and is_courteous(pieces[-1]) and not _quotes(" ".join(pieces[:-1])):
        pieces = pieces[:-1]
    core = " ".join(pieces)
    if opening := _OPENING.match(core):
        core = core[opening.end() :]
    closing = _CLOSING.search(core)
    if closing and not _quotes(core[: closing.start()]):
        core = core[: closing.start()]
    return core.rstrip(" ,")


def _quotes(text: str) -> bool:
    return _SAYING.search(text) is not None
