"""The schedule intents of the built-in model, and the words that it recognises them by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.values.phrases.durations import NUMBERS
from ollim_bot.kernel.values.wishes import is_dose
from ollim_bot.offline.server import FollowUp

POLITELY = (
    r"(?:(?:please|pls|plz) |(?:can|could|would) (?:you|u) (?:(?:please|pls|plz) )?"
    r"|i(?:['’]d| would) like you to |i (?:want|need) you to )"
)


@dataclass(frozen=True, slots=True)
class Remind:
    """`when` is one future moment, in words that the tools understand."""

    task: str
    when: str
    is_run: bool = field(default=False, compare=False)
    """Whether the agent is to look, read or judge then."""
    is_timer: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class RoutineWish:
    """`message` is what the owner wants to hear or to be asked, in the owner's own words.

    `every` has the words of what is no cron line, or of an interval, from which the command line
    leaves out the quiet hours.
    """

    message: str
    cron: str
    every: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """`verb` is one of the command line; `until` has its further arguments.

    `subject` is an id or words of the title; empty for the only job there is. `kind` is None where
    either kind may be meant.
    """

    verb: str
    kind: JobKind | None
    subject: str
    until: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command for the job `{}`."""
        how = {"--for": " by ", "--until": " until "}
        return f"{self.verb} {{}}" + "".join(how.get(word, word) for word in self.until)


@dataclass(frozen=True, slots=True)
class AmbiguousIntent:
    """An intent that is not carried out; `reason` asks, or says what to write instead."""

    reason: str
    follow_up: FollowUp = field(default=FollowUp(), compare=False)


@dataclass(frozen=True, slots=True)
class AddTask:
    """`due` is a day in words, and `list` the name of a list; empty if there is none."""

    task: str
    due: str = ""
    list: str = ""


@dataclass(frozen=True, slots=True)
class SettleTask:
    """`verb` is `done` or `delete`; `subject` is an id or words of the title.

    Where it is not sure that a task is meant, it is one only if there is one.
    """

    verb: str
    subject: str
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class SettleItem:
    """What the owner says of the due item with this key: the words of a reply, or `undo`."""

    key: str
    words: str


ScheduleIntent = Remind | RoutineWish | Change | AmbiguousIntent | AddTask | SettleTask | SettleItem


_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NUMBER = rf"(?:\d+|{'|'.join(NUMBERS)})"
_UNIT = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|[smhdw])"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
# `50th` is no day of a month.
_NO_AGE = r"(?!(?:3[2-9]|[4-9]\d|\d{3,})(?:st|nd|rd|th)\b)"
_VAGUE = (
    r"(?:later|soon|sometime|someday|eventually|asap|few|couple|bit|while|some|several|weekend"
    r"|next|last|coming|ago|around|about|by|before|after|yesterday|or|so)"
)

_LEFT_OF_TIME = re.compile(
    rf"\d\S*|{_NUMBER}|{_MONTH}|{_WEEKDAY}|(?:mon|tues?|weds?|thur?s?|fri|sat|sun)|past|after|before"
    r"|half|quarter|o['’]?clock|h|next|last|until|till|between|except|every|each|today|tomorrow|tonight|utc|gmt|bst|ces?t|[ecmp][sd]t|aest",
    re.IGNORECASE,
)
_LEFT_PAIR = re.compile(
    r".*\b(?:next|last|this|same) (?:day|week|weekend|month|year|time)", re.IGNORECASE
)
_CHANGING_IT = re.compile(
    r"(?:push|move|postpone|snooze|delay|change|shift|reschedule|make) (?:it|that|this) ",
    re.IGNORECASE,
)
_IN_A_MONTH = re.compile(rf"(?P<task>.+?),? (?:in|this|next) (?P<month>{_MONTH})", re.IGNORECASE)
_UNREAD_END = re.compile(
    r" ((?:until|till|except|apart from|but not|starting|beginning) \S.*)$", re.IGNORECASE
)
# Every word of a phrase for a time, correct or not, is one of these.
_TIME_WORD = re.compile(
    rf"{_NO_AGE}\d\S*|{_NUMBER}|{_UNIT}|{_WEEKDAY}|&|(?:mon|tues?|weds?|thur?s?|fri|sat|sun)|{_MONTH}|{_VAGUE}"
    r"|in|at|on|the|an?|and|of|half|quarter|quarters|past|to|from|now|this|today|tomorrow|tonight"
    rf"|end|um|uhr|fortnights?|every|each|everyday|daily|weekly|monthly|weekdays?|weekends?|{_WEEKDAY}s"
    r"|once|twice|times|per|other|first|third"
    r"|am|pm|noon|midday|midnight|o'?clock|morning|afternoon|evening|night",
    re.IGNORECASE,
)

