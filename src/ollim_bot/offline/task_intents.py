"""Reads from a message what the owner wants of their tasks: add one, tick one off, delete one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from ollim_bot.domain.phrases import parse_day
from ollim_bot.errors import BadPhrase
from ollim_bot.offline import texts, vocabulary
from ollim_bot.offline.messages import FollowUp
from ollim_bot.offline.vocabulary import POLITELY, AddTask, AmbiguousIntent, SettleTask

_LIST = (
    r"(?:my |the )?(?:(?:(?:task|to-?do|to do|(?P<name>(?!task\b|to-?do\b)[\w-]+)) )?list"
    r"|list of tasks|tasks?|to-?dos?|to do)"
)
_MADE = r"(?:(?:add|make|create|write down|note(?: down)?|i need|i have) )?"
_TASK = rf"{_MADE}(?:an? |another )?(?:new )?(?:task|to-?do)(?: for me)?"
_THE = r"(?:the |my )?"
_ABOUT = r"(?:to |about |of )?(?P<subject>.+)"
_ADDING = tuple(
    re.compile(rf"{POLITELY}?(?:{form})", re.IGNORECASE)
    for form in (
        rf"{_TASK}(?:: ?| to | for | that i (?:have|need) to )(?P<task>.+)",
        r"(?:(?:add|new|make|create|note) )+(?:an? )?(?:new )?(?:task|to-?do) (?P<task>\S.+)",
        rf"(?:add|put|write|note) (?P<task>.+?) (?:to|on|onto|in) {_LIST}(?P<more>(?:[ ,].*)?)",
        r"(?:add|note) (?P<task>.+?) as a(?: new)? task(?P<more>(?:[ ,].*)?)",
        rf"{_TASK}(?P<task>)",
    )
)
_SETTLING = tuple(
    (verb, re.compile(rf"{POLITELY}?(?:{form})", re.IGNORECASE))
    for verb, form in (
        ("done", rf"(?:tick|check|cross) off {_THE}(?:task )?(?P<subject>.+?)(?: task)?"),
        ("done", rf"(?:tick|check|cross) {_THE}(?P<subject>.+?)(?: task)? off"),
        ("done", rf"mark {_THE}(?P<subject>.+?)(?: task)? (?:as )?(?:done|finished)"),
        ("done", rf"(?:complete|finish) {_THE}task {_ABOUT}"),
        ("done", rf"(?:complete|finish) {_THE}(?P<subject>.+?) task"),
        ("done", rf"(?:i am |i['’]?m )?done with {_THE}(?:task )?(?P<subject>.+?)(?: task)?"),
        ("done", rf"i(?:['’]ve| have)? (?:just )?finished {_THE}(?P<subject>.+?) task"),
        ("delete", rf"(?:delete|remove|drop|forget) {_THE}task {_ABOUT}"),
        ("delete", rf"(?:delete|remove|drop|forget) {_THE}(?P<subject>.+?) task"),
        ("delete", rf"(?:delete|remove|take) {_THE}(?P<subject>.+?) (?:from|off) {_LIST}"),
    )
)
_DUE = re.compile(r"(?P<task>.+?),? \(?(?P<how>due|by)(?: on)? (?P<day>[^()]+?)\)?", re.IGNORECASE)
_DAY_BEHIND = re.compile(r"(?P<task>.+?),? (?P<day>today|tomorrow)", re.IGNORECASE)
_POINTERS = re.compile(r"it|this|that|them|these|those|everything|all", re.IGNORECASE)


def task_intent(text: str, now: datetime) -> AddTask | SettleTask | AmbiguousIntent | None:
    """None if the text is not about a task."""
    for form in _ADDING:
        if found := form.fullmatch(text):
            parts = found.groupdict()
            return _adding(f"{found['task']}{parts.get('more') or ''}".strip(), now, parts)
    for verb, form in _SETTLING:
        if found := form.fullmatch(text):
            return _settling(verb, found["subject"])
    return None


def _adding(
    words: str, now: datetime, parts: Mapping[str, str | None]
) -> AddTask | AmbiguousIntent:
    task, due = words, ""
    if found := _DUE.fullmatch(words) or _DAY_BEHIND.fullmatch(words):
        problem = _problem(found["day"], now)
        if not problem:
            task, due = found["task"], found["day"]
        elif found.groupdict().get("how", "").lower() == "due":
            return AmbiguousIntent(texts.unclear_moment(problem))
    if not task or _POINTERS.fullmatch(task) or vocabulary.names_no_task(task):
        return AmbiguousIntent(texts.SAY_WHICH_TASK, FollowUp(blank="add a task: {}"))
    return AddTask(task, due, parts.get("name") or "")


def _settling(verb: str, subject: str) -> SettleTask | None:
    return None if _POINTERS.fullmatch(subject) else SettleTask(verb, subject)


def _problem(day: str, now: datetime) -> str:
    try:
        parse_day(day, now.date())
    except BadPhrase as refused:
        return str(refused)
    return ""
