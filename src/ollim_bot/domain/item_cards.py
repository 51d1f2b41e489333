"""How a due item looks: the card that asks, and the line that is left when it has its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.domain.due_items import Answer, DueItem
from ollim_bot.domain.moments import clock_time, describe, duration_in_words, elapsed
from ollim_bot.domain.quiet import MOVE
from ollim_bot.domain.snoozing import first_step_in

DONE, TAKEN, NOT_TAKEN = "done", "taken", "not_taken"
SNOOZE, LET_GO, UNDO = "snooze", "let_go", "undo"
# Begins the data where an action is for items and for other things too.
ITEM = "item"
# A wait that the owner says in words.
OTHER = "other"

_LONGEST_TITLE = 256
_MINUTE = timedelta(minutes=1)
_WAITS: Mapping[str, str] = {"10m": "Snooze 10 min", "1h": "1 h", "9am": "Tomorrow 9:00"}
_MOVES: Mapping[str, str] = {"today": "Later today", "9am": "Tomorrow"}
_ASK_WHEN = "When? (in 20 minutes, 17:30, friday 9:00)"


def open_card(item: DueItem, now: datetime, words: str = "") -> Card:
    """The card of an open item; `words` are the agent's, where it words the message itself.

    Each time that the item comes, the card has other words: those of the job, then the first step
    or how long ago it was, then a question with other buttons, and that with the time it is open.
    """
    if item.shown == 1:
        return _titled(words or item.title, _asking(item))
    if item.shown == 2:
        return _titled(_second_words(item, now), _asking(item))
    since = f" after {_age(item, now)}" if item.shown > 3 else ""
    return _titled(f"Still open{since}: {item.owner_title}?", _deciding(item))


def _second_words(item: DueItem, now: datetime) -> str:
    return first_step_in(item.note) or f"{item.owner_title} · {_age(item, now)} ago"


def _age(item: DueItem, now: datetime) -> str:
    return duration_in_words(_minutes(item.due, now))


def _titled(words: str, buttons: tuple[Button, ...]) -> Card:
    line = " ".join(words.split())
    if line == words and len(line) <= _LONGEST_TITLE:
        return Card(line, buttons=buttons)
    return Card("Reminder", words, buttons=buttons)


def _asking(item: DueItem) -> tuple[Button, ...]:
    # A dose is not for tomorrow: the next one is.
    waits = [each for each in _WAITS.items() if not (item.is_dose and each[0] == "9am")]
    return (
        *settling_buttons(item),
        *(Button(label, SNOOZE, f"{item.key}:{wait}") for wait, label in waits),
        Button("Other…", SNOOZE, f"{item.key}:{OTHER}", asks=_ASK_WHEN),
    )


def _deciding(item: DueItem) -> tuple[Button, ...]:
    moves = [each for each in _MOVES.items() if not (item.is_dose and each[0] == "9am")]
    return (
        *settling_buttons(item),
        *(Button(label, MOVE, f"{ITEM}:{item.key}:{wait}") for wait, label in moves),
        Button("Let it go", LET_GO, item.key),
    )


def settling_buttons(item: DueItem) -> tuple[Button, ...]:
    """The buttons that answer the item for good."""
    if not item.is_dose:
        return (Button("Done", DONE, item.key, ButtonStyle.SUCCESS),)
    return (
        Button("Taken", TAKEN, item.key, ButtonStyle.SUCCESS),
        Button("Skipped", NOT_TAKEN, item.key),
    )


def settled_card(item: DueItem, now: datetime) -> Card:
    """The line of an answered item, with Undo as long as that is possible."""
    color = Color.GREEN if item.answer in (Answer.DONE, Answer.TAKEN) else Color.BLUE
    card = Card(settled_line(item, now), color=color)
    if not item.can_undo(now):
        return card
    return replace(card, buttons=(Button("Undo", UNDO, f"{ITEM}:{item.key}"),))


def settled_line(item: DueItem, now: datetime, title: str = "") -> str:
    """`✓ drink water · 9:04`, `⏱ drink water · again at 9:14`, with the day where it is another.

    Without a `title` it has that of the owner's cards.
    """
    at = (item.answered_at or now).astimezone(now.tzinfo)
    clock, title = _clock(at, at), title or item.owner_title
    match item.answer:
        case Answer.SNOOZED:
            return f"⏱ {title} · again {_moment(_rounded(item, at), at)}"
        case Answer.MOVED:
            return f"⏱ {title} · moved to {describe(_rounded(item, at), at)}"
        case Answer.LET_GO:
            return f"– {title} · let go {clock}"
        case Answer.NOT_TAKEN:
            return f"– {title} · skipped {clock}"
        case Answer.TAKEN if item.late_after is not None and at > item.late_after:
            return f"✓ {title} · {clock} · that was the {_clock(item.due, at)} one"
        case _:
            return f"✓ {title} · {clock}"


def passed_card(item: DueItem, asked: datetime, now: datetime) -> Card:
    """The line of an earlier message, which asked then; a newer one asks now."""
    when = _moment(asked.replace(second=0, microsecond=0), now)
    return Card(f"{item.owner_title} · asked {when}", earlier_of=item.key)


def unanswered_card(item: DueItem, now: datetime) -> Card:
    """The line of a dose without an answer, where the card of a later one has come."""
    return Card(f"{item.owner_title} · {_clock(item.due, now)} · not answered")


def _minutes(since: datetime, now: datetime) -> timedelta:
    whole = elapsed(since, now)
    return max(_MINUTE, whole - whole % _MINUTE)


def _rounded(item: DueItem, at: datetime) -> datetime:
    """The chosen moment, without seconds unless it is near."""
    until = item.until or at
    is_near = elapsed(at, until) < 2 * _MINUTE
    return until if is_near else until.replace(second=0, microsecond=0)


def _moment(moment: datetime, now: datetime) -> str:
    local = moment.astimezone(now.tzinfo)
    return f"at {clock_time(local)}" if local.date() == now.date() else describe(moment, now)


def _clock(moment: datetime, now: datetime) -> str:
    """The time of day without seconds, and the day where it is not that of `now`."""
    local = moment.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    return clock_time(local) if local.date() == now.date() else describe(local, now)
