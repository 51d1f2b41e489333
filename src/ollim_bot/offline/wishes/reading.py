"""From a message to the one wish in it, without the courtesies around that wish."""

from __future__ import annotations

import re
from datetime import datetime

from ollim_bot.offline import texts
from ollim_bot.offline.understanding import is_courteous
from ollim_bot.offline.wishes.cancelling import cancelling
from ollim_bot.offline.wishes.reminding import reminding
from ollim_bot.offline.wishes.repeating import repeating
from ollim_bot.offline.wishes.wish import Unsure, Wish

# Nobody wishes for one thing in more characters than these.
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
# Behind these, thanks and greetings are what is to be said.
_QUOTES = re.compile(
    r"\b(?:say(?:ing)?|writ(?:e|ing)|tell(?:ing)?|text|send|reply|answer|wish|greet|thank|message"
    r"|note|card|post|email|mail)\b",
    re.IGNORECASE,
)
_ASKED = re.compile(r"(?:can|could|would) (?:you|u)\b", re.IGNORECASE)


def wish_of(text: str, now: datetime) -> Wish | None:
    """None if there is none; `Unsure` if there is one, but not all of the text is clear."""
    if len(text) > _LONGEST:
        return None
    lines = [" ".join(line.split()) for line in text.splitlines()]
    spoken = [line for line in lines if line and not is_courteous(line)]
    wishes = [wish for wish in (_of_line(line, now) for line in spoken) if wish]
    if len(spoken) == 1 or not wishes:
        return wishes[0] if wishes else None
    return Unsure(texts.ONE_AT_A_TIME)


def _of_line(line: str, now: datetime) -> Wish | None:
    core = _without_courtesies(line)
    words = core.rstrip(" .!?…")
    wish = cancelling(words) or repeating(words) or reminding(words, now)
    if wish and core.endswith("?") and not _ASKED.match(core):
        return Unsure(texts.ASKED_OR_TOLD)
    return wish


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
    return _QUOTES.search(text) is not None
