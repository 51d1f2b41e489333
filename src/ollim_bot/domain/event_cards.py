"""The cards about the deletion of an event."""

from __future__ import annotations

from datetime import UTC, datetime

from ollim_bot.domain.calendar import CalendarEvent, event_title, time_words
from ollim_bot.domain.cards import Button, ButtonStyle, Card, Color
from ollim_bot.domain.moments import day_words
from ollim_bot.domain.taint import Untrusted
from ollim_bot.domain.text import literal

EVENT_DELETE = "event_del"


# The data of the two buttons of the question begin with these.
YES, NO = "yes", "no"


EVENT_TEXT = Untrusted("calendar entry", "the title of an event in the owner's calendar")


def question_card(event: CalendarEvent, now: datetime) -> Card:
    return Card(
        "Delete this event?",
        f"{_in_words(event, now)}\nIt cannot be brought back with its guests.",
        color=Color.YELLOW,
        buttons=(
            Button("Keep it", EVENT_DELETE, f"{NO}:{event.id}"),
            Button("Delete", EVENT_DELETE, f"{YES}:{event.id}", ButtonStyle.DANGER),
        ),
    )


def deleted_card(event: CalendarEvent, now: datetime) -> Card:
    return Card("Event deleted", _in_words(event, now))


def kept_card(asked: Card) -> Card:
    return Card("Event kept", asked.description.partition("\n")[0])


def _in_words(event: CalendarEvent, now: datetime) -> str:
    zone = now.tzinfo or UTC
    begins = event.begins(zone).astimezone(zone).date()
    when = f"{day_words(begins, now)}, {time_words(event, now)}"
    # A card shows markdown, and others write titles.
    return f"{literal(event_title(event))}, {when} ({literal(event.calendar)})"
