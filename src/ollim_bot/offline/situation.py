"""Parses the prompt of a request into the situation that the rules answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.base.text import PromptMark
from ollim_bot.kernel.values.due_items import JUST_SHOWN
from ollim_bot.kernel.values.phrases.durations import spelled_out
from ollim_bot.kernel.values.phrases.moment import parse_day, time_of_day
from ollim_bot.kernel.values.updates import KNOWN_TO_OWNER
from ollim_bot.offline import vocabulary
from ollim_bot.offline.server import CallTool, FollowUp, Message, ModelRequest, ToolResult
from ollim_bot.offline.texts import SAID_LAST
from ollim_bot.offline.vocabulary import AmbiguousIntent, ScheduleIntent

_TAG = re.compile(
    r"\[(?P<name>routine-bg|routine|reminder-bg|reminder|webhook|fork-started|fork-timeout"
    r"|button|system)(?::(?P<subject>[^\]\n]+))?\][ ]?"
)
_MARK = re.compile(rf"\[(?:{'|'.join(PromptMark)}): [^\]\n]*\][ ]?")
_TIMESTAMP = re.compile(
    r"\[(?P<day>\d{4}-\d\d-\d\d) \w{3} (?P<hour>\d\d):(?P<minute>\d\d) (?P<half>[AP]M)"
    r" (?P<zone>[^\]\n]+)\](?:\n|$)"
)
_UPDATES = re.compile(
    r"RECENT BACKGROUND UPDATES \((?P<duty>[^\n]*)\)\n(?P<lines>(?:(?!OPEN REMINDERS ).+(?:\n|$))*)"
)
_OPEN = re.compile(r"OPEN REMINDERS \([^\n]*\)\n(?P<lines>(?:- .+(?:\n|$))*)")
_ITEM = re.compile(
    rf"^- (.+) \(key ([0-9a-f]+), due ([^\n]*?)(?: \([^()\n]*\))?(?:, {JUST_SHOWN})?\)$",
    re.MULTILINE,
)
_NEWEST = re.compile(rf"\(key ([0-9a-f]+), due [^\n]*, {JUST_SHOWN}\)$", re.MULTILINE)
_UPDATE = re.compile(r"^- (?:\([^)\n]*ago\) |\(just now\) )?(?P<text>.+(?:\n  .+)*)$", re.MULTILINE)
_UPDATE_FENCE = re.compile(
    r"\n +Data, not the owner's words: .*\n +<(untrusted-[0-9a-f]+)>\n +((?s:.*?))\n +</\1>"
)
_TASK = "YOUR TASK:"
_CHAIN = re.compile(r"CHAIN CONTEXT: check \d+ of \d+\.[^\n]*\n\n")
_ASIDE = re.compile(
    r"(?:(?:> ?.*(?:\n|$))+|Attached files:\n(?:- .*(?:\n|$))*"
    r"|Data, not the owner's words: .*\n<(untrusted-[0-9a-f]+)>\n(?s:.*?)\n</\1>)\n*"
)
# The program asks to continue an answer that a restart cut off: with the owner's words, or without
# them if the conversation already has them.
_CUT_OFF = "The program was restarted"
_THE_WORDS = "\nWhat the owner had written:\n\n"
_ALREADY = (
    "\nThese tools had already been called:\n",
    "\nThese calls failed, or it is not known how they ended. ",
)
# Texts that the engine itself adds to the person's words.
_SUMMED_UP = "This session is being continued from a previous conversation"
_ENGINE_SPEAKS = (
    "Stop hook feedback:",
    "[Request interrupted by user",
    _SUMMED_UP,
    "<local-command-",
    "<command-name>",
)
SHELL = "Bash"
# How many earlier turns are looked at for what a question was about.
_TURNS_SEEN = 6
_OUR_SUMMARY = re.compile(rf"^{re.escape(SAID_LAST)}\n(?P<lines>(?:- .+(?:\n|$))+)", re.MULTILINE)


class OpenItem(NamedTuple):
    """A due item that waits for an answer; `due` is its moment in words."""

    title: str
    key: str
    due: str


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """`tag` is empty where the owner speaks; `updates` are those that are to be mentioned.
    `newest_item` is the key of the open item whose card is the newest thing said.

    `points_elsewhere`: the prompt came with a quote, a file or an image, and may be about that;
    `aside` is their text.
    `moment` is when it was written, in `zone`. `may_have_acted`: tools were called for it before
    the program was restarted, and their results may be missing.
    """

    text: str
    tag: str = ""
    subject: str = ""
    updates: tuple[str, ...] = ()
    open_items: tuple[OpenItem, ...] = ()
    newest_item: str = ""
    aside: str = ""
    moment: datetime | None = None
    zone: str = ""
    may_have_acted: bool = False

    @property
    def points_elsewhere(self) -> bool:
        return bool(self.aside)

    @property
    def task(self) -> str:
        """The body of a background job, after the program's instructions."""
        _, mark, task = f"\n{self.text}".partition(f"\n{_TASK}\n")
        return (task if mark else self.text.rstrip().rpartition("\n\n")[2]).strip()

    @property
    def instructions(self) -> str:
        """The program's instructions of a background job, before its body."""
        return self.text[: -len(self.task)] if self.task else self.text

    @property
    def said_in_turn(self) -> str:
        """The body of a job that runs in the conversation."""
        return _taken(_CHAIN, self.text)[1].strip()

    @property
    def asks_to_go_on(self) -> bool:
        """Whether the prompt asks to continue an answer that was cut off."""
        return self.tag == "system" and self.text.startswith(_CUT_OFF)


