"""The phrasings that the built-in model understands."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum, auto
from functools import cache
from itertools import groupby
from typing import NamedTuple

from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, clock_time
from ollim_bot.kernel.base.text import literal, one_line
from ollim_bot.offline import texts
from ollim_bot.offline.actions import (
    LIST_TASKS,
    ListedJob,
    listed_jobs,
    moments_within,
    shell_call,
    tasks_in,
)
from ollim_bot.offline.server import CallTool, Part, Say, ToolResult
from ollim_bot.offline.situation import Situation


class Intent(StrEnum):
    GREETING = auto()
    THANKS = auto()
    FAREWELL = auto()
    ABILITIES = auto()
    IDENTITY = auto()
    TIME = auto()
    MEMORY = auto()
    CONNECT = auto()
    TODAY = auto()
    TOMORROW = auto()
    WEEK = auto()
    NEXT_WEEK = auto()
    UPCOMING = auto()
    REMINDERS = auto()
    ROUTINES = auto()
    TASKS = auto()
    DONE = auto()
    YESTERDAY = auto()
    DESPAIR = auto()
    OVERWHELMED = auto()
    DID_I = auto()
    UNDO = auto()


# Polite words that ask for nothing.
COURTESIES = frozenset({Intent.GREETING, Intent.THANKS, Intent.FAREWELL})

SHORTHANDS: Mapping[str, str] = {
    "u": "you",
    "ya": "you",
    "r": "are",
    "ur": "your",
    "im": "i am",
    "wat": "what",
    "whats": "what is",
    "whos": "who is",
    "pls": "please",
    "plz": "please",
    "thx": "thanks",
    "thnx": "thanks",
    "ty": "thank you",
    "tysm": "thank you so much",
    "okay": "ok",
    "k": "ok",
    "alright": "ok",
    "goodbye": "bye",
    "goodnight": "good night",
    "cya": "see you",
    "ttyl": "talk to you later",
    "login": "log in",
    "setup": "set up",
    "tmrw": "tomorrow",
    "tmr": "tomorrow",
    "dont": "do not",
    "cant": "can not",
    "ive": "i have",
}

_ADDRESSED = r"(?:there|again|ollim|ollim bot|ollim-bot|bot|claude|friend)"
_DAY_TIME = r"(?:morning|afternoon|evening)"
_GREETING = (
    rf"(?:(?:hi|hello|hey|hiya|howdy|yo|greetings|good {_DAY_TIME}|good day|{_DAY_TIME})"
    rf"(?: {_ADDRESSED})*)"
)

_THANKS_FOR = (
    r"for (?:(?:all )?(?:your|the) (?:help|time|answer|reply|info|information|explanation)"
    r"|helping(?: me)?|that|this|everything|letting me know)"
)
_THANKS = (
    r"(?:(?:thanks|thank you|many thanks|cheers)"
    rf"(?: a lot| a bunch| a million| so much| very much| again)*(?: {_THANKS_FOR})?)"
)

_WHEN_AGAIN = r"(?:later|soon|tomorrow|around|then|again|next time)"
_BED = r"(?:bed|sleep)"
_FAREWELL = (
    r"(?:bye(?: bye)?(?: for now| then)?|(?:good )?night(?: night)?|farewell|take care"
    rf"|see you(?: {_WHEN_AGAIN})?|talk (?:to you )?{_WHEN_AGAIN}|until (?:tomorrow|next time)"
    r"|(?:ive |i )?(?:got to|gotta|have to|need to) (?:go|run|leave)"
    rf"|i am (?:off|(?:off|going|heading|headed)(?: off)? to {_BED}|signing off)"
    r"|that is all for (?:now|today)|thats all for (?:now|today)"
    r"|have a (?:nice|good|great|lovely) (?:day|evening|night|weekend|one))"
)

# Words before or after a courtesy, or in a clause of their own.
PLEASANTRY = (
    r"(?:ok|great|perfect|cool|nice|awesome|excellent|lovely|wonderful|got it|i see|ah|oh"
    r"|sorry|excuse me|pardon|um|hm|hmm|well|so|please|then|now"
    r"|that (?:helped|helps|was helpful)(?: a lot)?|(?:great|good) help|you are (?:the best|great)"
    r"|(?:a |just a )?quick question|just wondering|just curious|one question|by the way|btw"
    rf"|{_GREETING}|{_THANKS})"
)

# Names of the bot, in a clause of their own.
NAME = r"(?:ollim|ollim bot|ollim-bot|bot)"

_TELL_ME = (
    r"(?:(?:(?:can|could|would|will) you (?:please )?)?(?:tell|show) me|do you know"
    r"|i (?:would like|want) to know|i wonder|(?:just )?(?:wondering|curious))"
)

# Words before a question, and after it.
OPENING = (
    r"(?:ok|so|well|um|hm|hmm|oh|ah|and|also|please|sorry|excuse me|by the way|btw"
    rf"|{_GREETING}|{_TELL_ME})"
)
CLOSING = rf"(?:please|now|right now|then|{_THANKS})"

_ONE = r"(?:an? |the |some )?"
_SELF = (
    rf"{_ONE}(?:real |actual |living |large |language |human )*"
    r"(?:ai|artificial intelligence|model|llm|claude|chat ?gpt|gpt(?: ?-?[345])?|gemini|bot|chatbot"
    r"|robot|machine|computer|program|human|human being|being|person)"
)
_SELVES = rf"{_SELF}(?: or (?:just )?{_SELF})?"
_WHICH_MODEL = r"(?:which|what) (?:ai |language )?(?:model|ai|llm)"
_TALKING = r"(?:talking|speaking|chatting|writing) (?:to|with)"

_SAY = r"(?:say|tell you|write|ask(?: you)?|mention)"
_SAID = r"(?:said|told you|wrote|asked(?: you)?|talked about|were talking about|was saying)"
_EARLIER = r"(?:before|earlier|previously|just now|a moment ago|so far|last)"

_KEY = r"(?:(?:anthropic |claude )?api key|(?:anthropic|claude) (?:subscription|account))"
_KIND = r"(?:real|proper|better|different|other|local|language|cloud|smarter|own)"
_PROVIDER = (
    rf"(?:(?:the |my )?(?:claude|anthropic|ollama)(?: api)?|(?:an? |the |my ){_KEY}"
    rf"|(?:a |an |the |my |another )(?:{_KIND} )*{_KIND} (?:model|llm|ai)|another model)"
)
_TO_CONNECT = (
    r"(?:connect|connect to|add|use|get|set up|install|configure|enable|plug in|hook up|link"
    r"|put|put in|enter|switch to|change to|run|talk to|(?:log|sign) in (?:to|with)"
    r"|(?:connect|hook|link) you (?:up )?(?:to|with))"
)
_HERE = r"(?:here|instead|with this|with you|to this|to you|in here)"

_SHOW = rf"(?:(?:please )?(?:list|show|show me|give me|read me)(?: all)?|{_TELL_ME}(?: all)?)"
_PLANNED = r"(?:coming up|coming|planned|on|due|scheduled|left|up|happening|going on|open)"
_CALENDAR = r"(?:my|the) (?:calendar|schedule|agenda|diary)"
_APPOINTMENTS = r"(?:appointments|meetings|events)"
_MINE = r"(?:my |the |all my |all the |any )?"
_SET = r"(?:open|pending|upcoming|active|current|next|set)"


# Feelings are heard in any words around them, unless these ask for something.
_ASKED_FOR = r"(?!.*\b(?:remind|every|task|cancel|add|delete|if|[0-9]+(?:am|pm))\b)"
_TOO_MUCH = (
    r"overwhelm\w*|stress(?:ed|ing|ful)|swamped|drowning|snowed under|burn(?:ed|t) out|exhausted"
    r"|panick\w+|freaking out|frazzled|falling apart|too much|so much (?:to do|on|going on)"
    r"|on my plate|(?:feel(?:ing)?|am|so|totally|completely) (?:lost|stuck|behind|anxious)"
    r"|can not (?:cope|keep up|focus|get started|do this)|help me (?:focus|start|get started)"
    r"|do not know (?:where|how|what) to (?:start|begin|do)|where do i (?:even )?(?:start|begin)"
    r"|forg[eo]t(?:ting)? (?:everything|it all|all of it|things)"
)
_NO_MORE = (
    r"(?:do not|can not|want to|going to|to)(?: want to| bear to)? (?:live|be alive|exist"
    r"|be here any ?more|go on(?: living)?|die|kill myself|end it all|hurt myself)"
)


def _on(day: str) -> tuple[str, ...]:
    """The questions what is on at some time."""
    when = rf"(?:for |on )?{day}"
    return (
        rf"(?:what is|anything|is anything|is there anything) (?:{_PLANNED} )?{when}",
        rf"what (?:do i have|have i got)(?: on| planned| scheduled| coming up| due)? {when}",
        rf"(?:do i have|have i got) (?:any )?(?:{_APPOINTMENTS}|anything)(?: {_PLANNED})? {when}",
        rf"(?:what|which) {_APPOINTMENTS} (?:do i have|have i got|are there) {when}",
        rf"(?:what is|anything|is anything|is there anything) (?:on|in) {_CALENDAR} {when}",
        rf"{_SHOW} {_CALENDAR} {when}",
        rf"am i (?:free|busy) {when}",
    )


def _lists(noun: str) -> tuple[str, ...]:
    waiting = rf"{_MINE}(?:{_SET} )?{noun}"
    return (
        rf"{_SHOW} {waiting}",
        rf"{waiting}",
        rf"(?:what|which) (?:{_SET} )?{noun} (?:do i have|have i got|are there|are (?:set|open))",
        rf"(?:what|which) (?:{_SET} )?{noun} (?:have i|did i|have you|did you) set(?: up)?",
        rf"(?:what|which) are my (?:{_SET} )?{noun}",
        rf"how many (?:{_SET} )?{noun} (?:do i have|have i got|are there)(?: (?:set|open))?",
        rf"(?:do i have|are there|have i got) (?:any |some )?(?:{_SET} )?{noun}(?: (?:set|open))?",
    )


PHRASINGS: Mapping[Intent, tuple[str, ...]] = {
    Intent.GREETING: (
        _GREETING,
        r"how are you(?: doing)?(?: today)?|how(?:s| is) it going",
        r"what is up|sup",
        r"(?:are )?you there|anyone there|nice to meet you",
    ),
    Intent.THANKS: (_THANKS, r"(?:much|very much)? ?appreciated|(?:i )?(?:really )?appreciate it"),
    Intent.FAREWELL: (_FAREWELL,),
    Intent.ABILITIES: (
        r"help(?: me)?(?: out)?",
        r"what (?:all |else )?(?:can|could) you do(?: for me| here| exactly| today)*",
        rf"{_TELL_ME} what you can do(?: for me| here)?",
        r"what do you (?:do|know|understand)(?: here| exactly)?",
        r"what are you (?:able to do|capable of|good at|good for)",
        r"(?:what|how) (?:can|could|do) you help(?: me)?(?: with)?",
        r"(?:can|could|would|will) you (?:please )?help(?: me)?(?: out)?",
        r"what can i (?:ask|say|type|write|tell)(?: to)?(?: you)?(?: here)?",
        r"what can i do (?:here|with (?:you|this))",
        r"how (?:does (?:this|it|that)(?: thing| bot| app)?|do you) work(?: here| exactly)?",
        r"how (?:do|can|should) i use (?:this|you|it)(?: thing| bot| app)?",
        r"(?:what|which) commands (?:are there|do you (?:have|know|understand)|can i use|exist)",
        r"(?:list|show)(?: me)?(?: all)?(?: the| your)? commands",
        r"what are (?:your|the) (?:features|abilities|capabilities|skills|commands|functions)",
        r"(?:what|which) (?:features|abilities|capabilities|skills) do you have",
        r"what works(?: here| today)?",
    ),
    Intent.IDENTITY: (
        r"(?:who|what) are you(?: exactly| really| actually)?|who is this",
        rf"{_TELL_ME} (?:who|what) you are(?: exactly| really| actually)?",
        rf"(?:are you|is this|am i {_TALKING}) (?:really |actually |just )?{_SELVES}",
        r"are you (?:really |actually )?(?:real|alive)",
        rf"(?:who|what) am i {_TALKING}",
        rf"{_WHICH_MODEL} (?:are you|is this|do you use)(?: based on| now)?",
        rf"{_WHICH_MODEL} (?:are you (?:using|running|running on)|am i (?:using|{_TALKING}))",
        r"what is your name|do you have a name|introduce yourself|tell me about yourself",
    ),
    Intent.TIME: (
        r"what time is it(?: now| today)?|what is the (?:current )?time",
        r"(?:do you have|have you got|you got|got) the time|the (?:current )?time",
        r"(?:what|which) (?:day|date)(?: of the week)? is (?:it|today)(?: today)?",
        rf"{_TELL_ME} (?:what|which) (?:time|day|date) it is(?: today)?",
        r"what is (?:the|todays) (?:current )?(?:date|day)(?: today)?|what is today",
        r"todays date|the date(?: today)?",
    ),
    Intent.MEMORY: (
        rf"what did i (?:just )?{_SAY}(?: to you)?(?: {_EARLIER})?",
        rf"what have i {_SAID}(?: {_EARLIER})?",
        rf"{_TELL_ME} what i (?:just )?{_SAID}(?: {_EARLIER})?",
        r"what (?:was|were) my (?:last|previous) (?:message|messages|question|words)",
        rf"what was the last thing (?:that )?i {_SAID}",
        rf"(?:do|can) you (?:still )?remember what (?:i|we) {_SAID}(?: {_EARLIER})?",
        rf"(?:can you )?(?:please )?repeat what i (?:just )?{_SAID}(?: {_EARLIER})?",
        rf"what (?:were we talking about|did we talk about)(?: {_EARLIER})?",
    ),
    Intent.CONNECT: (
        rf"(?:how|where) (?:do|can|could|would|should) i {_TO_CONNECT} {_PROVIDER}(?: {_HERE})?",
        rf"how to {_TO_CONNECT} {_PROVIDER}(?: {_HERE})?",
        rf"(?:can|could|may) (?:i|we|you) {_TO_CONNECT} {_PROVIDER}(?: {_HERE})?",
        rf"(?:(?:i want|id like|i would like) to |help me )?{_TO_CONNECT} {_PROVIDER}(?: {_HERE})?",
        rf"(?:i want|id like|i would like) {_PROVIDER}(?: {_HERE})?",
        rf"(?:does (?:this|it)|do you) (?:(?:work|run) with|support) {_PROVIDER}",
        rf"i (?:have|got|have got) an? {_KEY}",
        r"how (?:do|can) i (?:log|sign) in(?: here)?",
        r"how (?:do|can|could) i (?:make you smarter|replace (?:you|the offline model))",
        r"ollama|(?:anthropic |claude )?api key",
    ),
    Intent.TODAY: (
        *_on("today"),
        r"my day|(?:what|how) does my day look(?: like)?|how is my day(?: looking)?|today",
        r"what (?:did i miss|have i (?:missed|forgotten)|is (?:on|open|overdue|left))(?: today)?",
        r"what (?:do|should|must) i (?:need to |have to )?do(?: today| now| next)",
    ),
    Intent.TOMORROW: (*_on("tomorrow"), r"(?:what|how) does (?:my )?tomorrow look(?: like)?"),
    Intent.WEEK: (
        *_on("(?:this|the|my) week"),
        *_on("(?:this )?(?:mon|tues|wednes|thurs|fri|satur|sun)day"),
        r"my week|(?:what|how) does my week look(?: like)?|how is my week(?: looking)?",
        r"what is my week(?: like)?",
        rf"what is (?:on|in) {_CALENDAR}|{_SHOW} (?:my |the )?calendar|(?:my |the )?calendar",
    ),
    Intent.NEXT_WEEK: _on("next week"),
    Intent.UPCOMING: (
        r"what is (?:coming up|coming|up next|upcoming|next|planned|scheduled|due)(?: for me)?",
        rf"{_SHOW} (?:me )?what is (?:coming up|coming|next|planned|scheduled|due)",
        r"what (?:do i have|have i got) (?:coming up|planned|scheduled)|what comes next|coming up",
        rf"{_SHOW} (?:my |the )?(?:schedule|agenda)",
        r"(?:my |the )?schedule|what is (?:on )?(?:my|the) schedule|upcoming",
    ),
    Intent.REMINDERS: (*_lists("reminders"), r"what is on (?:my |the )?reminders? list"),
    Intent.ROUTINES: _lists("routines"),
    Intent.TASKS: (
        *_lists(r"(?:tasks|to ?dos|to-dos)"),
        r"what (?:do i have|have i got|is there|is left) to do",
        rf"(?:{_SHOW} )?(?:my |the )?(?:task|to ?do|to-do) list",
        r"what is on (?:my |the )?(?:(?:task|to ?do|to-do|shopping) )?list",
    ),
    Intent.DONE: (
        r"(?:all |its |it is |thats |that is |i am |ok )?done(?: it| that| with (?:it|that))?",
        r"(?:i |i have |ive )?(?:just )?(?:did|done|finished) (?:it|that|this)(?: already)?",
        r"(?:i am |its |it is |all )?finished",
        r"(?:i )?already did(?: it| that)?",
    ),
    Intent.YESTERDAY: (rf"what did i {_SAY}(?: to you)? yesterday|what have i {_SAID} yesterday",),
    Intent.OVERWHELMED: (
        rf"{_ASKED_FOR}(?:.* )?(?:{_TOO_MUCH})(?: .*)?",
        r"(?:totally |so )?(?:lost|stuck)(?: (?:again|now))?",
    ),
    Intent.DESPAIR: (
        rf"{_ASKED_FOR}(?:.* )?i (?:.* )?{_NO_MORE}(?: .*)?",
        r"(?:.* )?(?:suicidal|i want it to (?:end|be over))(?: .*)?",
    ),
    Intent.DID_I: (
        r"did i (?:already )?(?:take|do|have|finish|feed|call|pay) .+",
        r"have i (?:already )?(?:taken|done|had|finished|fed|called|paid) .+",
    ),
    Intent.UNDO: (r"undo(?: it| that| this)?",),
}


# A longer text is none of these phrasings.
_LONGEST = 200

_APOSTROPHES = re.compile(r"['’ʼ`´]")
# Emoji that do not change the meaning; any other makes a text not understood.
_SMILES = re.compile(
    r"(?<!\S)(?:[:;]-?[)d]|<3|x|xx)(?!\S)|[😀😁😃😄😇😉😊😌😍😴🙂🙏👋👍🌙❤✨\ufe0f🏻-🏿]"
)
_STRETCHED = re.compile(r"([a-z])\1{2,}")
_BREAK = re.compile(r"[.,!?;:…]+(?=\s|$)|\s+[-–—]+\s+|\n")
_AND = re.compile(r"\band\b")


# When first asked for: to compile them all takes a tenth of a second of each start.
@cache
def _pattern(intent: Intent) -> re.Pattern[str]:
    said = "|".join(PHRASINGS[intent])
    if intent in COURTESIES:
        return re.compile(rf"(?:{PLEASANTRY} )*(?:{said})(?: {PLEASANTRY})*(?: {NAME})?")
    return re.compile(rf"(?:{OPENING} )*(?:{said})(?: {CLOSING})*")


_PLEASANTRIES = re.compile(rf"{NAME}|{PLEASANTRY}(?: {PLEASANTRY})*")


def intents_in(text: str) -> tuple[Intent, ...]:
    """The intents of a message in order; empty if any part of it is not understood."""
    if len(text) > _LONGEST:
        return ()
    found: list[Intent] = []
    for clause in _clauses(text):
        intents = _of_clause(clause)
        if intents is None:
            return ()
        found.extend(intents)
    return _foremost(tuple(dict.fromkeys(found)))


def is_courteous(text: str) -> bool:
    """Whether the whole text is polite and asks for nothing."""
    if len(text) > _LONGEST:
        return False
    found = [_of_clause(clause) for clause in _clauses(text)]
    return all(intents is not None and COURTESIES.issuperset(intents) for intents in found)


def _foremost(intents: tuple[Intent, ...]) -> tuple[Intent, ...]:
    """Leave out courtesies if something is asked, and greetings if anything else is said."""
    questions = tuple(intent for intent in intents if intent not in COURTESIES)
    others = tuple(intent for intent in intents if intent is not Intent.GREETING)
    return questions or others or intents


def _clauses(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKC", text).lower()
    plain = _APOSTROPHES.sub("", _SMILES.sub(" ", plain))
    for clause in _BREAK.split(_STRETCHED.sub(r"\1", plain)):
        if words := " ".join(SHORTHANDS.get(word, word) for word in clause.split()):
            yield words


def _of_clause(clause: str) -> tuple[Intent, ...] | None:
    """The intents of the clause; None if it is not understood, empty if it is only polite."""
    whole = _of_words(clause)
    parts = [part.strip() for part in _AND.split(clause)]
    if whole is not None or len(parts) == 1:
        return whole
    found = [_of_words(part) for part in parts]
    known = [intents for intents in found if intents is not None]
    return sum(known, ()) if len(known) == len(found) else None


def _of_words(words: str) -> tuple[Intent, ...] | None:
    for intent in Intent:
        if _pattern(intent).fullmatch(words):
            return (intent,)
    return () if _PLEASANTRIES.fullmatch(words) else None


_NEAR_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WHEN = re.compile(
    r"(?:due |overdue since )?(?:(?P<near>yesterday|today|tomorrow)"
    rf"|\w{{3}} (?P<date>\d{{1,2}}) (?P<month>{'|'.join(MONTHS)})(?: (?P<year>\d{{4}}))?)"
    r"(?: (?P<clock>\d{1,2}:\d\d))?"
)
# A moment, as `ollim-bot rehearse --brief` has it.
_MOMENT = re.compile(r"(?P<day>\d{4}-\d\d-\d\d) 0?(?P<clock>\d{1,2}:\d\d)  (?P<title>.*)")
_WEEK = 7
_MOST_SHOWN = 200
_MOST_UPCOMING = 25
_LONGEST_TITLE = 100
_FENCED = re.compile(r"<(untrusted-[0-9a-f]+)>\n(?P<text>.*)\n</\1>", re.DOTALL)


class _Event(NamedTuple):
    """One row of `ollim-bot cal`; its title is a stranger's."""

    start: str
    end: str
    all_day: bool
    title: str
    calendar: str
    problem: str

    @property
    def day(self) -> str:
        return self.start[: len("2026-11-16")]

    @property
    def clock(self) -> str:
        return "" if self.all_day else _clock(self.start).zfill(5)

    @property
    def words(self) -> str:
        title = literal(one_line(self.title, _LONGEST_TITLE)) or texts.NO_TITLE
        return f"{self._times}: {title} ({literal(self.calendar)})"

    @property
    def _times(self) -> str:
        if self.all_day:
            return "all day"
        begin, end = _clock(self.start), _clock(self.end)
        return begin if begin == end else f"{begin}–{end}"


