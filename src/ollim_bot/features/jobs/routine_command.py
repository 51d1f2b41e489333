"""`ollim-bot routine`: what the bot does again and again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from ollim_bot.features.jobs.job_arguments import AGENT, JobNoun, fields_given, flag, flag_of
from ollim_bot.features.jobs.job_command import job_command
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.moments import describe, describe_with_distance
from ollim_bot.kernel.store.routine_format import ROUTINES, rhythm_changes
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import Routine
from ollim_bot.surfaces.terminal.framework import Given, small, zone_of
from ollim_bot.surfaces.terminal.terminal_data import note

if TYPE_CHECKING:
    from ollim_bot.kernel.values.quiet import QuietHours


class RoutineNoun(JobNoun[Routine]):
    form = ROUTINES
    flags = (
        flag("--every", "every", "when, as a rhythm in words", metavar='"weekday at 9"'),
        flag("--cron", "cron", "when, as a cron line in quotes", metavar='"30 8 * * 1-5"'),
        flag_of(ROUTINES.rules["quiet"]),
        AGENT,
    )
    main_flags = '(--every "weekday at 9" | --cron "30 8 * * 1-5")'
    add_words = '-m "plan my day" --every "weekday at 9"'
    edit_words = '3f2a9c1b --cron "0 9 * * 1-5"'

    def own_fields(
        self, given: Given, now: datetime, quiet: QuietHours | None
    ) -> dict[str, object]:
        if "every" not in given:
            others = dict.fromkeys(("every", "after-done", "at")) if "cron" in given else {}
            return others | fields_given(given, ("cron", "quiet"))
        if "cron" in given:
            raise WrongInput("--every and --cron both say when. Give one of them.")
        from ollim_bot.kernel.values.phrases.rhythm import parse_rhythm
        from ollim_bot.kernel.values.repeats import read_rhythm

        # What the agent does then need not ring.
        spares_night = given.get("plain") is not False
        text = parse_rhythm(given["every"], now, quiet, spares_night=spares_night)
        unbroken = parse_rhythm(given["every"], now)
        if text != unbroken:
            hint = f'`--cron "{unbroken}"` would keep them in.'
            note(f"it leaves out your quiet hours, {quiet}. {hint}")
        return rhythm_changes(read_rhythm(text)) | fields_given(given, ("quiet",))

    def upcoming(self, job: Routine, now: datetime) -> Iterator[datetime]:
        zone = job.spec.zone(zone_of(now))
        return job.rhythm.moments_from(now + datetime.resolution, zone)

    def promise(self, job: Routine, now: datetime) -> str:
        moment = self.next(job, now)
        if moment is None:
            return _rhythm(job)
        return f"{_rhythm(job)}. Next: {describe_with_distance(moment, now)}"

    def facts(self, job: Routine, now: datetime) -> list[tuple[str, str]]:
        moments = [*islice(self.upcoming(job, now), 3)]
        words = [describe_with_distance(each, now) for each in moments[:1]]
        words += [describe(each, now) for each in moments[1:]]
        none = f"none, it {job.standstill}" if job.spec.enabled else "none while it is paused"
        line = f" (cron {job.rhythm})" if isinstance(job.rhythm, Cron) else ""
        return [
            ("when", f"{_rhythm(job)}{line}"),
            ("next", ", ".join(words) if words and job.spec.enabled else none),
        ]


def _rhythm(routine: Routine) -> str:
    zone = routine.spec.timezone
    return small(routine.rhythm.explain()) + (f" in {zone.key}" if zone else "")


run = job_command(RoutineNoun()).run
