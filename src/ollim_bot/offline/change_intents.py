"""Reads from a message what the owner wants of a reminder or routine that is there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.phrases import parse_duration, parse_moment
from ollim_bot.domain.phrases.durations import is_duration
from ollim_bot.domain.text import nearest
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.dialogue import time_question
from ollim_bot.offline.messages import FollowUp
from ollim_bot.offline.vocabulary import POLITELY, AmbiguousIntent, Change

_KIND = r"(?P<kind>reminder|routine)"
_ID = r"(?P<subject>[0-9a-f]{8})"
_THE = r"(?:the |my |that )"
_NAMED = (
    _ID,
    rf"{_THE}?{_KIND}(?P<subject>)",
    rf"{_THE}?{_KIND} (?:with (?:the )?id )?{_ID}",
    rf"{_THE}?{_KIND} (?:about|to|for|of|that) (?P<subject>.+?)",
    rf"{_THE}?(?P<subject>.+?) {_KIND}",
    rf"{_THE}?(?P<subject>\S+(?: \S+){{0,2}}?) (?P<thing>thing|one|stuff)",
)
_BY_WORDS = (rf"{_THE}?(?P<subject>\S+(?: \S+){{0,2}}?)(?P<thing> (?:thing|one|stuff))?",)
_CANCEL = r"cancel|delete|remove|scrap|ditch|get rid of|call off"
_NO_NEED = r"(?:i )?(?:do not|don['’]?t|no longer) (?:need|want)"
_MOVE = r"(?:push|move|change|reschedule|delay|shift|snooze|postpone|bump|put off)"
_UNTIL = r"(?: back)? (?P<how>by|for|to|until|till) (?P<until>.+)"
# The verb of the command line, what people say for it with {} for the job, and how they name the
# job: only after plain verbs may its kind be left out.
_CHANGES = tuple(
    (verb, re.compile(rf"{POLITELY}?(?:{form.replace('{}', named)})", re.IGNORECASE))
    for verb, form, names in (
        ("cancel", rf"(?:{_CANCEL}|drop|forget(?: about)?|bin|lose|clear|take back) {{}}", _NAMED),
        ("cancel", rf"{_NO_NEED} {{}}(?: any ?more| any longer| now)?", _NAMED),
        ("pause", r"(?:pause|stop|disable|(?:turn|switch) off) {}(?: for now)?", _NAMED),
        ("pause", r"(?:turn|switch) {} off(?: for now)?", _NAMED),
        ("resume", r"(?:resume|unpause|enable|start|(?:turn|switch) on) {}(?: again)?", _NAMED),
        ("resume", r"(?:turn|switch) {}(?: back)? on(?: again)?", _NAMED),
        ("snooze", rf"{_MOVE} {{}}{_UNTIL}", _NAMED),
        ("move", rf"{_MOVE} {{}} (?P<until>(?:\d|half |an? ).+)", _NAMED),
        ("move", r"put {} (?:off|back) (?:to|until|till) (?P<until>.+)", (*_NAMED, *_BY_WORDS)),
        ("snooze", r"(?:snooze|postpone) {}", _NAMED),
        ("move", r"(?:make|have) {}(?: for| at)? (?P<until>.+)", _NAMED),
        ("cancel", rf"(?:{_CANCEL}|forget about) {{}}", _BY_WORDS),
        ("pause", r"pause {}(?: for now)?", _BY_WORDS),
        ("resume", r"(?:resume|unpause) {}", _BY_WORDS),
        ("resume", r"(?:re)?start {} again", _BY_WORDS),
        ("snooze", rf"(?:snooze|postpone) {{}}{_UNTIL}", _BY_WORDS),
        ("snooze", r"(?:snooze|postpone) {}", _BY_WORDS),
        ("move", rf"{_MOVE} {{}}{_UNTIL}", _BY_WORDS),
        ("move", rf"{_MOVE} {{}} back (?P<until>.+)", (*_NAMED, *_BY_WORDS)),
        ("pause", r"(?:stop|(?:turn|switch) off) (?:my )?(?P<subject>\w+)", ("",)),
        (
            "stop",
            r"(?:stop|quit) (?:reminding|nagging|bugging|telling) me (?:about|to|of) {}",
            _BY_WORDS,
        ),
        ("pause for", r"pause {} (?:for|until|till) (?!now).+", (*_NAMED, *_BY_WORDS)),
        ("move", r"{} (?P<until>(?:at|on|in|tomorrow|today|tonight)\b.*) instead", _BY_WORDS),
        (
            "skip",
            r"skip {} (?:today|tomorrow|tonight|this time|once|next time)",
            (*_NAMED, *_BY_WORDS),
        ),
        ("move", r"(?:snooze|postpone|push|delay) {} (?P<until>(?:\d|half |an? ).+)", _BY_WORDS),
        ("change", r"change {}", (_ID,)),
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
_VERBS = (
    *("cancel", "delete", "remove", "scrap", "ditch", "snooze", "postpone", "pause", "resume"),
    *("unpause", "reschedule", "delay", "shift"),
)


def change_intent(text: str, now: datetime) -> Change | AmbiguousIntent | None:
    """None if the text does not change a job that is there."""
    doubt = None
    for verb, form in _CHANGES:
        if found := form.fullmatch(text):
            change = _checked_change(verb, found.groupdict(), now)
            if isinstance(change, Change):
                return change
            doubt = doubt or change
    if doubt or _CHANGE_REQUEST.fullmatch(text):
        return doubt or AmbiguousIntent(texts.ONE_AT_A_TIME)
    # `cancle the dentist thing`
    first, _, rest = text.partition(" ")
    meant = None if first.lower() in _VERBS else nearest(first.lower(), _VERBS, 1)
    change = change_intent(f"{meant} {rest}", now) if meant else None
    return change if isinstance(change, Change) else None


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
        return AmbiguousIntent(texts.routine_stays(subject or "it"))
    form = (
        f"snooze the reminder about {subject} until {{}}" if subject else "snooze the reminder {}"
    )
    if not until:
        is_id = re.fullmatch(_ID, subject) is not None
        asked = texts.UNTIL_WHEN if is_id else texts.until_when(subject or "the reminder")
        return AmbiguousIntent(asked, time_question(form))
    until, is_later = re.subn(r"(?<=\S) later$", "", until, flags=re.IGNORECASE)
    is_length = is_later or how.lower() in ("by", "for") or (not how and is_duration(until))
    try:
        _ = parse_duration(until) if is_length else parse_moment(until, now)
    except BadPhrase as refused:
        readings = () if is_length else refused.readings
        question = time_question(form, readings, until, now)
        return AmbiguousIntent(texts.unclear_moment(str(refused)), question)
    return Change("snooze", JobKind.REMINDER, subject, ("--for" if is_length else "--until", until))
