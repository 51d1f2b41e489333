"""What the owner's words make of a new job, the same in the chat, the tools and the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.values.job_fields import BACKGROUND, COMMON
from ollim_bot.kernel.values.jobs import ItemKind
from ollim_bot.kernel.values.phrases.durations import NUMBERS, parse_duration

# Fields that only a run of the agent can have, or that say how it runs.
_OF_RUNS = frozenset(
    ("skills", "max-chain", "background", *(each.name for each in COMMON if each.has(BACKGROUND)))
)
_FRAME = re.compile(
    r"(?:(?:please|pls|plz),? |(?:can|could|would) you (?:please )?)?"
    r"(?:remind me(?: again)?,? (?:to|of|about|that)|(?:tell|ping|nudge|message|text) me to"
    r"|do(?: not|n['’]?t) (?:let me )?forget(?: to)?"
    r"|remember to|i (?:need|want|have) to be reminded (?:to|of|about|that)) (?P<text>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_PLEASE = re.compile(r",? (?:please|pls|plz)[.! ]*$", re.IGNORECASE)

# Whether it rains, the agent finds out; whether the door is locked, the owner does.
_CONDITION = re.compile(r"\b(?:if|unless|depending)\b", re.IGNORECASE)
_OWN_QUESTION = re.compile(
    r"\b(?:check|see|know|look|test|decide|find out|make sure|(?:ask|tell)(?: \S{1,30})?) if\b",
    re.IGNORECASE,
)
_SOURCES = (
    r"(?:e-?mails?|inbox|mail|messages?|calendar|agenda|news|headlines|weather|forecast|tasks?"
    r"|to-?dos?|feeds?|web|websites?|sites?|web ?pages?|prices?|traffic|trains?|flights?|history"
    r"|https?)"
)
_TO_THE_AGENT = re.compile(
    r"(?:^|[.;:,\n]\s*|\b(?:and|then)\s+)(?:(?:please|now|also)\s+)?(?:"
    r"(?:tell|show|give|send|ask|message|ping|text|wish|prompt|help|brief|update|write|remind|wake"
    r"|read|find) (?:me|us)|let me know|ask (?:whether|if|how|what|about|why|when)"
    r"|(?:see|check) (?:if|whether|what|how|that|for)|check in|look(?! after| forward)|search"
    r"|google|research|browse|find out|summari[sz]e|sum up|analy[sz]e|compare|monitor|compile|draft"
    r"|translate|recommend|suggest|report|judge|decide|evaluate|review|go through|brief"
    r"|(?:plan|prepare) (?:\S{1,30} )?(?:day|week|month|morning|evening|weekend|briefing|summary)"
    rf"|(?:check|read|scan|watch|skim)\b[^.;\n]{{0,60}}\b{_SOURCES}"
    r"|(?:what|which|who|how|when|where|why)(?:['’]?s)?)\b"
    r"|\bthe (?:owner|user)\b|`|\bollim-bot\b|\w_\w",
    re.IGNORECASE,
)

_NO_ORDER = re.compile(r"(?:wh\w+|how|i|he|she|they|we|you|it|the|my)\b", re.IGNORECASE)
_MEDICINE = re.compile(
    r"\b(?:pills?|tablets?|capsules?|medicines?|medications?|meds|inhalers?|insulin|antibiotics?"
    r"|painkillers?|eye ?drops|vitamins?|doses?)\b"
    r"(?! ?(?:box|organi[sz]er|case|bottle|cabinet|list|charger|cover))",
    re.IGNORECASE,
)
# What people do with a medicine beside taking it.
_OTHER_ERRAND = re.compile(
    r"(?:ask|bin|book|bring|buy|call|cancel|change|charge|check|clean|collect|count|discuss|drop"
    r"|e-?mail|fetch|fill|find|fix|get|google|look|order|organi[sz]e|pack|pay|phone|pick|post"
    r"|prepare|print|put away|read|refill|remove|renew|repair|replace|research|return|ring|search"
    r"|sell|send|sort|stop|talk|tell|text|throw|update|wash|write|do not|don['’]?t|never"
    r"|take (?:back|out|away|.*\bto (?:the|my|work|school|mum|mom|dad|granny|grandma|her|him)))\b",
    re.IGNORECASE,
)

_COUNT = rf"(?:[0-9]+|{'|'.join(NUMBERS)})"
_TIMES = rf"(?:,? (?:up to |at most )?(?:{_COUNT} times|once|twice))?"
_EVERY = r"(?:every|each) (?:[\w.]+ ){0,3}?[\w.]+"
_PERIOD = r"(?:every|each) (?:\w+ ){0,2}(?:minutes?|mins?|hours?)"
_UNTIL = (
    r",? (?:until|till|['’]?til) (?:done|answered|it(?:['’]?s| is| has been) \w+"
    r"|i(?:['’]ve)?(?: \w+){0,4})"
)
_NAGGING = r"(?:nagging|reminding|asking|bugging|pestering|poking|pinging|bothering)(?: me)?"
_ASK = r"(?:remind|ask|bug|pester|ping) me"
_AND = r"(?:(?:[,;.]| [-–—]) (?:(?:and|then|but|please) )*| (?:(?:and|then|but|please) )+)"
_IT = r"(?: about (?:it|this|that))?"
_HOW = rf"{_IT}(?: {_EVERY})?{_TIMES}(?:{_UNTIL})?"
# What people add at the end, so that it comes again until it is done.
_AGAIN = tuple(
    re.compile(rf"{form}{_TIMES}[.! ]*$", re.IGNORECASE)
    for form in (
        rf"(?:{_AND}| )nag me{_HOW}",
        rf"{_AND}(?:keep|go|carry)(?: on)? (?:(?:at|on) (?:it|me)|{_NAGGING}|trying){_HOW}",
        rf"{_AND}do(?: not|n['’]?t) (?:stop|let up|give up|quit)(?: {_NAGGING})?{_IT}{_UNTIL}",
        rf"{_AND}(?:repeat it|{_ASK}){_IT} {_EVERY}{_TIMES}{_UNTIL}",
        rf"{_AND}(?:{_ASK} )?again {_EVERY}(?:{_UNTIL})?",
        rf",? {_PERIOD}{_UNTIL}",
        r",? (?:until|till|['’]?til) i(?:['’]ve| have)(?: (?:done|taken|had)(?: it| this| them)?)?",
    )
)
_NAG_FRAME = re.compile(
    rf"(?:please )?(?:nag me|keep (?:on )?{_NAGGING})(?P<every> {_PERIOD})?"
    r"(?:,? (?:from|starting(?: at| from)?)(?= ))?(?P<until> until i)? (?P<text>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_PAUSE = re.compile(
    rf"\b(?:every|each) (.+?)(?=,? (?:until|till|['’]?til|up to|at most|once|twice|{_COUNT} times)"
    r"\b|[,.! ]*$)",
    re.IGNORECASE,
)
_HOW_OFTEN = re.compile(rf"\b(?:(?P<count>{_COUNT}) times|once|twice)\b", re.IGNORECASE)
_ONE = re.compile(r"second|minute|min|hour|day", re.IGNORECASE)
_USUAL = Nag(timedelta(minutes=10), 4)
_SHORTEST, _LONGEST, _MOST_TIMES = timedelta(minutes=2), timedelta(days=1), 8
_MINUTE = timedelta(minutes=1)
# A longer text is an instruction.
_LONGEST_WISH = 1000


class Wish(NamedTuple):
    """`text` is what comes to the owner, or what the agent does; `fields` are those of the file."""

    text: str
    fields: Mapping[str, object]


def wish_from_words(
    words: str,
    kind: JobKind,
    given: Mapping[str, object],
    *,
    nag_default: str | None = None,
    is_tainted: bool = False,
) -> Wish:
    """The new job that the owner's words make; a field in `given` was said by itself, and holds.

    `nag_default` is the owner's usual nag. After reading untrusted text, words order nothing: they
    only say whether the text comes as it is. Raises `WrongInput` for a pause that no nag may have.
    """
    words = words.strip()
    said, again = without_nag(words)
    framed = _FRAME.fullmatch(said)
    text = _PLEASE.sub("", framed["text"] if framed else said)
    may_be_plain = _OF_RUNS.isdisjoint(given) and not _needs_agent(text, is_framed=bool(framed))
    fields: dict[str, object] = {}
    if given.get("plain", may_be_plain):
        fields["plain"] = True
    if fields and not is_tainted:
        if kind is JobKind.ROUTINE:
            fields["must"] = True
        if is_dose(text) and given.get("must", True):
            fields["kind"] = ItemKind.DOSE.value
    if again and not is_tainted:
        fields["nag"] = str(_nag(again, Nag.parse(nag_default) if nag_default else _USUAL))
    fields |= given
    if nag_default and not is_tainted and "nag" not in fields and _must_come(kind, fields):
        fields["nag"] = nag_default
    return Wish(text, fields)


def _must_come(kind: JobKind, fields: Mapping[str, object]) -> bool:
    """Whether a new job reminds the owner of something, and must come."""
    if fields.get("max-chain") or fields.get("allow-ping") is False:
        return False
    is_reminder = kind is JobKind.REMINDER
    return bool(fields.get("must", is_reminder) and (is_reminder or fields.get("plain")))


def without_nag(words: str) -> tuple[str, str]:
    """The words without what says that it comes again until it is done, and that part of them."""
    if len(words) > _LONGEST_WISH:
        return words, ""
    if front := _NAG_FRAME.fullmatch(words):
        said, again = without_nag(f"remind me {'to ' if front['until'] else ''}{front['text']}")
        return said, again or f", and nag me{front['every'] or ''}"
    for form in _AGAIN:
        found = form.search(words)
        if found and found.start():
            return words[: found.start()].rstrip(" ,;"), words[found.start() :]
    return words, ""


def without_frame(words: str) -> str:
    """The words without `remind me to` in front."""
    framed = _FRAME.fullmatch(words)
    return framed["text"] if framed else words


def _nag(again: str, usual: Nag) -> Nag:
    pause, times = usual.pause, usual.times
    if every := _PAUSE.search(again):
        said = every[1]
        pause = parse_duration(f"1 {said}" if _ONE.fullmatch(said) else said)
        if not _SHORTEST <= pause <= _LONGEST:
            how, near = ("often", "2 minutes") if pause < _SHORTEST else ("seldom", "24 hours")
            limit = "shortest" if pause < _SHORTEST else "longest"
            raise WrongInput(
                f"`every {said}` is too {how}: the {limit} pause is {near}. "
                f"Write `nag me every {near}`."
            )
    if found := _HOW_OFTEN.search(again):
        word = (found["count"] or "").lower()
        times = NUMBERS.get(word) or int(word or ("1", "2")[found[0].lower() == "twice"])
        if not 1 <= times <= _MOST_TIMES:
            raise WrongInput(f"`{found[0]}` is too often: it can come again 8 times at most.")
    return Nag(pause // _MINUTE * _MINUTE, times)


def _needs_agent(text: str, *, is_framed: bool) -> bool:
    """Whether something is to be looked up, read or judged then."""
    if len(text) > _LONGEST_WISH or _CONDITION.search(_OWN_QUESTION.sub("", text)):
        return True
    return not is_framed and _TO_THE_AGENT.search(text) is not None


def is_order(text: str) -> bool:
    """Whether the words, with nothing before them, tell the agent to look, read or judge."""
    return _TO_THE_AGENT.search(text) is not None and _NO_ORDER.match(text) is None


def is_dose(text: str) -> bool:
    """Whether the text says to take a medicine."""
    return _MEDICINE.search(text) is not None and _OTHER_ERRAND.match(text) is None
