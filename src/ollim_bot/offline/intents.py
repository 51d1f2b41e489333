"""Reads from a message what the owner wants: a reminder, a routine, a change, or a task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.values.phrases.durations import Unclear, is_duration, normalized, spelled_out
from ollim_bot.kernel.values.phrases.moment import WEEKDAY, is_moment, parse_moment
from ollim_bot.kernel.values.phrases.rhythm import (
    RHYTHM_EXAMPLES,
    is_interval,
    is_repeat,
    read_rhythm,
)
from ollim_bot.kernel.values.wishes import is_dose, is_order, without_nag
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.change_intents import change_intent, task_intent
from ollim_bot.offline.phrasings import is_courteous
from ollim_bot.offline.server import FollowUp
from ollim_bot.offline.situation import time_question
from ollim_bot.offline.vocabulary import (
    POLITELY,
    AmbiguousIntent,
    Remind,
    RoutineWish,
    ScheduleIntent,
    SettleItem,
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
_FORGET = r"do(?:n['’]?t| not) (?:let me )?forget"
_OFTEN = r"i (?:(?:keep|always|often|just|usually|must not|can ?not|can['’]?t) )+"
_HELP = r"(?:help me |make sure i |i (?:have|need|want|must)(?: to)? )?"
_NEW = r"(?:(?:add|set|make|create|start|give) (?:me )?)?(?:an? )?"
_TIME = r"((?:[\w: ]|\.(?=\d))+)"
_TIMER = r"(?:timer|pomodoro|countdown)"
_LENGTH = r"((?:[1-9]\d{0,2}|an?|half an) ?(?:minutes?|mins?|hours?|hrs?|h|m))"
# What people say instead of `remind me`, each with a phrase that means the same.
_SAME = tuple(
    (re.compile(rf"{POLITELY}?{form}", re.IGNORECASE), same)
    for form, same in (
        (rf"{_FORGET} (?=to )", "remind me "),
        (rf"{_FORGET} ", "remind me of "),
        (r"(?:ping|nudge|tell|message|text|bug|poke|buzz|alert) me (?=.*\bto )", "remind me "),
        (rf"{_NEW}reminder: ?", "remind me to "),
        (rf"{_OFTEN}forget(?:ting)? (?=to )|{_HELP}remember (?=to )", "remind me "),
        (rf"{_OFTEN}forget(?:ting)? (?!(?:everything|it|things|stuff|all)\b)", "remind me of "),
        (r"keep (?:on )?\w+ing me (?:until|till) i(?:['’]?ve| have)? ", "remind me of "),
        (rf"{_NEW}alarm (?:for )?{_TIME}$", r"remind me \1: alarm"),
    )
)
_TIMERS = tuple(
    (re.compile(rf"{POLITELY}?{form}", re.IGNORECASE), same)
    for form, same in (
        (rf"{_NEW}(\d+ ?\w+) {_TIMER} for (.+)$", r"remind me in \1: \2"),
        (
            rf"{_NEW}(?:the )?{_TIMER}:? (?:to go off )?(?:for |of |to |in )?{_TIME}$",
            rf"remind me in \1: {texts.TIMER_OVER}",
        ),
        (rf"{_NEW}(\w+ \w+) {_TIMER}$", rf"remind me in \1: {texts.TIMER_OVER}"),
        (rf"\A{_LENGTH}\Z", rf"remind me in \1: {texts.TIMER_OVER}"),
    )
)
_WAKE = re.compile(rf"{POLITELY}?wake me(?: up)? (?P<when>.+)", re.IGNORECASE)
_DUTY = re.compile(
    r"(?:i |i['’]?ve )?(?:need to|have to|have got to|got to|gotta|must|should|ought to) ",
    re.IGNORECASE,
)
_REMIND_ME_BEHIND = re.compile(r"[,.;]? (?:please )?remind me(?: of it| about it)?$", re.IGNORECASE)
_EVENT = (
    r"(?:(?:after|before|around|at|during) (?:the |my )?(?:lunch|dinner|breakfast|supper|tea|work"
    r"|school|bed|class|gym|church)(?: ?time)?|(?:at |around )?(?:lunch|dinner|bed) ?time"
    r")"
)
# A time of day that only the owner knows.
_AT_SOME_EVENT = re.compile(
    rf"(?P<when>{_EVENT})(?: today| tomorrow)?,? (?:to|that|about|of) (?P<task>.+)"
    rf"|to (?P<first>.+?) (?P<later>{_EVENT})",
    re.IGNORECASE,
)
# `at 11 to go to bed` is not eleven in the morning, whatever the clock shows.
_BARE_HOUR = re.compile(r"(?:\bat )?\b((?:[7-9]|1[0-2])(?::[0-5]\d)?)$")
_OF_THE_EVENING = re.compile(r"\b(?:bed|sleep|dinner|supper|pyjamas|night)\b", re.IGNORECASE)
_VAGUELY = re.compile(r"next|last|by|before|around|about|after|until|till|coming", re.IGNORECASE)
_ORDER = re.compile(
    rf"{POLITELY}?(?P<verb>(?:remind|ask|tell|show|give|send|message|ping|nudge|wish"
    r"|prompt) me|summari[sz]e|review|sum up|look (?:up|at|through)|research|analy[sz]e|compare"
    r"|draft|go through|brief me on) (?P<rest>.+)",
    re.IGNORECASE,
)
_YEARLY = re.compile(r"\b(?:every|each) year\b|\b(?:yearly|annually)\b", re.IGNORECASE)
_RHYTHM = re.compile(
    r"\b(?:(?:sun|mon|tues|wednes|thurs|fri|satur)days(?! from (?:now|today))|weekends"
    r"|(?:once|twice|times) a (?:day|week)|fortnightly|of the month)\b",
    re.IGNORECASE,
)
_REMINDED = re.compile(r"(?:to|that|about|of) \S.*", re.IGNORECASE)
# A longer text is not a single order.
_LONGEST = 400
# What a question about a due item becomes once it is answered.
_SETTLING = re.compile(r"answer (?P<key>[0-9a-f]{12}): (?P<words>.+)")
_TO_BE_REMINDED = re.compile(r"^i (?:need|want|have|would like) to be reminded\b", re.IGNORECASE)
_MISSPELLED = re.compile(r"\b(r\w{3,6}?) ?(?:me|em)\b", re.IGNORECASE)
_NO_END = frozenset(("to", "and", "of", "at", "on", "in", "the", "a", "an", "or", "by", "about"))
# Words that begin a question, a story or an order of another kind.
_NO_GUESS = re.compile(
    r"(?:wh\w+|how|am i|i (?:hate|love|like|am)|did|do|does|are|is|was|were|will|would|can|could"
    r"|have you|has|you|he|she|they|we|\w+ (?:me|us)\b(?<!remind me)|/)\b"
    r"|.*\b(?:you|was|were|yesterday|ago)\b",
    re.IGNORECASE,
)
# `13h30` is a time of day, or a length.
_CLOCK_OR_LENGTH = re.compile(r"(?:1[3-9]|2[0-3])h[0-5][0-9]")
_LINK_WORD = re.compile(r"(?:at|on|for|by|from)", re.IGNORECASE)
_ASKING = re.compile(
    r"^(?:(?:so|i|please|set|add|make|an?|new|reminder|remind me|need|want|have|got|gotta|its"
    r"|it is|it['’]s|note to self|for|to|of|about|that)\b[ :,]*)+|^(?:remind me|reminder)$"
    r"|(?:[ ,]+(?:to|at|on|for|by|from|every|is|are|and|remind me|reminder|please))+$",
    re.IGNORECASE,
)
_SOME_TIME_BEFORE = re.compile(
    r"\b(?:minutes?|mins?|hours?|hrs?|days?|weeks?) before (?P<event>.+)", re.IGNORECASE
)
# A longer text tells a story.
_LONGEST_GUESS = 120
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
    if waking := _WAKE.fullmatch(text):
        # `wake me at 7`: an hour that can be read two ways is one of the morning.
        words = waking["when"]
        for when in (words, f"{words} in the morning"):
            if is_moment(when, now):
                return Remind("wake up", when)
        return _unclear([words], "wake up", now) if vocabulary.tells_time(words.split()) else None
    for form, same in (*_SAME, *_TIMERS):
        found = form.search(text)
        if found and (not found.start() or vocabulary.tells_time(text[: found.start()].split())):
            intent = _framed(form.sub(same, text, count=1), now)
            if (form, same) in _TIMERS and isinstance(intent, Remind):
                return replace(intent, is_timer=True)
            return intent
    return _framed(text, now)


def _framed(text: str, now: datetime) -> Remind | AmbiguousIntent | None:
    frame = _FRAME.search(text)
    if _REMIND_ME_BEHIND.search(text):
        said = _REMIND_ME_BEHIND.sub("", text)
        return _errand(said, now) or _without_link(said.split(), now)
    if frame is None:
        return _errand(text, now)
    before, words = text[: frame.start()].split(), text[frame.end() :].split()
    if before:
        # `In 10 minutes, remind me to …`.
        if not vocabulary.tells_time(before) or not vocabulary.names_time(" ".join(before)):
            return None
        if not words or words[0].lower() not in _LINKS:
            return AmbiguousIntent(texts.LINK if words else texts.SAY_WHAT)
        if vocabulary.names_time(" ".join(words)):
            return AmbiguousIntent(texts.MOMENT_FIRST)
        return _checked_reminder(before, words[1:], now)
    if frame["noun"] and words and words[0].lower() == "for":
        # `set a reminder for 5pm to …`, and `set a reminder for the laundry in 30 minutes`.
        found = _moment_in_front(words[1:], now)
        return found or _moment_behind("for", words[1:], now)
    found = _moment_in_front(words, now)
    if not found and words and words[0].lower() in _LINKS:
        found = _moment_behind(words[0].lower(), words[1:], now)
    is_bare = not found and vocabulary.is_errand(" ".join(words))
    return _moment_behind("to", words, now) if is_bare else found


def _errand(text: str, now: datetime) -> Remind | AmbiguousIntent | None:
    """`call mum at 5pm`, `tea in 10 minutes`: without `remind me`, only an obvious task."""
    duty = _DUTY.match(text)
    words = text[duty.end() if duty else 0 :].split()
    for end in range(len(words) - 1, 0, -1):
        when, rest = words[:end], " ".join(words[end:])
        is_task = vocabulary.is_errand(rest) or vocabulary.is_thing(rest)
        if is_task and _is_moment(when, now):
            reminder = _unless_left(_checked_reminder(when, words[end:], now), words[end])
            return AmbiguousIntent(texts.MOMENT_FIRST) if vocabulary.names_time(rest) else reminder
        if vocabulary.is_thing(" ".join(when)) and vocabulary.tells_time(words[end:]):
            return _moment_behind("to", words, now)
    task = " ".join(words)
    if not vocabulary.is_errand(task):
        return None
    intent = _moment_behind("to", words, now)
    is_only_a_task = intent == _ask_when(task) and not vocabulary.month_of(task)[1]
    return None if is_only_a_task and not duty else intent


def _is_about_time(words: Sequence[str]) -> bool:
    return vocabulary.tells_time(words) and vocabulary.names_time(" ".join(words))


def _moment_in_front(words: Sequence[str], now: datetime) -> Remind | AmbiguousIntent | None:
    if found := _AT_SOME_EVENT.fullmatch(" ".join(words)):
        when, task = found["when"] or found["later"], found["task"] or found["first"]
        return AmbiguousIntent(texts.when_is(when), time_question(f"remind me {{}}: {task}"))
    # The longest first: `at ten to five to leave`.
    splits = [split for split in _splits(words) if vocabulary.tells_time(split[0])][::-1]
    for head, task in splits:
        if _is_moment(head, now):
            return _checked_reminder(head, task, now)
    if splits:
        return _checked_reminder(*splits[0], now)
    if words and (_is_moment(words, now) or _is_about_time(words)):
        return AmbiguousIntent(texts.SAY_WHAT, FollowUp(blank=f"remind me {' '.join(words)}: {{}}"))
    return _without_link(words, now)


def _without_link(words: Sequence[str], now: datetime) -> Remind | AmbiguousIntent | None:
    """`sat 11am haircut`: ask whether the moment is when to remind, unless a task follows it."""
    ends = [end for end in range(1, len(words)) if _is_moment(words[:end], now)]
    if not ends:
        return None
    found = _checked_reminder(words[: ends[-1]], words[ends[-1] :], now)
    reminder = _unless_left(found, words[ends[-1]])
    task = " ".join(words[ends[-1] :])
    is_task = vocabulary.is_errand(task) or vocabulary.is_thing(task)
    return reminder if is_task else _asked(reminder)


def _splits(words: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Every way to cut the words at a link, a colon or a comma."""
    for place in range(1, len(words)):
        word = words[place].lower()
        if word in _LINKS:
            yield words[:place], words[place + 1 :]
        elif words[place - 1].endswith((":", ",")):
            yield [*words[: place - 1], words[place - 1][:-1]], words[place:]