def read_prompt(text: str) -> ParsedPrompt:
    tag, rest = _taken(_TAG, text)
    _, rest = _taken(_MARK, rest)
    stamp, rest = _taken(_TIMESTAMP, rest.lstrip("\n"))
    updates, rest = _taken(_UPDATES, rest)
    waiting, rest = _taken(_OPEN, rest)
    name, body = _speaker(tag["name"] if tag else "", rest.lstrip("\n"))
    said = _without_asides(body)
    return ParsedPrompt(
        text=said.strip(),
        tag=name,
        subject=(tag["subject"] or "") if tag else "",
        updates=_to_mention(updates),
        open_items=tuple(map(OpenItem._make, _ITEM.findall(waiting["lines"]))) if waiting else (),
        newest_item="".join(_NEWEST.findall(waiting["lines"])[:1]) if waiting else "",
        aside=body.removesuffix(said) if said else body,
        moment=_moment(stamp) if stamp else None,
        zone=stamp["zone"] if stamp else "",
        may_have_acted=_may_have_acted(tag["name"] if tag else "", rest.lstrip("\n")),
    )


def _taken(pattern: re.Pattern[str], text: str) -> tuple[re.Match[str] | None, str]:
    """The match at the beginning of the text, and the rest of the text."""
    found = pattern.match(text)
    return found, text[found.end() :] if found else text


def _speaker(tag: str, body: str) -> tuple[str, str]:
    """Words of the owner that the program repeats count as the owner's."""
    if tag == "system" and body.startswith(_CUT_OFF) and _THE_WORDS in body:
        return "", body.partition(_THE_WORDS)[2]
    return tag, body


def _may_have_acted(tag: str, body: str) -> bool:
    is_cut_off = tag == "system" and body.startswith(_CUT_OFF)
    return is_cut_off and any(each in body.partition(_THE_WORDS)[0] for each in _ALREADY)


def _without_asides(text: str) -> str:
    while aside := _ASIDE.match(text):
        text = text[aside.end() :]
    return text


def _moment(stamp: re.Match[str]) -> datetime | None:
    hour = int(stamp["hour"]) % 12 + (12 if stamp["half"] == "PM" else 0)
    try:
        return datetime.fromisoformat(f"{stamp['day']}T{hour:02}:{stamp['minute']}")
    except ValueError:
        return None


