"""A wish to take a reminder or a routine back, named by its id or by words of its text."""

from __future__ import annotations

import re

from ollim_bot.domain.jobs import JobKind
from ollim_bot.offline import texts
from ollim_bot.offline.wishes import vocabulary
from ollim_bot.offline.wishes.reminding import POLITELY
from ollim_bot.offline.wishes.wish import Cancel, Unsure

_VERB = rf"{POLITELY}?(?:cancel|delete|remove|drop|take back)"
_KIND = r"(?P<kind>reminder|routine)"
_ID = r"(?P<subject>[0-9a-f]{8})"
_FORMS = tuple(
    re.compile(rf"{_VERB} {form}", re.IGNORECASE)
    for form in (
        _ID,
        rf"(?:the |my |that )?{_KIND}(?P<subject>)",
        rf"(?:the |my |that )?{_KIND} (?:with (?:the )?id )?{_ID}",
        rf"(?:the |my |that )?{_KIND} (?:about|to|for|of|that) (?P<subject>.+)",
        rf"(?:the |my |that )(?P<subject>.+) {_KIND}",
        rf"(?P<subject>.+) {_KIND}",
    )
)
_OF_THIS_KIND = re.compile(rf"{_VERB}\b.*\b(?:reminders?|routines?)\b.*", re.IGNORECASE)
_MANY = re.compile(
    r"\b(?:and|or|all|both|every|each|any|everything|but|reminders?|routines?)\b|[,;&+.]",
    re.IGNORECASE,
)


def cancelling(text: str) -> Cancel | Unsure | None:
    """None if nothing of ours is to be taken back."""
    for form in _FORMS:
        if found := form.fullmatch(text):
            kind = found.groupdict().get("kind")
            return _wish(JobKind(kind.lower()) if kind else None, found["subject"].strip())
    return Unsure(texts.ONE_AT_A_TIME) if _OF_THIS_KIND.fullmatch(text) else None


def _wish(kind: JobKind | None, subject: str) -> Cancel | Unsure:
    if _MANY.search(subject) or vocabulary.is_more_than_one(subject):
        return Unsure(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(subject):
        return Unsure(texts.WHICH_ONE)
    return Cancel(kind, subject)