def _moment_behind(
    link: str, words: Sequence[str], now: datetime
) -> AmbiguousIntent | Remind | None:
    """`remind me to call mum at 5pm`: only where the moment cannot belong to the task itself."""
    place = vocabulary.misspelled_day(words)
    starts = range(1, len(words))
    start = next((each for each in starts if _is_moment(words[each:], now)), None)
    if start is not None and place is None:
        place = _start_of_time(words, start)
    if start is not None and place == start:
        task, when = words[:start], words[start:]
        reminder = _unless_left(_checked_reminder(when, task, now), task[-1])
        return _asked(reminder) if _may_belong_to_task(link, task, when) else reminder
    if place is None:
        place = next((each for each in starts if _is_about_time(words[each:])), None)
    if place is not None:
        unclear = _unclear(words[place:], " ".join(words[:place]), now)
        return unclear or AmbiguousIntent(texts.MOMENT_FIRST)
    if not words:
        return None
    task = " ".join(words)
    if vocabulary.names_time(task):
        return AmbiguousIntent(texts.MOMENT_FIRST)
    return _doubt(task, task) or _ask_when(task)


def _start_of_time(words: Sequence[str], start: int) -> int:
    """Where the time begins, with a date or another time before the moment."""
    if words[start - 1].lower() in ("and", "or"):
        return next((each for each in range(1, start) if _is_about_time(words[each:])), start)
    if _VAGUELY.fullmatch(words[start - 1]):
        return start - 1
    first = start
    while first > 2 and vocabulary.tells_date(words[first - 2 : first]):
        first -= 1
    return first - 1 if first < start and words[first - 1].lower() == "on" else first


