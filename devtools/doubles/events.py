"""Events in memory."""

from __future__ import annotations

from collections.abc import Iterable

from ollim_bot.kernel.base.errors import EventNotFound, OllimError
from ollim_bot.kernel.values.calendar import CalendarEvent


class MemoryEvents:
    """An `EventCalendar`. While `failure` is set, every call raises it."""

    def __init__(self, events: Iterable[CalendarEvent] = ()) -> None:
        self.failure: OllimError | None = None
        self.events = {event.id: event for event in events}

    def find(self, event_id: str) -> CalendarEvent:
        if self.failure is not None:
            raise self.failure
        try:
            return self.events[event_id]
        except KeyError:
            raise EventNotFound(event_id) from None

    def delete(self, event_id: str) -> CalendarEvent:
        event = self.find(event_id)
        del self.events[event_id]
        return event