class _Calendar(NamedTuple):
    """The events that were found, and a sentence if the calendars could not be looked at."""

    events: list[_Event]
    failure: Sequence[str] = ()


class _Entry(NamedTuple):
    """A line of a day; without a time, it stands before the others."""

    day: date
    clock: str
    words: str


def show_today(situation: Situation) -> Part:
    """What is open, then what is on today in order of time."""
    return _show(situation, range(1), texts.TODAY, texts.NOTHING_TODAY)


def show_tomorrow(situation: Situation) -> Part:
    return _show(situation, range(1, 2), texts.TOMORROW, texts.NOTHING_TOMORROW)


def show_week(situation: Situation) -> Part:
    """The events, moments and tasks of seven days, by day."""
    return _show(situation, range(_WEEK), texts.THE_WEEK, texts.NOTHING_THIS_WEEK)


def show_next_week(situation: Situation) -> Part:
    now = situation.prompt.moment
    monday = _WEEK - now.weekday() if now else _WEEK
    days = range(monday, monday + _WEEK)
    return _show(situation, days, texts.NEXT_WEEK, texts.NOTHING_NEXT_WEEK)


def show_upcoming(situation: Situation) -> Part:
    """What comes first in the coming week, and what comes later only."""
    jobs, now = listed_jobs(situation), situation.prompt.moment
    if not isinstance(jobs, list):
        return jobs
    later = [*_entries(jobs, now.date())] if now else []
    found = texts.UPCOMING, texts.NOTHING_UPCOMING
    return _show(situation, range(_WEEK), *found, later=later, most=_MOST_UPCOMING)