def _asked(intent: Remind | AmbiguousIntent) -> AmbiguousIntent:
    """Ask whether the moment is when to remind, with the words that make it so."""
    if isinstance(intent, AmbiguousIntent):
        return intent
    whole = f"remind me {normalized(intent.when)}: {intent.task}"
    return AmbiguousIntent(texts.confirmed(whole), FollowUp(((intent.when, whole),)))


def _unless_left(intent: Remind | AmbiguousIntent, *beside: str) -> Remind | AmbiguousIntent:
    """The intent, unless a word beside its moment may belong to the moment: that is asked."""
    if isinstance(intent, AmbiguousIntent):
        return intent
    if vocabulary.ends_in_time(intent.task):
        return AmbiguousIntent(texts.MOMENT_FIRST)
    left = next(filter(vocabulary.is_left_of_time, beside), "")
    if not left:
        return intent
    whole = f"remind me {normalized(intent.when)}: {intent.task}"
    if vocabulary.tells_number(left):
        return AmbiguousIntent(texts.number_beside(left, whole), FollowUp(((intent.when, whole),)))
    task = intent.task.removesuffix(f" {left}").removeprefix(f"{left} ")
    return AmbiguousIntent(texts.left_beside(left), time_question(f"remind me {{}}: {task}"))


def _ask_when(task: str) -> AmbiguousIntent:
    bare, month = vocabulary.month_of(task)
    if month:
        question = time_question(f"remind me {{}}: {bare}")
        forms = (f"remind me {month} {{}}: {bare}", *question.forms)
        return AmbiguousIntent(texts.when_in(month, bare), FollowUp(forms=forms))
    return AmbiguousIntent(texts.when(task), time_question(f"remind me {{}}: {task}"))