_DAY = rf"\b(?:today|tomorrow|tonight|yesterday|weekend|{_WEEKDAY}s?|{_NO_AGE}\d+(?:st|nd|rd|th))\b"
_RHYTHM = r"\b(?:every|each|everyday|daily|weekly|monthly|yearly|hourly|weekdays?)\b"
_CLOCK = (
    r"\b\d{1,2}(?::\d\d)? ?[ap]\.?m\b|\b\d{1,2}:\d\d\b|\b(?:noon|midday|midnight|o'?clock|uhr)\b"
    rf"|\b(?:at|by|before|after|around|until|till) {_NUMBER}\b"
    rf"|\b(?:(?:half|quarter|twenty|ten|five|\d{{1,2}}) (?:past|to)|at half) {_NUMBER}\b"
    rf"|\b(?:in|after|within|for) (?:an?|{_NUMBER}|half|few|some)\b.*?\b{_UNIT}\b"
)
_LENGTH = re.compile(rf"\bin (?:an?|{_NUMBER}|half)\b[\w ]*?\b{_UNIT}\b", re.IGNORECASE)
_LOOSE = (
    r"\bin \d+$|\bend of (?:the|this) month\b|\bfortnight\b"
    r"|\b(?:later|soon|morning|afternoon|evening|night|in a (?:bit|while|moment|sec))\b"
)
_DATE = re.compile(
    rf"\d+(?:st|nd|rd|th)?(?: of)? {_MONTH}|{_MONTH} \d+(?:st|nd|rd|th)?|(?:on|the) \d\S*"
    rf"|{_MONTH} \d{{4}}|(?:on )?{_WEEKDAY} \d+\S*|of {_MONTH}|\d+\S* of",
    re.IGNORECASE,
)
_DAY_NAMED = re.compile(_DAY, re.IGNORECASE)
_RHYTHM_NAMED = re.compile(_RHYTHM, re.IGNORECASE)
_CLOCK_NAMED = re.compile(_CLOCK, re.IGNORECASE)
_TIME_NAMED = re.compile("|".join((_DAY, _RHYTHM, _CLOCK, _LOOSE)), re.IGNORECASE)

