"""What a background run is told of the others around it."""

from __future__ import annotations

from datetime import tzinfo
from pathlib import Path

from ollim_bot.domain.forward_schedule import UpcomingSchedule, build_upcoming_schedule
from ollim_bot.domain.jobs import Reminder, Routine
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.schedule import key_of
from ollim_bot.ports import Clock
from ollim_bot.scheduling.job_book import JobBook


class Outlook:
    def __init__(self, book: JobBook, clock: Clock, zone: tzinfo, root: Path) -> None:
        self._book = book
        self._clock = clock
        self._zone = zone
        self._root = root

    def __call__(self, current: Occurrence) -> UpcomingSchedule:
        """Takes a while with very many jobs: for a thread."""
        booked = [*self._book.jobs.values()]
        jobs = [one.job for one in booked if isinstance(one.job, Routine | Reminder)]
        paths = {key_of(one.job): str(one.path.relative_to(self._root)) for one in booked}
        return build_upcoming_schedule(jobs, self._clock.now(), current, self._zone, paths)