def _unclear(words: Sequence[str], task: str, now: datetime) -> AmbiguousIntent | None:
    """What a doubtful moment of the task leaves to ask; None if it is one future moment."""
    phrase = " ".join(words).rstrip(",:")
    try:
        parse_moment(phrase, now)
    except BadPhrase as refused:
        whole = normalized(phrase)
        rhythms = (f"every day {whole}", f"every {whole}") if " and " in whole else ()
        if daily := next((each for each in rhythms if isinstance(_rhythm(each, "", now), str)), ""):
            whole = f"{daily} remind me {'to' if vocabulary.is_errand(task) else 'of'} {task}"
            return AmbiguousIntent(texts.more_moments(phrase, daily), FollowUp(((daily, whole),)))
        parts = task.split()
        for start in range(1, len(parts)):
            # `tomorrow call mum at 5pm`
            whole = f"{phrase} {' '.join(parts[start:])}"
            if is_moment(whole, now):
                task_before = Remind(" ".join(parts[:start]), whole)
                return _asked(_unless_left(task_before, parts[start - 1]))
        # A task that has another time in it may not be what the readings would make of it.
        is_whole = not vocabulary.names_clock(task) and not any(
            vocabulary.is_left_of_time(each) for each in (*parts[:1], *parts[-1:])
        )
        readings = refused.readings if is_whole else ()
        question = time_question(f"remind me {{}}: {task}", readings, phrase, now)
        return AmbiguousIntent(texts.unclear_moment(str(refused)), question if task else FollowUp())
    return None