# A word before a moment that may belong to the moment, or the moment to it.
_DANGLING = re.compile(
    r"(?:.* )?(?:for|from|until|till|by|before|after|since|on|at|to|and|or|of|about|around|in|near"
    r"|with|next|every|each|this|last|the|an?|my|your|our|his|her|their|its|that|which|who|whose"
    r"|when|where|is|are|was|were|be|starts|begins|ends|only|just|than|stop|without|as|like"
    r"|between),?",
    re.IGNORECASE,
)
_BROKEN_OFF = re.compile(
    r"(?:.* )?(?:and|or|to|the|an?|of|my|your|for|with|that|than|is|are|stop|without|as|but)",
    re.IGNORECASE,
)
# A moment after one of these may be when the event takes place.
_EVENTS = re.compile(
    r"\b(?:meetings?|appointments?|(?:inter)?views?|shows?|flights?|trains?|bus|plane|part(?:y|ies)"
    r"|dinner|lunch|breakfast|brunch|class|lessons?|lectures?|course|seminar|workshop|webinar"
    r"|events?|concerts?|games?|match|films?|movies?|exams?|tests?|birthdays?|anniversary|wedding"
    r"|funeral|dentist|doctor|deadline|session|stand-?up|sync|call with|date|visit|delivery"
    r"|reservation|booking|tables?|tickets?|pick-?up|opening|closing|launch|release|trip|holidays?"
    r"|ceremony|performance|service|training|practice|rehearsal|tour|hearing|trial)\b",
    re.IGNORECASE,
)
_CALLING = re.compile(
    r"(?:call|phone|ring|text|e-?mail|message|write to) (?:(?:the|my|our) )?\w+", re.IGNORECASE
)
_CLAUSE = re.compile(
    r"\b(?:that|which|who|whose|when|where|because|before|after|until|till|since|while|how|what"
    r"|why|whenever|once)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|never|no|nope|none|nothing|nobody|neither|nor|cannot|nevermind|never mind"
    r"|(?:do|does|did|is|are|was|were|wo|ca|should|would|could|has|have|had|ai|must)n['’]?t"
    r"|if|unless|except|whether|maybe|perhaps|possibly|actually|instead|otherwise|rather"
    r"|scratch that|wait)\b",
    re.IGNORECASE,
)
_TO_THE_BOT = (
    r"(?:(?:remind|tell|ask|show|give|send|wake|call|message|ping|let|help|wish|text|email)"
    r" (?:me|us)"
    r"|reminders?|remind|snooze|pause|resume|cancel|delete|remove|drop|take back|undo|list my"
    r"|(?:turn|switch|start|stop|move)\b.*\b(?:reminder|routine)"
    r"|(?:set|make|create|add)(?: me)? an?"
    r"|what|whats|who|when|why|how|where|which|can|could|would|will|do you|did|are you|you"
    r"|is|am i|i|every|each|daily|also|then|again|stop|repeat|please)\b"
)
_LINK = r"(?:\b(?:and|then|but|also|plus|or|after that)\b|[,;&+/]|\s[-–—]\s)"
_SECOND = re.compile(
    rf"{_LINK}\s*(?:(?:and|then|also|please|pls|just)\s+)*"
    rf"(?:{_TO_THE_BOT}|(?:in|at|on|by|for|tomorrow|today|tonight|later|{_WEEKDAY})\b"
    rf"|{_NUMBER} ?(?:{_UNIT}|[ap]m)\b)",
    re.IGNORECASE,
)
_ORDER_BESIDE = re.compile(
    rf"{_LINK}\s*(?:and |then )?(?:please )?"
    r"(?:add|cancel|delete|remove|drop|remind me|snooze|undo)\b",
    re.IGNORECASE,
)
_LINKED = re.compile(_LINK, re.IGNORECASE)
_NEXT_SENTENCE = re.compile(r"(?<!\bdr)(?<!\bmr)(?<!\bms)(?<!\bmrs)[.!?;…]\s+\S", re.IGNORECASE)
# Words that a task without `remind me` may begin with: only these are never a report or a question.
_ERRAND = re.compile(
    r"(?:answer|apply|bake|boil|book|bring|brush|buy|call|change|charge|chase|check|clean|collect"
    r"|confirm|cook|defrost|descale|do|drink|eat|email|empty|feed|fetch|file|fill|finish|fix|floss"
    r"|fold|get|give(?! up)|go(?! away)|hang|hoover|iron|join|journal|leave|lock|log|look|mail|make"
    r"|measure|meditate|message|mop|move|mow|open|order|pack|pay|phone|pick|plan|post|practi[cs]e"
    r"|prepare|print|put|read|refill|renew|replace|reply|return|revise|ring|rinse|scan|send|shave"
    r"|shower|sign|sort|stand|start|stretch|study|submit|sweep|switch|take|tidy|text|throw|top up"
    r"|transfer|trim|turn|unload|unplug|update|use|vacuum|walk|wash|water|weigh|wipe|wrap|write)\b"
    r"(?! (?:me|us|you|it|that|this|i|we|they)\b)"
    r"(?!.*\b(?:reminder|routine)s?\b).*",
    re.IGNORECASE,
)
_AND_AN_ERRAND = re.compile(rf"{_LINK}\s*(?:and |then )?{_ERRAND.pattern}", re.IGNORECASE)
_THING = re.compile(
    r"(?:(?:the|my) )?(?:bins?|bread|cake|coffee|cookies|dishes|dishwasher|dryer|eggs"
    r"|laundry|oven|pasta|pizza|potatoes|rice|rubbish|soup|stretching|tea|trash|washing"
    r"|washing machine|water)",
    re.IGNORECASE,
)
_A_NAME = re.compile(
    r"(?:(?:the|my) )?(?!(?:took|had|forgot|missed|skipped|no|need|got|out|lost|i)\b)\S+(?: \S+)?",
    re.IGNORECASE,
)
_LONG_DAYS = ("tomorrow", "tonight", "tuesday", "wednesday", "thursday", "saturday")
_TIME_NAMES = (
    *("monday", "friday", "sunday", "morning", "evening", "afternoon"),
    *("minute", "minutes", "hour", "hours", "second", "seconds"),
)
_RHYTHM_NAMES = ("every", "daily", "weekday", "weekdays", "weekly")
_NO_SLIPS = frozenset(("very", "ever", "weekend"))
_ONLY_POINTS = re.compile(
    r"(?:(?:do|about|see|check|read|answer|finish|buy|get|take|on|of|to|at|with|look|the|rest) )*"
    r"(?:this|that|it|these|those|them|something|stuff|things?|one)",
    re.IGNORECASE,
)


def is_left_of_time(word: str) -> bool:
    """Whether the word, beside a time that was understood, may belong to it."""
    return _LEFT_OF_TIME.fullmatch(word.strip(",.;!?")) is not None


def ends_in_time(task: str) -> bool:
    """Whether the last two words may belong to a time behind them, as in `call mum next month`."""
    return _LEFT_PAIR.fullmatch(task) is not None


