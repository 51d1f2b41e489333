"""When the owner has to leave for an event, and the message that says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ollim_bot.kernel.base.job_kinds import EventKind
from ollim_bot.kernel.base.moments import short_clock
from ollim_bot.kernel.base.text import literal, one_line
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent, event_title
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import delivery_id
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.schedule import is_late

LEAVE_BY = "leave by"
# A meeting in the browser: there is nowhere to go.
_ADDRESS = re.compile(r"https?://\S*", re.IGNORECASE)


class Departure(NamedTuple):
    """When the owner has to leave for an event. `at` is in UTC."""

    at: datetime
    occurrence: Occurrence
    event: CalendarEvent

    @property
    def begins(self) -> datetime:
        return self.event.begins(UTC).astimezone(UTC)

    @property
    def title(self) -> str:
        """What the ledger calls it, without what others wrote in the event."""
        return f"{LEAVE_BY} ({self.event.calendar})"

    def message(self, now: datetime) -> ChatMessage:
        """The heads-up.

        Its card has the words of the event, for the owner alone. Its text, which the agent may
        read, has none of them.
        """
        zone = now.tzinfo or UTC
        leave, begins = (short_clock(each.astimezone(zone)) for each in (self.at, self.begins))
        when = "Leave now" if is_late(self.at, now) else f"Leave by {leave}"
        where = literal(one_line(self.event.location, 200))
        what = literal(event_title(self.event))
        return ChatMessage(
            delivery_id(self.occurrence),
            now,
            Author.BACKGROUND,
            f"{when} for an event at {begins}.",
            card=Card(when, f"{what} at {begins}, {where}"),
            job=LEAVE_BY,
            occurrence=self.occurrence.id,
        )


def moment_to_leave(event: CalendarEvent, minutes: int | None) -> datetime | None:
    """So many minutes before an event with a place, in UTC.

    None without minutes, and for an all-day event, a declined one and one at a web address.
    """
    place = event.location.strip()
    if minutes is None or event.all_day or event.is_declined:
        return None
    if not place or _ADDRESS.fullmatch(place):
        return None
    return event.begins(UTC).astimezone(UTC) - timedelta(minutes=minutes)


def departures(copies: Iterable[CalendarCopy], minutes: int | None) -> list[Departure]:
    """All of them, the earliest first. Of an event that two calendars have, there is one."""
    found: dict[object, Departure] = {}
    for event in (event for copy in copies for event in copy.events):
        at = moment_to_leave(event, minutes)
        if at is not None:
            # An event that is moved has another occurrence.
            begins, name = event.begins(UTC).astimezone(UTC), event.id.replace(":", "-") or "-"
            one = Occurrence.scheduled(EventKind.EVENT, name, begins).before(begins - at)
            same = (event.start, event.summary, event.location)
            found.setdefault(same, Departure(at, one, event))
    return sorted(found.values(), key=lambda each: (each.at, each.occurrence.id))