def _may_belong_to_task(link: str, task: Sequence[str], when: Sequence[str]) -> bool:
    """Whether the moment may be when something in the task takes place."""
    is_length = when[0].lower() == "in" or when[-1].lower() == "now"
    if link == "that" or (link != "to" and not is_length and not is_dose(" ".join(task))):
        return True
    return when[0].lower() in _ALSO_A_WORD or vocabulary.may_own_the_moment(" ".join(task))


def _checked_reminder(
    when: Sequence[str], words: Sequence[str], now: datetime
) -> Remind | AmbiguousIntent:
    """The reminder at the moment `when`, unless something about the task is doubtful."""
    phrase, task = " ".join(when).rstrip(",:"), " ".join(words)
    if problem := _unclear(when, task, now):
        return problem
    if (hour := _BARE_HOUR.search(phrase)) and _OF_THE_EVENING.search(task):
        readings = [f"{phrase[: hour.start()]}{hour[1]}{half}" for half in ("am", "pm")]
        question = time_question(f"remind me {{}}: {task}", readings)
        return AmbiguousIntent(texts.which_half(phrase, readings), question)
    if doubt := _doubt(task, task):
        return doubt
    if _FRAME.search(task):
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    if vocabulary.names_rhythm(task):
        return AmbiguousIntent(texts.RHYTHM)
    has_day = vocabulary.names_day(phrase) or phrase.lower().startswith("in ")
    has_other_day = vocabulary.names_day(task) and not has_day
    starts_with_time = any(_is_about_time(words[:end]) for end in range(1, len(words) + 1))
    if has_other_day or vocabulary.names_length(task) or starts_with_time:
        return AmbiguousIntent(texts.MOMENT_FIRST)
    return Remind(task, phrase)


def _doubt(task: str, thing: str) -> AmbiguousIntent | None:
    """Why a task is not taken as it is; `thing` is the part of it that must say what is meant."""
    if vocabulary.names_no_task(thing):
        return AmbiguousIntent(texts.SAY_WHAT)
    if vocabulary.is_more_than_one(task) or "\\" in task:
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    return AmbiguousIntent(texts.DOUBT) if vocabulary.is_negated(task) else None


def _is_moment(words: Sequence[str], now: datetime) -> bool:
    return is_moment(" ".join(words).rstrip(",:"), now)


def routine_intent(text: str, now: datetime) -> RoutineWish | AmbiguousIntent | None:
    """None if the text names no repetition, or gives no order."""
    if not vocabulary.names_rhythm(text) and not _has_rhythm(text):
        return None
    said, mark, task = text.removeprefix("remind me ").partition(": ")
    if mark and text.startswith("remind me ") and vocabulary.names_rhythm(said):
        text = f"{said} remind me {'to' if vocabulary.is_errand(task) else 'of'} {task}"
    if _YEARLY.search(text):
        return AmbiguousIntent(texts.NOT_YEARLY)
    for rhythm, order, is_behind in _arrangements(text):
        cron = _rhythm(rhythm, order, now)
        if cron is None or (is_behind and not _order(order)):
            continue
        end = vocabulary.unread_end(order)
        joined = _rhythm(f"{rhythm} {end}", order.removesuffix(f" {end}"), now) if end else None
        if joined is not None:
            rhythm, order, cron = f"{rhythm} {end}", order.removesuffix(f" {end}"), joined
        return _arranged(rhythm, order, cron, is_behind=is_behind)
    if vocabulary.unread_end(text):
        return _with_its_end(text, now)
    is_order = _ORDER.fullmatch(text) or text.lower().startswith(("every ", "each ", "daily "))
    return AmbiguousIntent(texts.RHYTHM) if is_order and _ORDER.search(text) else None


