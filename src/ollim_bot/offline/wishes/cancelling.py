"""A wish to take a reminder or a routine back, named by its id or by words of its text."""

from __future__ import annotations

import re

from ollim_bot.offline import texts
from ollim_bot.offline.wishes import vocabulary
from ollim_bot.offline.wishes.reminding import POLITELY
from ollim_bot.offline.wishes.wish import Cancel, JobNoun, Unsure

_VERB = rf"{POLITELY}?(?:cancel|delete|remove|drop|take back)"
_NOUN = r"(?P<noun>reminder|routine)"
_ID = r"(?P<subject>[0-9a-f]{8})"
_FORMS = tuple(
    re.compile(rf"{_VERB} {form}", re.IGNORECASE)
    for form in (
        _ID,
        rf"(?:the |my |that )?{_NOUN}(?P<subject>)",
        rf"(?:the |my |that )?{_NOUN} (?:with (?:the )?id )?{_ID}",
        rf"(?:the |my |that )?{_NOUN} (?:about|to|for|of|that) (?P<subject>.+)",
        rf"(?:the |my |that )(?P<subject>.+) {_NOUN}",
        rf"(?P<subject>.+) {_NOUN}",
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
            noun = found.groupdict().get("noun")
            return _wish(JobNoun(noun.lower()) if noun else None, found["subject"].strip())
    return Unsure(texts.ONE_AT_A_TIME) if _OF_THIS_KIND.fullmatch(text) else None


def _wish(noun: JobNoun | None, subject: str) -> Cancel | Unsure:
    if _MANY.search(subject) or vocabulary.is_more_than_one(subject):
        return Unsure(texts.ONE_AT_A_TIME)
    if vocabulary.is_negated(subject):
        return Unsure(texts.WHICH_ONE)
    return Cancel(noun, subject)