def _to_mention(updates: re.Match[str] | None) -> tuple[str, ...]:
    if updates is None or not updates["duty"].startswith("mention"):
        return ()
    found = [_UPDATE_FENCE.sub(r" \2", each) for each in _UPDATE.findall(updates["lines"])]
    return tuple(each for each in found if not each.startswith(KNOWN_TO_OWNER))


@dataclass(frozen=True, slots=True)
class Situation:
    """`outcomes` are the results of this turn's tool calls, by call.

    `said_before` is what the owner said earlier, oldest first; `said_in_fork` is what they said
    since the last side conversation began. `is_answered`: the turn has an answer in words.
    """

    prompt: ParsedPrompt
    tools: tuple[str, ...]
    outcomes: Mapping[str, ToolResult]
    said_before: tuple[ParsedPrompt, ...] = ()
    said_in_fork: tuple[ParsedPrompt, ...] = ()
    is_answered: bool = False

    def may_call(self, tool: str) -> bool:
        """Whether the tool exists and was not tried in this turn yet."""
        return tool in self.tools and tool not in self.outcomes

    def outcome(self, call: CallTool) -> ToolResult | None:
        return self.outcomes.get(_called(call.name, call.arguments))


def situations_of(request: ModelRequest) -> tuple[Situation, ...]:
    """The latest turns, of which the last is to be answered."""
    prompts = [(start, read_prompt(text)) for start, text in _prompts(request.messages)]
    start, prompt = _to_answer(prompts)
    earlier = [each for each in prompts if each[0] < start and not each[1].asks_to_go_on]
    turns = [*earlier[-_TURNS_SEEN:], (start, prompt)]
    ends = [*(begin for begin, _ in turns[1:]), len(request.messages)]
    said, in_fork = said_by_owner(request)[:-1], _said_in_fork(prompts)
    return tuple(
        Situation(
            asked,
            request.tools,
            dict(_outcomes(turn)),
            said,
            in_fork,
            is_answered=any(map(_has_words, turn)),
        )
        for (begin, asked), end in zip(turns, ends, strict=True)
        for turn in [request.messages[begin:end]]
    )


def _has_words(message: Message) -> bool:
    return message.role == "assistant" and any(message.texts)


def said_by_owner(request: ModelRequest) -> tuple[ParsedPrompt, ...]:
    """Everything that the owner said in the conversation, oldest first."""
    spoken = (message.texts for message in request.messages if message.role == "user")
    return tuple(said for texts in spoken for text in texts for said in _of_owner(text))


def _said_in_fork(prompts: Sequence[tuple[int, ParsedPrompt]]) -> tuple[ParsedPrompt, ...]:
    said: list[ParsedPrompt] = []
    for _, prompt in prompts:
        if prompt.tag == "fork-started":
            said.clear()
        elif prompt.text and not prompt.tag:
            said.append(prompt)
    return tuple(said)


def _to_answer(prompts: Sequence[tuple[int, ParsedPrompt]]) -> tuple[int, ParsedPrompt]:
    """The last prompt; if it only asks to go on, the one before with the updates of both."""
    if not prompts:
        return 0, ParsedPrompt("")
    asked = [(start, prompt) for start, prompt in prompts if not prompt.asks_to_go_on]
    _, last = prompts[-1]
    if not last.asks_to_go_on or not asked:
        return prompts[-1]
    start, prompt = asked[-1]
    updates = tuple(dict.fromkeys((*prompt.updates, *last.updates)))
    return start, replace(
        prompt,
        updates=updates,
        moment=last.moment,
        zone=last.zone,
        may_have_acted=last.may_have_acted,
    )


def _of_owner(text: str) -> Iterator[ParsedPrompt]:
    """What the owner said in a text; a summary of ours keeps the earlier words."""
    if text.startswith(_SUMMED_UP):
        for summary in _OUR_SUMMARY.finditer(text):
            lines = summary["lines"].splitlines()
            yield from (ParsedPrompt(line.removeprefix("- ")) for line in lines)
    elif not text.startswith(_ENGINE_SPEAKS):
        prompt = read_prompt(text)
        if prompt.text and not prompt.tag:
            yield prompt