def _arranged(
    rhythm: str, order: str, cron: str | AmbiguousIntent, *, is_behind: bool
) -> RoutineWish | AmbiguousIntent:
    """The routine, unless a word at the cut may belong to the rhythm."""
    left = order.split()[-1 if is_behind else 0]
    is_left = vocabulary.is_left_of_time(left)
    if is_left and not vocabulary.tells_number(left):
        return AmbiguousIntent(texts.left_beside(left))
    if is_behind and vocabulary.may_own_the_moment(order):
        return AmbiguousIntent(texts.RHYTHM_FIRST)
    wish = _checked_routine(order, cron)
    if not isinstance(wish, RoutineWish):
        return wish
    if is_left:
        whole = f"{rhythm} {wish.message}"
        return AmbiguousIntent(texts.number_beside(left, whole), FollowUp(((rhythm, whole),)))
    is_worded = is_interval(normalized(rhythm)) or is_repeat(wish.cron)
    return replace(wish, every=rhythm) if is_worded else wish


def _has_rhythm(text: str) -> bool:
    return _RHYTHM.search(text) is not None


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


def _checked_routine(words: str, cron: str | AmbiguousIntent) -> RoutineWish | AmbiguousIntent:
    order = _order(words)
    if order is None:
        return AmbiguousIntent(texts.ORDER)
    verb, rest = order
    if end := vocabulary.unread_end(rest):
        return AmbiguousIntent(texts.end_unread(end))
    if isinstance(cron, AmbiguousIntent):
        return cron
    if verb == "remind me" and not _REMINDED.fullmatch(rest):
        return AmbiguousIntent(texts.ORDER)
    if doubt := _doubt(rest, rest.partition(" ")[2] or rest):
        return doubt
    if verb != "remind me" and vocabulary.adds_errand(rest):
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    has_other_time = vocabulary.names_rhythm(rest) or vocabulary.names_clock(rest)
    if has_other_time or _names_other_day(rest):
        return AmbiguousIntent(texts.RHYTHM)
    return RoutineWish(f"{verb} {rest}", cron)


def _names_other_day(rest: str) -> bool:
    """Whether the order names a day: a daily question may be about that very day."""
    return vocabulary.names_day(re.sub(r"\b(?:today|tomorrow|tonight)\b", "", rest, flags=re.I))


def _order(words: str) -> tuple[str, str] | None:
    """What to do at each time, as its verb and the rest.

    A bare task or thing is something to be reminded of, unless the agent has to look or judge.
    """
    if found := _ORDER.fullmatch(words):
        return found["verb"].lower(), found["rest"]
    if is_order(words):
        verb, _, rest = words.partition(" ")
        return verb, rest
    link = "to" if vocabulary.is_errand(words) else "of" if vocabulary.is_thing(words) else ""
    return ("remind me", f"{link} {words}") if link else None


def _rhythm(words: str, order: str, now: datetime) -> str | AmbiguousIntent | None:
    """None if the words are not a rhythm; a question, if they are a doubtful one for the order."""
    try:
        return read_rhythm(normalized(words), now)
    except Unclear as unclear:
        refused = unclear.about(words, unclear.examples, RHYTHM_EXAMPLES)
        choices = tuple((each, f"{each} {order}") for each in unclear.examples)
        rhythms = (f"{words} at {{}}", f"{words} {{}}", "{}", "every day at {}", "every day {}")
        question = FollowUp(choices, tuple(f"{each} {order}" for each in rhythms))
        return AmbiguousIntent(texts.unclear_moment(str(refused)), question)


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


def guessed_intent(text: str, now: datetime) -> ScheduleIntent | None:
    """What words may ask for that no rule reads whole: a time is anywhere in them, or a typo.

    Everything but the time is what to be reminded of, and that is asked, never done.
    """
    line = _without_courtesies(_spelled(" ".join(text.split()))).rstrip(" .!…")
    if len(text) > _LONGEST_GUESS or "\n" in text.strip() or line.endswith("?"):
        return None
    if _FRAME.fullmatch(line):
        return AmbiguousIntent(texts.WHAT, FollowUp(blank="remind me to {}"))
    if _NO_GUESS.match(line) or vocabulary.is_negated(line):
        return None
    if right := vocabulary.respelled_rhythm(line.split()):
        return _readable(_confirmed(right), now) or guessed_intent(right, now)
    if vocabulary.changes_it(line):
        return AmbiguousIntent(texts.WHICH_ONE)
    if before := _SOME_TIME_BEFORE.search(line):
        event, _, task = before["event"].partition(" remind me to ")
        question = time_question(f"remind me {{}}: {task}")
        unclear = AmbiguousIntent(texts.no_counting_back(event, task), question)
        return unclear if task else _ask_when(event)
    words = line.split()
    cuts = [(words, "")] if vocabulary.tells_time(words) else [*_cuts(words)]
    for asks in (_asked_at, _asked_about, _asked_beside):
        for time, task in cuts:
            if asked := asks(time, task, now):
                return asked
    return None