def changes_it(text: str) -> bool:
    """Whether the words would change what was just set, as in `make it 4pm`."""
    return _CHANGING_IT.match(text) is not None


def tells_number(word: str) -> bool:
    return re.fullmatch(rf"\d\S*|{_NUMBER}", word.strip(",.;!?"), re.IGNORECASE) is not None


def month_of(task: str) -> tuple[str, str]:
    """The task and the month that it names last, as in `renew my passport in march`."""
    found = _IN_A_MONTH.fullmatch(task)
    return (found["task"], found["month"]) if found else (task, "")


def unread_end(text: str) -> str:
    """The words that may end or interrupt a rhythm, and that no rhythm has taken."""
    found = _UNREAD_END.search(text)
    return found[1] if found else ""


def tells_time(words: Sequence[str]) -> bool:
    """Whether every word may be part of a time, correct or not."""
    words = [*words]
    if "thing" in words[1:] and words[words.index("thing") - 1].lower() == "first":
        words.remove("thing")
    return bool(words) and all(
        _TIME_WORD.fullmatch(word.rstrip(",.")) or misspelled_day([word]) == 0 for word in words
    )


def tells_date(words: Sequence[str]) -> bool:
    """Whether the words are a date, as in `31 november`, right or wrong."""
    return _DATE.fullmatch(" ".join(words)) is not None


def names_time(text: str) -> bool:
    return _TIME_NAMED.search(text) is not None


def names_day(text: str) -> bool:
    return _DAY_NAMED.search(text) is not None


def names_clock(text: str) -> bool:
    return _CLOCK_NAMED.search(text) is not None


def names_length(text: str) -> bool:
    """Whether the text names a time from now, as in `in 20 minutes`."""
    return _LENGTH.search(text) is not None


def names_rhythm(text: str) -> bool:
    return _RHYTHM_NAMED.search(text) is not None


def may_own_the_moment(task: str) -> bool:
    """Whether a moment after the task could belong to something in the task."""
    if not task or _DANGLING.fullmatch(task):
        return True
    events = () if _CALLING.fullmatch(task) else (_EVENTS,)
    return any(found.search(task) for found in (*events, _CLAUSE, _TIME_NAMED))


def is_negated(text: str) -> bool:
    """Whether the text negates, doubts or sets a condition."""
    return _NEGATION.search(text) is not None


def is_more_than_one(task: str) -> bool:
    """Whether the text may ask for a second thing."""
    if _SECOND.search(task) or _NEXT_SENTENCE.search(task):
        return True
    linked = _LINKED.search(task) is not None
    return linked and (names_clock(task) or names_rhythm(task))


def is_order_beside(task: str) -> bool:
    """Whether a second part of the text orders a change, as in `eggs and remove cheese`."""
    return _ORDER_BESIDE.search(task) is not None


def names_no_task(task: str) -> bool:
    """Whether the text leaves open what is meant, or breaks off."""
    if not any(char.isalnum() for char in task):
        return True
    return any(form.fullmatch(task) for form in (_ONLY_POINTS, _BROKEN_OFF))


def is_errand(text: str) -> bool:
    """Whether the text begins as an instruction to oneself, as in `call mum`."""
    return _ERRAND.fullmatch(text) is not None


def adds_errand(text: str) -> bool:
    """Whether a second part of the text begins as an instruction to oneself."""
    return _AND_AN_ERRAND.search(text) is not None


def is_thing(text: str) -> bool:
    """Whether the text only names a thing that needs attention, as in `the laundry`."""
    is_medicine = is_dose(text) and _A_NAME.fullmatch(text) is not None
    return is_medicine or _THING.fullmatch(text) is not None


def names_event(text: str) -> bool:
    return _EVENTS.search(text) is not None


def respelled_rhythm(words: Sequence[str]) -> str:
    """The words with `evry` as `every`, where a time follows; empty if there is none."""
    for place, word in enumerate(words[:-1]):
        name = word.lower()
        right = None if name in (*_RHYTHM_NAMES, *_NO_SLIPS) else nearest(name, _RHYTHM_NAMES, 1)
        if right and tells_time(words[place + 1 : place + 2]):
            return " ".join([*words[:place], right, *words[place + 1 :]])
    return ""


def misspelled_day(words: Sequence[str]) -> int | None:
    """The place of the first word that is nearly the name of a day."""
    for place, word in enumerate(words):
        name = re.sub(r"\W", "", word).lower()
        if len(name) < 5 or names_day(name) or name in _TIME_NAMES:
            continue
        if (len(name) > 5 and nearest(name, _LONG_DAYS)) or nearest(name, _TIME_NAMES, 1):
            return place
    return None