def _show(
    situation: Situation,
    days: range,
    head: str,
    nothing: str,
    *,
    later: Sequence[_Entry] = (),
    most: int = _MOST_SHOWN,
) -> Part:
    """The answer about these days, counted from today, and about what comes `later` than them."""
    now = situation.prompt.moment
    moments = moments_within(days.stop, situation)
    when = ("upcoming", "--days", str(days.stop)) if days.stop > 1 else ("today",)
    calendar = _looked_up(shell_call("cal", *when, "--json"), situation)
    tasks = situation.outcome(LIST_TASKS)
    if not isinstance(moments, ToolResult):
        return moments
    if isinstance(calendar, CallTool):
        return calendar
    if now is None:
        return Say(texts.NO_CLOCK)
    if tasks is None and LIST_TASKS.name in situation.tools:
        return LIST_TASKS
    today = now.date()
    first, last = (today + timedelta(days=each) for each in (days.start, days.stop - 1))
    entries = [
        *(_Entry(date.fromisoformat(each.day), each.clock, each.words) for each in calendar.events),
        *_moments(moments.text),
        *_entries(tasks_in(tasks.text) if tasks and not tasks.is_error else (), today),
    ]
    wanted = sorted(each for each in entries if first <= each.day <= last)
    wanted += sorted(each for each in later if each.day > last)
    lines = [f"- open: {title}" for title, *_ in situation.prompt.open_items if not days.start]
    if len(days) == 1:
        lines += [f"- {each.words}" for each in wanted[:most]]
    else:
        lines += _by_day(wanted[:most], today)
    more = len(wanted) - most
    lines += [f"and {more} more"] if more > 0 else []
    problems = {each.calendar: each.problem for each in calendar.events if each.problem}
    lines += [texts.calendar_is_old(literal(name), why) for name, why in problems.items()]
    return Say("\n".join([*([head, *lines] if lines else [nothing]), *calendar.failure]))


