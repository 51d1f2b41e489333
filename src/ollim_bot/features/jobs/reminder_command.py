"""`ollim-bot reminder`: what the bot does once, at a moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ollim_bot.features.jobs.job_arguments import AGENT, JobNoun, flag, whole_number
from ollim_bot.features.jobs.job_command import amend, job_argument, job_command
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.moments import clock_time, describe_with_distance, later
from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.values.jobs import Reminder
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import Given, argument, is_past, zone_of
from ollim_bot.surfaces.terminal.terminal_data import open_data

if TYPE_CHECKING:
    from ollim_bot.kernel.values.quiet import QuietHours


class ReminderNoun(JobNoun[Reminder]):
    form = REMINDERS
    flags = (
        flag("--in", "in", "when, from now on", metavar="20m"),
        flag("--at", "at", "when, as a moment in words", metavar='"tomorrow 9am"'),
        flag("--delay", "delay", "when, in minutes from now on", metavar="20"),
        flag(
            "--max-chain",
            "max-chain",
            "how often it may follow up by itself",
            metavar="N",
            type=whole_number,
        ),
        flag("--timer", "timer", "a timer: its card shows the time left", action="store_true"),
        AGENT,
    )
    main_flags = '(--in 20m | --at "tomorrow 9am" | --delay 20)'
    add_words = '-m "call the dentist" --in 20m'
    edit_words = '3f2a9c1b --at "tomorrow 9am"'

    def own_fields(
        self,
        given: Given,
        now: datetime,
        quiet: QuietHours | None,  # noqa: ARG002
    ) -> dict[str, object]:
        ways = {"in": _in, "at": _at, "delay": _delay}
        said = [name for name in ways if name in given]
        if len(said) > 1:
            raise WrongInput(f"--{said[0]} and --{said[1]} both say when. Give one of them.")
        if given.get("timer") and not said:
            raise WrongInput("--timer: say how long it runs. Example: --in 25m --timer")
        if not said:
            return {}
        moment = ways[said[0]](given[said[0]], now)
        timer = {"set-at": now} if given.get("timer") else {}
        return {"run-at": moment, **timer}

    def upcoming(self, job: Reminder, now: datetime) -> Iterator[datetime]:
        yield job.due(zone_of(now))

    def promise(self, job: Reminder, now: datetime) -> str:
        due = job.due(zone_of(now))
        # Rounded like the moment itself: 20 minutes must not read as 20 min 1 s.
        words = describe_with_distance(due, later(now, timedelta()))
        zone = job.spec.timezone
        if zone and due.utcoffset() != due.astimezone(zone_of(now)).utcoffset():
            words += f", {clock_time(due)} in {zone.key}"
        return f"overdue since {words}" if is_past(due, now) else words

    def facts(self, job: Reminder, now: datetime) -> list[tuple[str, str]]:
        chain = job.chain
        parent = f"; the first was {chain.parent}" if chain.parent else ""
        follow_ups = f"check {chain.depth + 1} of {chain.max + 1}{parent}" if chain.max else "none"
        return [("when", self.promise(job, now)), ("follow-ups", follow_ups)]


def _in(text: str, now: datetime) -> datetime:
    from ollim_bot.kernel.values.phrases.durations import parse_duration

    return later(now, parse_duration(text))


def _at(text: str, now: datetime) -> datetime:
    from ollim_bot.kernel.values.phrases.moment import moment_to_keep

    return moment_to_keep(text, now)


def _delay(text: str, now: datetime) -> datetime:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise WrongInput(f"--delay: {text!r} is not a number of minutes. Example: --delay 20")
    return _in(f"{text} minutes", now)


_NOUN = ReminderNoun()
_REMINDER = job_command(_NOUN)
run = _REMINDER.run


@_REMINDER.verb(
    "move one to a later moment",
    "rent --for 15m",
    job_argument(_NOUN),
    argument("--for", metavar="15m", help="this much later"),
    argument("--until", metavar='"tomorrow 9am"', help="at that moment instead"),
)
def _snooze(given: Given, caller: Caller) -> None:
    if ("for" in given) == ("until" in given):
        raise WrongInput(f"Say --for or --until. Example: {_REMINDER.example('snooze')}")
    data, noun = open_data(caller), _NOUN
    job_id = noun.id_of(given, data)
    reminder = noun.repository(data).get(job_id).item
    run_at = _snoozed(reminder, given, data.now)
    amend(noun, data, "snoozed", job_id, {"run-at": run_at}, by=caller)


def _snoozed(reminder: Reminder, given: Given, now: datetime) -> datetime:
    there = now.astimezone(reminder.spec.zone(zone_of(now)))
    if "until" in given:
        from ollim_bot.kernel.values.phrases.moment import parse_moment

        return parse_moment(given["until"], there)
    due = reminder.due(zone_of(there))
    return _in(given["for"], there if is_past(due, now) else due)