def _with_its_end(line: str, now: datetime) -> AmbiguousIntent:
    """Ask about a thing in a rhythm that has an end; if the end is not understood, about that."""
    for rhythm, thing, _ in _arrangements(line):
        if vocabulary.unread_end(thing) or vocabulary.is_left_of_time(thing.split()[-1]):
            continue
        order = thing if is_order(thing) else f"remind me of {thing}"
        found = _rhythm(rhythm, order, now)
        if isinstance(found, AmbiguousIntent):
            return found
        asked = _readable(_confirmed(f"{rhythm} {order}"), now) if found else None
        if asked:
            return asked
    return AmbiguousIntent(texts.end_unread(vocabulary.unread_end(line)))


def moment_in(text: str, now: datetime) -> str:
    """The longest moment in the text; empty if there is none, or the text is long."""
    if len(text) > _LONGEST:
        return ""
    cuts = _cuts(text.strip(" .!").split())
    return next((" ".join(time) for time, _ in cuts if _is_moment(time, now)), "")


def _cuts(words: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
    """Every way to take one time, or two that may belong together, out of the words.

    The second value is the rest. The longest times come first.
    """
    ends = [(start, end) for start in range(len(words)) for end in range(start + 1, len(words) + 1)]
    spans = [
        (start, end)
        for start, end in ends
        if words[end - 1].lower() not in _NO_END and vocabulary.tells_time(words[start:end])
    ]
    spans.sort(key=lambda span: span[0] - span[1])
    for start, end in spans:
        yield words[start:end], _bare_task(words[:start], words[end:])
    for start, end in spans:
        for later, last in spans:
            if end < later:
                task = _bare_task(words[:start], words[end:later], words[last:])
                yield [*words[start:end], *words[later:last]], task


def _bare_task(*parts: Sequence[str]) -> str:
    """The words around a time without those that only ask to be reminded."""
    bare = (_ASKING.sub("", " ".join(part)).strip(" ,;:-") for part in parts)
    return " ".join(part for part in bare if part and not _LINK_WORD.fullmatch(part))


def _asked_at(words: Sequence[str], task: str, now: datetime) -> AmbiguousIntent | None:
    """Ask about a task at a time that is right."""
    phrase = normalized(" ".join(words))
    ends = (*task.split()[:1], *task.split()[-1:])
    if vocabulary.names_time(task) or any(map(vocabulary.is_left_of_time, ends)):
        return None
    if task and _CLOCK_OR_LENGTH.fullmatch(phrase):
        return _unclear(words, task, now)
    timer = f"in {phrase}" if is_duration(phrase) and not phrase.startswith("in ") else ""
    if timer or is_moment(phrase, now):
        if not task and not timer:
            asked = FollowUp(blank=f"remind me {phrase}: {{}}")
            return AmbiguousIntent(texts.what_at(phrase), asked)
        return _readable(_asked(Remind(task or texts.TIMER_OVER, timer or phrase)), now)
    days = re.findall(rf"\b{WEEKDAY}\b", phrase)
    rhythm = f"every {phrase}" if len(days) > 1 and not vocabulary.names_rhythm(phrase) else phrase
    if not task and isinstance(_rhythm(rhythm, "", now), str):
        asked = FollowUp(blank=f"{rhythm} remind me of {{}}")
        return AmbiguousIntent(texts.what_at(rhythm), asked)
    if isinstance(_rhythm(rhythm, "", now), str):
        whole = task if is_order(task) else f"remind me of {task}"
        return _readable(_confirmed(f"{rhythm} {whole}"), now)
    return None


def _asked_beside(words: Sequence[str], task: str, now: datetime) -> AmbiguousIntent | None:
    """Ask about a word of time that stands beside a time that is right."""
    ends, phrase = task.split(), normalized(" ".join(words))
    if not ends or vocabulary.names_time(task) or not is_moment(phrase, now):
        return None
    asked = _unless_left(Remind(task, phrase), ends[0], ends[-1])
    return asked if isinstance(asked, AmbiguousIntent) else None


def _confirmed(whole: str) -> AmbiguousIntent:
    return AmbiguousIntent(texts.confirmed(whole), FollowUp(((texts.SET_IT, whole),)))


def _readable(intent: AmbiguousIntent, now: datetime) -> AmbiguousIntent | None:
    """The question, if its answer would be understood."""
    (_, whole), *_ = intent.follow_up.choices
    return intent if isinstance(_of_line(whole, now), Remind | RoutineWish) else None


def _asked_about(words: Sequence[str], task: str, now: datetime) -> AmbiguousIntent | None:
    """Ask which time is meant."""
    names = (vocabulary.names_day, vocabulary.names_clock, vocabulary.names_rhythm)
    said = " ".join(words)
    is_date = vocabulary.tells_date([each for each in words if each.lower() != "on"])
    if not is_date and not any(
        each(said) for each in (*names, _has_rhythm, vocabulary.names_length)
    ):
        return None
    rhythm = _rhythm(said, f"remind me of {task}", now)
    if isinstance(rhythm, str):
        return None
    return rhythm or _unclear(words, task, now)


def _spelled(line: str) -> str:
    """The line with the short forms of words, and with `remind me` as it is spelled."""
    return _TO_BE_REMINDED.sub("remind me", _MISSPELLED.sub(_reminded, spelled_out(line)))


def _of_line(line: str, now: datetime) -> ScheduleIntent | None:
    if found := _SETTLING.fullmatch(line):
        return SettleItem(found["key"], found["words"])
    core = _without_courtesies(_spelled(line))
    words = core.rstrip(" .!?…")
    said, again = without_nag(re.sub(r"\bive\b", "i've", words))
    if again and (wish := routine_intent(said, now) or reminder_intent(said, now)):
        return _coming_again(wish, again)
    intent: ScheduleIntent | None = (
        task_intent(words, now)
        or change_intent(words, now)
        or routine_intent(_DUTY.sub("", words, count=1) if _DUTY.match(words) else words, now)
        or reminder_intent(words, now)
    )
    if not _is_framed(words):
        intent = _as_run(intent)
    if intent and core.endswith("?") and not _ASKED.match(core):
        return AmbiguousIntent(texts.ASKED_OR_TOLD)
    return intent


def _is_framed(text: str) -> bool:
    """Whether the owner asks to be reminded, in these words or in others."""
    return any(form.search(text) for form in (_FRAME, *(form for form, _ in _SAME)))


def _as_run(intent: ScheduleIntent | None) -> ScheduleIntent | None:
    """The same, where a bare task is one that the agent has to look at or judge."""
    if isinstance(intent, Remind):
        return replace(intent, is_run=is_order(intent.task))
    if not isinstance(intent, AmbiguousIntent):
        return intent
    asked = intent.follow_up
    choices = tuple((label, _unframed(sentence)) for label, sentence in asked.choices)
    forms = tuple(_unframed(form) for form in asked.forms)
    return replace(intent, follow_up=replace(asked, choices=choices, forms=forms))


def _unframed(sentence: str) -> str:
    when, mark, task = sentence.removeprefix("remind me ").partition(": ")
    is_run = sentence.startswith("remind me ") and mark and is_order(task)
    return f"{when} {task}" if is_run else sentence


def _reminded(found: re.Match[str]) -> str:
    """`remindme`, `remnd me`, `remind em`."""
    return "remind me" if nearest(found[1].lower(), ("remind",)) else found[0]


def _coming_again(intent: ScheduleIntent, again: str) -> ScheduleIntent:
    """The intent with what the owner said of its coming again, which the tools read."""
    match intent:
        case Remind():
            return replace(intent, task=intent.task + again)
        case RoutineWish():
            return replace(intent, message=intent.message + again)
        case AmbiguousIntent(_, asked):
            choices = tuple((label, sentence + again) for label, sentence in asked.choices)
            forms = tuple(form + again for form in asked.forms)
            return replace(intent, follow_up=replace(asked, choices=choices, forms=forms))
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