def _moments(printed: str) -> Iterator[_Entry]:
    for row in filter(None, map(_MOMENT.fullmatch, printed.splitlines())):
        words = f"{row['clock']}: {row['title']}"
        yield _Entry(date.fromisoformat(row["day"]), row["clock"].zfill(5), words)


def _entries(jobs: Iterable[ListedJob], today: date) -> Iterator[_Entry]:
    """The jobs and tasks whose next moment is known; what is overdue is for today."""
    for job in jobs:
        found = _WHEN.match(job.when)
        if found is None:
            continue
        if found["near"]:
            day = today + timedelta(days=_NEAR_DAYS[found["near"]])
        else:
            month = MONTHS.index(found["month"]) + 1
            day = date(int(found["year"] or today.year), month, int(found["date"]))
        clock = found["clock"] or ""
        is_late = day < today or job.when.startswith("overdue") or " ago)" in job.when
        if is_late:
            yield _Entry(today, "", f"{job.when}: {job.title}")
        else:
            yield _Entry(day, clock.zfill(5), f"{clock or 'due'}: {job.title}")


def _looked_up(call: CallTool, situation: Situation) -> _Calendar | CallTool:
    """What the calendars have; or the call that asks them. A failure hides nothing else."""
    result = situation.outcome(call)
    if result is None:
        return call if call.name in situation.tools else _Calendar([])
    if result.is_error:
        return _Calendar([], [texts.calendars_unseen(result.text)])
    try:
        return _Calendar([_event(row) for row in json.loads(result.text)["events"]])
    except (ValueError, KeyError, TypeError):
        return _Calendar([])


def _event(row: Mapping[str, object]) -> _Event:
    title = str(row["summary"])
    if quoted := _FENCED.search(title):
        title = quoted["text"]
    return _Event(
        str(row["start"]),
        str(row["end"]),
        bool(row["all_day"]),
        title,
        str(row["calendar"]),
        str(row["problem"] or ""),
    )


def _by_day(entries: Sequence[_Entry], today: date) -> Iterator[str]:
    near = {today: "today", today + timedelta(days=1): "tomorrow"}
    for day, several in groupby(entries, key=lambda each: each.day):
        name = near.get(day) or f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}"
        yield f"- {name}"
        yield from (f"  - {each.words}" for each in several)


def _clock(moment: str) -> str:
    return clock_time(datetime.fromisoformat(moment).replace(second=0))
