"""Reads from a message what the owner wants: a reminder, a routine, a change, or a task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.phrases import is_moment, parse_duration, parse_moment
from ollim_bot.domain.phrases.durations import Unclear, is_duration, normalized, spelled_out
from ollim_bot.domain.phrases.rhythm import RHYTHM_EXAMPLES, is_interval, read_rhythm
from ollim_bot.domain.text import nearest
from ollim_bot.domain.wishes import without_nag
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.dialogue import time_question
from ollim_bot.offline.messages import FollowUp
from ollim_bot.offline.phrasings import is_courteous
from ollim_bot.offline.task_intents import task_intent
from ollim_bot.offline.vocabulary import (
    POLITELY,
    AmbiguousIntent,
    Change,
    Remind,
    Repeat,
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
_KIND = r"(?P<kind>reminder|routine)"
_ID = r"(?P<subject>[0-9a-f]{8})"
_THE = r"(?:the |my |that )"
_NAMED = (
    _ID,
    rf"{_THE}?{_KIND}(?P<subject>)",
    rf"{_THE}?{_KIND} (?:with (?:the )?id )?{_ID}",
    rf"{_THE}?{_KIND} (?:about|to|for|of|that) (?P<subject>.+?)",
    rf"{_THE}?(?P<subject>.+?) {_KIND}",
)
_BY_WORDS = (rf"{_THE}?(?P<subject>\S+(?: \S+){{0,2}}?)(?P<thing> (?:thing|one|stuff))?",)
_UNTIL = r"(?: back)? (?P<how>by|for|to|until|till) (?P<until>.+)"
# The verb of the command line, what people say for it with {} for the job, and how they name the
# job: only after plain verbs may its kind be left out.
_CHANGES = tuple(
    (verb, re.compile(rf"{POLITELY}?(?:{form.replace('{}', named)})", re.IGNORECASE))
    for verb, form, names in (
        ("cancel", r"(?:cancel|delete|remove|drop|forget|take back) {}", _NAMED),
        ("cancel", r"i (?:do not|don['’]?t) need {}(?: any ?more| any longer)?", _NAMED),
        ("pause", r"(?:pause|stop|disable|(?:turn|switch) off) {}(?: for now)?", _NAMED),
        ("pause", r"(?:turn|switch) {} off(?: for now)?", _NAMED),
        ("resume", r"(?:resume|unpause|enable|start|(?:turn|switch) on) {}(?: again)?", _NAMED),
        ("resume", r"(?:turn|switch) {}(?: back)? on(?: again)?", _NAMED),
        ("snooze", rf"(?:snooze|postpone|delay|move|reschedule|push) {{}}{_UNTIL}", _NAMED),
        ("snooze", r"(?:snooze|postpone) {}", _NAMED),
        ("cancel", r"(?:cancel|forget about) {}", _BY_WORDS),
        ("pause", r"pause {}(?: for now)?", _BY_WORDS),
        ("resume", r"(?:resume|unpause) {}", _BY_WORDS),
        ("resume", r"(?:re)?start {} again", _BY_WORDS),
        ("snooze", rf"(?:snooze|postpone) {{}}{_UNTIL}", _BY_WORDS),
        ("snooze", r"(?:snooze|postpone) {}", _BY_WORDS),
        ("move", rf"(?:push|move|change|reschedule|delay|shift) {{}}{_UNTIL}", _BY_WORDS),
        ("move", r"(?:push|move) {} back (?P<until>.+)", _BY_WORDS),
        ("pause", r"(?:stop|(?:turn|switch) off) (?:my )?(?P<subject>\w+)", ("",)),
        (
            "stop",
            r"(?:stop|quit) (?:reminding|nagging|bugging|telling) me (?:about|to|of) {}",
            _BY_WORDS,
        ),
        ("pause for", r"pause {} (?:for|until|till) (?!now).+", _BY_WORDS),
        ("move", r"{} (?P<until>(?:at|on|in|tomorrow|today|tonight)\b.*) instead", _BY_WORDS),
        ("skip", r"skip {} (?:today|tomorrow|tonight|this time|once|next time)", _BY_WORDS),
    )
    for named in names
)
_CHANGE_REQUEST = re.compile(
    rf"{POLITELY}?(?:cancel|delete|remove|drop|pause|snooze|resume)\b.*\b(?:reminder|routine)s?\b.*",
    re.IGNORECASE,
)
_POINTERS = re.compile(r"(?:it|this|that|me|us|you|something|anything)(?: one)?", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\b(?:and|or|all|both|every|each|any|everything|but|reminders?|routines?)\b|[,;&+.]",
    re.IGNORECASE,
)
_FORGET = r"do(?:n['’]?t| not) (?:let me )?forget"
_NEW = r"(?:(?:add|set|make|create|start|give) (?:me )?)?(?:an? )?"
_TIME = r"((?:[\w: ]|\.(?=\d))+)"
_TIMER = r"(?:timer|pomodoro|countdown)"
# What people say instead of `remind me`, each with a phrase that means the same.
_SAME = tuple(
    (re.compile(rf"{POLITELY}?{form}", re.IGNORECASE), same)
    for form, same in (
        (rf"{_FORGET} (?=to )", "remind me "),
        (rf"{_FORGET} ", "remind me of "),
        (r"(?:ping|nudge|tell|message|text|bug|poke|buzz|alert) me (?=.*\bto )", "remind me "),
        (rf"{_NEW}reminder: ?", "remind me to "),
        (r"remember to ", "remind me to "),
        (r"keep (?:on )?\w+ing me (?:until|till) i(?:['’]?ve| have)? ", "remind me of "),
        (rf"{_NEW}(\d+ ?\w+) {_TIMER} for (.+)$", r"remind me in \1: \2"),
        (rf"{_NEW}{_TIMER}:? (?:for |of )?{_TIME}$", r"remind me in \1: the timer is over"),
        (rf"{_NEW}(\w+ \w+) {_TIMER}$", r"remind me in \1: the timer is over"),
        (rf"{_NEW}alarm (?:for )?{_TIME}$", r"remind me \1: alarm"),
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
    r"|first thing)"
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
    r"\b(?:(?:sun|mon|tues|wednes|thurs|fri|satur)days|weekends|(?:once|twice|times) a (?:day|week)"
    r"|fortnightly|of the month)\b",
    re.IGNORECASE,
)
_REMINDED = re.compile(r"(?:to|that|about|of) \S.*", re.IGNORECASE)
# A longer text is not a single order.
_LONGEST = 400
# What a question about a due item becomes once it is answered.
_SETTLING = re.compile(r"answer (?P<key>[0-9a-f]{12}): (?P<words>.+)")
_TO_BE_REMINDED = re.compile(r"^i (?:need|want|have|would like) to be reminded\b", re.IGNORECASE)
_MISSPELLED = re.compile(r"\b(r[eimnd]{3,6}) ?me\b", re.IGNORECASE)
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
        return _waking(waking["when"], now)
    for form, same in _SAME:
        found = form.search(text)
        if found and (not found.start() or vocabulary.tells_time(text[: found.start()].split())):
            return _framed(form.sub(same, text, count=1), now)
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
        return _moment_before(before, words, now)
    if frame["noun"] and words and words[0].lower() == "for":
        # `set a reminder for 5pm to …`, and `set a reminder for the laundry in 30 minutes`.
        found = _moment_in_front(words[1:], now)
        return found or _moment_behind("for", words[1:], now)
    return _moment_in_front(words, now) or _linked(words, now)


def _waking(words: str, now: datetime) -> Remind | AmbiguousIntent | None:
    """`wake me at 7`: an hour that can be read two ways is one of the morning."""
    for when in (words, f"{words} in the morning"):
        if is_moment(when, now):
            return Remind("wake up", when)
    return _unclear([words], "wake up", now) if vocabulary.tells_time(words.split()) else None


def _errand(text: str, now: datetime) -> Remind | AmbiguousIntent | None:
    """`call mum at 5pm`, `tea in 10 minutes`: without `remind me`, only an obvious task."""
    duty = _DUTY.match(text)
    words = text[duty.end() if duty else 0 :].split()
    for end in range(len(words) - 1, 0, -1):
        when, rest = words[:end], " ".join(words[end:])
        is_task = vocabulary.is_errand(rest) or vocabulary.is_thing(rest)
        if is_task and _is_moment(when, now):
            reminder = _checked_reminder(when, words[end:], now)
            return AmbiguousIntent(texts.MOMENT_FIRST) if vocabulary.names_time(rest) else reminder
        if vocabulary.is_thing(" ".join(when)) and vocabulary.tells_time(words[end:]):
            return _moment_behind("to", words, now)
        if vocabulary.begins_with_event(rest) and _is_moment(when, now):
            return _asked(_checked_reminder(when, words[end:], now))
    for end in range(len(words) - 1, 0, -1):
        is_errand = vocabulary.is_errand(" ".join(words[end:]))
        if is_errand and _is_about_time(words[:end]):
            return _checked_reminder(words[:end], words[end:], now)
    task = " ".join(words)
    if not vocabulary.is_errand(task) and not vocabulary.begins_with_event(task):
        return None
    intent = _moment_behind("to", words, now)
    return None if intent == _ask_when(task) and not duty else intent


def _is_about_time(words: Sequence[str]) -> bool:
    return vocabulary.tells_time(words) and vocabulary.names_time(" ".join(words))


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


def _without_link(words: Sequence[str], now: datetime) -> AmbiguousIntent | None:
    """`sat 11am haircut`: ask whether the moment at the beginning is when to remind."""
    ends = [end for end in range(1, len(words)) if _is_moment(words[:end], now)]
    return _asked(_checked_reminder(words[: ends[-1]], words[ends[-1] :], now)) if ends else None


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
        reminder = _checked_reminder(when, task, now)
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
    """Where the time begins, with what stands before the moment: a date, or another time."""
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
    return AmbiguousIntent(texts.moment_first(whole), FollowUp(((intent.when, whole),)))


def _ask_when(task: str) -> AmbiguousIntent:
    return AmbiguousIntent(texts.when(task), time_question(f"remind me {{}}: {task}"))


def _unclear(words: Sequence[str], task: str, now: datetime) -> AmbiguousIntent | None:
    """What a doubtful moment of the task leaves to ask; None if it is one future moment."""
    phrase = " ".join(words).rstrip(",:")
    try:
        parse_moment(phrase, now)
    except BadPhrase as refused:
        daily = f"every day {phrase}"
        if " and " in phrase and isinstance(_cron(daily, ""), str):
            whole = f"{daily} remind me {'to' if vocabulary.is_errand(task) else 'of'} {task}"
            return AmbiguousIntent(texts.more_moments(phrase, daily), FollowUp(((daily, whole),)))
        question = time_question(f"remind me {{}}: {task}", refused.readings, phrase, now)
        return AmbiguousIntent(texts.unclear_moment(str(refused)), question if task else FollowUp())
    return None


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
    if has_other_day or vocabulary.names_length(task) or _starts_with_time(words):
        return AmbiguousIntent(texts.MOMENT_FIRST)
    return Remind(task, phrase)


def _doubt(task: str, thing: str) -> AmbiguousIntent | None:
    """Why a task is not taken as it is; `thing` is the part of it that must say what is meant."""
    if vocabulary.names_no_task(thing):
        return AmbiguousIntent(texts.SAY_WHAT)
    if vocabulary.is_more_than_one(task) or "\\" in task:
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    return AmbiguousIntent(texts.DOUBT) if vocabulary.is_negated(task) else None


def _starts_with_time(words: Sequence[str]) -> bool:
    return any(
        vocabulary.tells_time(words[:end]) and vocabulary.names_time(" ".join(words[:end]))
        for end in range(1, len(words) + 1)
    )


def _is_moment(words: Sequence[str], now: datetime) -> bool:
    return is_moment(" ".join(words).rstrip(",:"), now)


def change_intent(text: str, now: datetime) -> Change | AmbiguousIntent | None:
    """None if the text does not change a job that is there."""
    doubt = None
    for verb, form in _CHANGES:
        if found := form.fullmatch(text):
            change = _checked_change(verb, found.groupdict(), now)
            if isinstance(change, Change):
                return change
            doubt = doubt or change
    is_request = _CHANGE_REQUEST.fullmatch(text)
    return doubt or (AmbiguousIntent(texts.ONE_AT_A_TIME) if is_request else None)


def _checked_change(
    verb: str, said: Mapping[str, str | None], now: datetime
) -> Change | AmbiguousIntent | None:
    subject, kind = (said["subject"] or "").strip(), said.get("kind")
    if _SEVERAL.search(subject) or vocabulary.is_more_than_one(subject):
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(subject):
        return AmbiguousIntent(texts.WHICH_ONE)
    is_event = vocabulary.names_event(subject) and not said.get("thing") and verb != "move"
    if kind is None and (_POINTERS.fullmatch(subject) or is_event):
        return None
    until = said.get("until") or ""
    if verb == "skip":
        return AmbiguousIntent(texts.no_single_skip(subject))
    if verb in ("stop", "pause for"):
        choices = (("Pause it", f"pause {subject}"), ("Cancel it", f"cancel {subject}"))
        return AmbiguousIntent(texts.stop_how(subject), FollowUp(choices))
    if verb == "move" and not vocabulary.tells_time(until.split()):
        return None
    if verb in ("snooze", "move"):
        return _snooze(kind or "", subject, said.get("how") or "", until, now)
    return Change(verb, JobKind(kind.lower()) if kind else None, subject)


def _snooze(
    kind: str, subject: str, how: str, until: str, now: datetime
) -> Change | AmbiguousIntent:
    if kind.lower() == JobKind.ROUTINE:
        return AmbiguousIntent(texts.NO_SNOOZE)
    form = (
        f"snooze the reminder about {subject} until {{}}" if subject else "snooze the reminder {}"
    )
    if not until:
        return AmbiguousIntent(texts.until_when(subject or "the reminder"), time_question(form))
    is_length = how.lower() in ("by", "for") or (not how and is_duration(until))
    try:
        _ = parse_duration(until) if is_length else parse_moment(until, now)
    except BadPhrase as refused:
        readings = () if is_length else refused.readings
        question = time_question(form, readings, until, now)
        return AmbiguousIntent(texts.unclear_moment(str(refused)), question)
    return Change("snooze", JobKind.REMINDER, subject, ("--for" if is_length else "--until", until))


def routine_intent(text: str) -> Repeat | AmbiguousIntent | None:
    """None if the text names no repetition, or gives no order."""
    if not vocabulary.names_rhythm(text) and not _has_rhythm(text):
        return None
    if _YEARLY.search(text):
        return AmbiguousIntent(texts.NOT_YEARLY)
    for rhythm, order, is_behind in _arrangements(text):
        cron = _cron(rhythm, order)
        if cron is None or (is_behind and not _order(order)):
            continue
        is_doubtful = is_behind and vocabulary.may_own_the_moment(order)
        if is_doubtful:
            return AmbiguousIntent(texts.RHYTHM_FIRST)
        wish = _checked_routine(order, cron)
        if wish == AmbiguousIntent(texts.ORDER) and not is_behind and isinstance(cron, str):
            whole = f"{rhythm} remind me of {order}"
            return AmbiguousIntent(texts.ORDER, FollowUp(((f"remind me of {order}", whole),)))
        every = rhythm if is_interval(normalized(rhythm)) else ""
        return replace(wish, every=every) if isinstance(wish, Repeat) else wish
    is_order = _ORDER.fullmatch(text) or text.lower().startswith(("every ", "each ", "daily "))
    return AmbiguousIntent(texts.RHYTHM) if is_order and _ORDER.search(text) else None


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


def _checked_routine(words: str, cron: str | AmbiguousIntent) -> Repeat | AmbiguousIntent:
    order = _order(words)
    if order is None:
        return AmbiguousIntent(texts.ORDER)
    if isinstance(cron, AmbiguousIntent):
        return cron
    rest, verb = order["rest"], order["verb"].lower()
    if verb == "remind me" and not _REMINDED.fullmatch(rest):
        return AmbiguousIntent(texts.ORDER)
    if doubt := _doubt(rest, rest.partition(" ")[2] or rest):
        return doubt
    if verb != "remind me" and vocabulary.adds_errand(rest):
        return AmbiguousIntent(texts.ONE_AT_A_TIME)
    has_other_time = vocabulary.names_rhythm(rest) or vocabulary.names_clock(rest)
    if has_other_time or _names_other_day(rest):
        return AmbiguousIntent(texts.RHYTHM)
    return Repeat(f"{verb} {rest}", cron)


def _names_other_day(rest: str) -> bool:
    """Whether the order names a day: a daily question may be about that very day."""
    return vocabulary.names_day(re.sub(r"\b(?:today|tomorrow|tonight)\b", "", rest, flags=re.I))


def _order(words: str) -> re.Match[str] | None:
    """What to do at each time; a bare task or thing is something to be reminded of."""
    link = "to" if vocabulary.is_errand(words) else "of" if vocabulary.is_thing(words) else ""
    return _ORDER.fullmatch(f"remind me {link} {words}" if link else words)


def _cron(words: str, order: str) -> str | AmbiguousIntent | None:
    """None if the words are not a rhythm; a question, if they are a doubtful one for the order."""
    try:
        return read_rhythm(normalized(words))
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


def _of_line(line: str, now: datetime) -> ScheduleIntent | None:
    if found := _SETTLING.fullmatch(line):
        return SettleItem(found["key"], found["words"])
    line = _TO_BE_REMINDED.sub("remind me", _MISSPELLED.sub(_reminded, spelled_out(line)))
    core = _without_courtesies(line)
    words = core.rstrip(" .!?…")
    said, again = without_nag(re.sub(r"\bive\b", "i've", words))
    if again and (wish := routine_intent(said) or reminder_intent(said, now)):
        return _coming_again(wish, again)
    intent = (
        task_intent(words, now)
        or change_intent(words, now)
        or routine_intent(_DUTY.sub("", words, count=1) if _DUTY.match(words) else words)
        or reminder_intent(words, now)
    )
    if intent and core.endswith("?") and not _ASKED.match(core):
        return AmbiguousIntent(texts.ASKED_OR_TOLD)
    return intent


def _reminded(found: re.Match[str]) -> str:
    """`remindme`, `remnd me`."""
    return "remind me" if nearest(found[1].lower(), ("remind",)) else found[0]


def _coming_again(intent: ScheduleIntent, again: str) -> ScheduleIntent:
    """The intent with what the owner said of its coming again, which the tools read."""
    match intent:
        case Remind():
            return replace(intent, task=intent.task + again)
        case Repeat():
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
