"""Finds out what a message means, if all of it is said in words that are known."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

from ollim_bot.offline.phrasings import (
    CLOSING,
    COURTESIES,
    NAME,
    OPENING,
    PHRASINGS,
    PLEASANTRY,
    SHORTHANDS,
    Intent,
)

# Nobody says one of these things in more words.
_LONGEST = 200

_APOSTROPHES = re.compile(r"['’ʼ`´]")
# Those that change nothing of what is said; any other is something that is not understood.
_SMILES = re.compile(
    r"(?<!\S)(?:[:;]-?[)d]|<3|x|xx)(?!\S)|[😀😁😃😄😇😉😊😌😍😴🙂🙏👋👍🌙❤✨\ufe0f🏻-🏿]"
)
_STRETCHED = re.compile(r"([a-z])\1{2,}")
_BREAK = re.compile(r"[.,!?;:…]+(?=\s|$)|\s+[-–—]+\s+|\n")
_AND = re.compile(r"\band\b")


def _of_courtesy(intent: Intent) -> re.Pattern[str]:
    said = "|".join(PHRASINGS[intent])
    return re.compile(rf"(?:{PLEASANTRY} )*(?:{said})(?: {PLEASANTRY})*(?: {NAME})?")


def _of_question(intent: Intent) -> re.Pattern[str]:
    return re.compile(rf"(?:{OPENING} )*(?:{'|'.join(PHRASINGS[intent])})(?: {CLOSING})*")


_PATTERNS: Mapping[Intent, re.Pattern[str]] = {
    intent: _of_courtesy(intent) if intent in COURTESIES else _of_question(intent)
    for intent in Intent
}
_PLEASANTRIES = re.compile(rf"{NAME}|{PLEASANTRY}(?: {PLEASANTRY})*")


def meant(text: str) -> tuple[Intent, ...]:
    """What a message says or asks, in its order; nothing if any part of it is not understood."""
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
    """Whether all of it is polite and asks for nothing."""
    if len(text) > _LONGEST:
        return False
    found = [_of_clause(clause) for clause in _clauses(text)]
    return all(intents is not None and COURTESIES.issuperset(intents) for intents in found)


def _foremost(intents: tuple[Intent, ...]) -> tuple[Intent, ...]:
    """Courtesies go without saying where something is asked, a greeting where anything else is."""
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
    """None if it is not understood; nothing if it only is polite."""
    whole = _of_words(clause)
    parts = [part.strip() for part in _AND.split(clause)]
    if whole is not None or len(parts) == 1:
        return whole
    found = [_of_words(part) for part in parts]
    known = [intents for intents in found if intents is not None]
    return sum(known, ()) if len(known) == len(found) else None


def _of_words(words: str) -> tuple[Intent, ...] | None:
    for intent, pattern in _PATTERNS.items():
        if pattern.fullmatch(words):
            return (intent,)
    return () if _PLEASANTRIES.fullmatch(words) else None