def _prompts(messages: Sequence[Message]) -> list[tuple[int, str]]:
    """Each prompt with the number of its message; one message may have several."""
    return [
        (number, text)
        for number, message in enumerate(messages)
        if message.role == "user"
        for text in message.texts
        if not text.startswith(_ENGINE_SPEAKS)
    ]


def _outcomes(messages: Iterable[Message]) -> Iterable[tuple[str, ToolResult]]:
    names: dict[str, str] = {}
    for message in messages:
        for call in message.of_type("tool_use"):
            names[str(call.get("id"))] = _called(str(call.get("name")), call.get("input"))
        for result in message.tool_results:
            yield names.get(result.call_id, ""), result


def _called(tool: str, arguments: object) -> str:
    """The tool; for the shell with its command, which tells calls apart."""
    if tool != SHELL or not isinstance(arguments, Mapping):
        return tool
    return f"{tool}({arguments.get('command')})"


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
    ("the", "a", "in", "at", "on", "one", "my", "it", "is", "please", "and", "i", "mean")
)


_SHORT_DAYS = frozenset(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))
_LONG_DAY = re.compile(rf"\b({'|'.join(_SHORT_DAYS)})(?:s|nes|rs|ur)?day\b")


def answered(asked: FollowUp, words: str, read: Read) -> str | Unanswered | None:
    """The sentence that the answer makes of the question; None if the words are no answer to it."""
    said = " ".join(spelled_out(words).split()).rstrip(" .!?…")
    plain = said.casefold().replace("’", "'")
    lead, tail = _LEAD.match(said), _TAIL.search(said)
    core = _TAIL.sub("", said[lead.end() if lead else 0 :])
    is_time = vocabulary.tells_time(core.split())
    if not asked.asks:
        is_correction = is_time and bool(lead or tail or plain.startswith("at "))
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
        name = found["place"]
        place = next((at for at, starts in enumerate(_PLACES) if name.startswith(starts)), last)
        return choices[place][1] if place <= last else ""
    named = [sentence for label, sentence in choices if wanted and _names(wanted, _pieces(label))]
    exact = [sentence for label, sentence in choices if wanted == _pieces(label) - _FILLING]
    fitting = exact or named
    return fitting[0] if len(fitting) == 1 else ""


def _names(wanted: frozenset[str], label: frozenset[str]) -> bool:
    """Whether the words are some of the label's; of its weekdays, they name all or none."""
    days = label & _SHORT_DAYS
    return wanted <= label and (days <= wanted or not days & wanted)


def _pieces(text: str) -> frozenset[str]:
    """The words of a text, weekdays in short; `6:30pm` is a time and a half of the day."""
    words = _LONG_DAY.sub(r"\1", text.casefold())
    return frozenset(re.findall(r"[0-9]+(?::[0-9]+)?|[^\W\d_]+", words))


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
    """Ask for the time of a form.

    It keeps the day or the time of day that was said, if the answer does not name it.
    """
    words = said.split()
    parts = [
        words[start:end] for start in range(len(words)) for end in range(len(words), start, -1)
    ]
    days = [" ".join(part) for part in parts if now and _is_day(" ".join(part), now)]
    forms = [form.replace("{}", f"{day} {at}{{}}") for day in days[:1] for at in ("", "at ")]
    clocks = [
        each
        for each in (" ".join(part) for part in parts)
        if vocabulary.names_clock(each) and time_of_day(each)
    ]
    forms += [form.replace("{}", f"{{}} {clock}") for clock in clocks[:1]]
    choices = tuple((each, form.replace("{}", each)) for each in readings)
    bare = (form, form.replace("{}", "at {}"), form.replace("{}", "in {}"))
    return FollowUp(choices, (*forms, *bare))


def _is_day(words: str, now: datetime) -> bool:
    try:
        return bool(parse_day(words, now.date()))
    except BadPhrase:
        return False
