"""The coming days as the page and `ollim-bot rehearse` show them, made of one rehearsal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import groupby
from typing import NamedTuple

from ollim_bot.features.week.rehearsal_findings import Finding, FindingKind
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import (
    clock_time,
    day_words,
    describe,
    duration_in_words,
    elapsed,
    midnight,
    short_clock,
)
from ollim_bot.kernel.base.text import counted, one_line
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent, between, stale_words
from ollim_bot.kernel.values.costs import Amount, PastCosts
from ollim_bot.kernel.values.leave_by import moment_to_leave
from ollim_bot.kernel.values.occurrences import SkipReason
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.quiet import QuietSettings, is_quiet, quiet_spans
from ollim_bot.kernel.values.schedule import key_of
from ollim_bot.kernel.values.simulation import Fire, Ping, Rehearsal

DAYS = 7
# An hour with more moments is folded.
MOST_MOMENTS = 20
# The moments of so many minutes are one mark of the strip of a day.
MARK_MINUTES = 15
# A job that comes more often in one hour has one line there.
_OFTEN = 3
_DAY = timedelta(days=1)

_PINGS = {
    Ping.SENT: "may ping",
    Ping.HELD: "ping waits",
    Ping.REFUSED: "ping refused, the budget is empty",
    Ping.ORDERED: "comes whatever happens",
    Ping.NONE: "silent",
}
_SKIPS = {
    SkipReason.OVERLAP: "skipped, its last run is still going",
    SkipReason.POLICY: "skipped, as you wanted",
    SkipReason.BUDGET: "not sent, the ping budget is empty",
}


def fate(fire: Fire) -> str:
    """What becomes of an occurrence: `may ping`, `ping waits until 7:00, when the quiet ends`."""
    if fire.is_skipped and fire.ping is not Ping.ORDERED:
        return _SKIPS.get(fire.reason, "does not run") if fire.reason else "does not run"
    if fire.is_held_turn and fire.quiet_until is not None:
        return f"waits until {clock_time(fire.quiet_until)}, then in the conversation"
    if not fire.job.spec.background and fire.ping is Ping.NONE:
        return f"in the conversation{_in_the_quiet(fire)}"
    if fire.ping is Ping.HELD and fire.quiet_until is not None:
        return f"{_PINGS[fire.ping]} until {clock_time(fire.quiet_until)}, when the quiet ends"
    return _PINGS[fire.ping] + (_in_the_quiet(fire) if fire.ping is Ping.ORDERED else "")


def fates(fires: Sequence[Fire]) -> str:
    """The fates of several occurrences, with how many have each: `may ping (5 of them)`."""
    counts = Counter(map(fate, fires))
    return "; ".join(
        words if count == len(fires) else f"{words} ({count} of them)"
        for words, count in counts.items()
    )


def around(fire: Fire, zone: tzinfo) -> str:
    """The heads-ups and how it comes again, as the end of a line."""
    nag = fire.job.spec.nag
    most = f", at most {counted(nag.times, 'time')}" if nag and fire.again else ""
    return "".join(f", {words}" for words in _beside(fire, zone)) + most


def _note(fire: Fire, zone: tzinfo) -> str:
    """What is worth saying beside an occurrence; that a reminder comes goes without saying."""
    comes = fire.ping is Ping.ORDERED and fire.quiet_until is None
    return ", ".join([*([] if comes else [fate(fire)]), *_beside(fire, zone)])


def _beside(fire: Fire, zone: tzinfo) -> Iterator[str]:
    """The heads-ups, and how it comes again."""
    if fire.heads_ups:
        moments = " and ".join(short_clock(at.astimezone(zone)) for at in fire.heads_ups)
        yield f"announced at {moments}"
    if fire.job.spec.nag and fire.again:
        yield f"again every {duration_in_words(fire.job.spec.nag.pause)} until you answer"


def _in_the_quiet(fire: Fire) -> str:
    return ", also in the quiet" if fire.quiet_until is not None else ""


class WeekLine(NamedTuple):
    """A line of an hour: one occurrence, or those of a job that comes often in it."""

    at: datetime
    fires: Sequence[Fire]
    note: str

    @property
    def title(self) -> str:
        spec = self.fires[0].job.spec
        return spec.owner_title or spec.id

    @property
    def job(self) -> JobKey:
        return key_of(self.fires[0].job)

    @property
    def is_refused(self) -> bool:
        return any(fire.ping is Ping.REFUSED for fire in self.fires)

    @property
    def is_skipped(self) -> bool:
        return all(fire.is_skipped for fire in self.fires)


class WeekHour(NamedTuple):
    """What comes from `at` on and before the next full hour, by time. `at` is a full hour.

    `groups` are the fires of each line; `counts` are by what becomes of a ping, and `marks` by
    `MARK_MINUTES`.
    """

    at: datetime
    fires: Sequence[Fire]
    groups: Sequence[Sequence[Fire]]
    counts: Mapping[Ping, int]
    marks: Mapping[int, int]
    is_quiet: bool = False

    @classmethod
    def of(cls, at: datetime, fires: Sequence[Fire], *, is_quiet: bool) -> WeekHour:
        start, unit = at.astimezone(UTC), timedelta(minutes=MARK_MINUTES)
        marks = Counter((fire.at - start) // unit for fire in fires)
        counts = Counter(fire.ping for fire in fires)
        return cls(at, fires, [*often_together(fires)], counts, marks, is_quiet)

    @property
    def key(self) -> str:
        """The hour in an address."""
        return f"{self.at:%Y-%m-%dT%H}"

    @property
    def is_folded(self) -> bool:
        return len(self.fires) > MOST_MOMENTS

    @property
    def summary(self) -> str:
        """`34 moments, 12 may ping, 2 pings refused`."""
        sent, refused = (self.counts.get(each, 0) for each in (Ping.SENT, Ping.REFUSED))
        words = [counted(len(self.fires), "moment")]
        words += [f"{sent} may ping"] if sent else []
        words += [f"{counted(refused, 'ping')} refused"] if refused else []
        return ", ".join(words)

    def lines(self, most: int | None = None) -> list[WeekLine]:
        """The lines, `most` of them at most."""
        zone, lines = self.at.tzinfo or UTC, []
        for fires in self.groups[:most]:
            note = _note(fires[0], zone)
            if len(fires) > 1:
                last = short_clock(fires[-1].at.astimezone(zone))
                note = f"{len(fires)} times until {last}: {fates(fires)}"
            lines.append(WeekLine(fires[0].at.astimezone(zone), fires, note))
        return lines


def often_together(fires: Sequence[Fire]) -> Iterator[Sequence[Fire]]:
    """Each fire alone, but those of a job that comes often together, at the first of them."""
    of_job: dict[int, list[Fire]] = {}
    for fire in fires:
        of_job.setdefault(id(fire.job), []).append(fire)
    for fire in fires:
        same = of_job[id(fire.job)]
        if len(same) <= _OFTEN:
            yield (fire,)
        elif fire is same[0]:
            yield same


class WeekEvent(NamedTuple):
    """An event of a calendar. `is_told` is False if it is quiet at the moment to leave."""

    event: CalendarEvent
    begins: datetime
    ends: datetime
    leave_by: datetime | None = None
    is_told: bool = True

    @classmethod
    def of(
        cls, event: CalendarEvent, zone: tzinfo, leave: datetime | None, quiet: QuietSettings | None
    ) -> WeekEvent:
        is_told = leave is None or quiet is None or not is_quiet(quiet, leave)
        begins, ends = (each.astimezone(zone) for each in (event.begins(zone), event.ends(zone)))
        return cls(event, begins, ends, leave and leave.astimezone(zone), is_told)

    @property
    def title(self) -> str:
        return one_line(self.event.summary, 100) or "no title"

    def leave_words(self, now: datetime) -> str:
        """When the owner is told to leave, as the end of a line."""
        if self.leave_by is None or self.leave_by <= now:
            return ""
        words = f", leave by {short_clock(self.leave_by)}"
        return words if self.is_told else f"{words} (you are not told: it is quiet then)"


@dataclass(frozen=True, slots=True)
class WeekDay:
    """A day from `first` until `last`, which are midnights but at the ends of the week."""

    first: datetime
    last: datetime
    hours: Sequence[WeekHour] = ()
    events: Sequence[WeekEvent] = ()
    quiet: Sequence[tuple[datetime, datetime]] = ()
    cost: Amount | None = None

    @property
    def day(self) -> date:
        return self.first.date()

    @property
    def moments(self) -> int:
        return sum(len(hour.fires) for hour in self.hours)


class BudgetHour(NamedTuple):
    """An hour of the ping budget: what is `left` when it begins, and at least in it."""

    at: datetime
    left: float
    lowest: float
    paid: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class WeekView:
    """What comes until the end of the rehearsal, with the ground that it stands on.

    `assumed` says what was assumed of each run, and of the owner. With `only`, the owner looks at
    that hour alone.
    """

    rehearsal: Rehearsal
    days: Sequence[WeekDay]
    findings: Sequence[Finding]
    budget: Sequence[BudgetHour]
    quiet: Sequence[tuple[datetime, datetime]]
    events: Sequence[WeekEvent]
    money: Forecast
    assumed: str
    notes: Sequence[str] = ()
    only: Sequence[WeekHour] = ()

    @property
    def now(self) -> datetime:
        return self.rehearsal.now

    @property
    def until(self) -> datetime:
        return self.rehearsal.until

    @property
    def is_empty(self) -> bool:
        return not self.rehearsal.fires and not self.events

    @property
    def start_budget(self) -> PingBudget:
        return self.rehearsal.budgets[0]

    @property
    def summary(self) -> str:
        """`43 moments, 12 of them may ping.`"""
        hours = [hour for day in self.days for hour in day.hours]
        pings = sum(hour.counts.get(each, 0) for hour in hours for each in (Ping.SENT, Ping.HELD))
        words = counted(len(self.rehearsal.fires), "moment")
        return f"{words}, {pings} of them may ping." if pings else f"{words}."

    @property
    def budget_sentence(self) -> str:
        """What the line of the ping budget shows."""
        dry = (each.sentence for each in self.findings if each.kind is FindingKind.BUDGET)
        if sentence := next(dry, ""):
            return sentence
        capacity = self.start_budget.capacity
        lowest = min(self.budget, key=lambda each: each.lowest)
        if not any(each.paid for each in self.budget):
            return f"No background run pings in these days: the budget stays at {capacity}."
        left = int(lowest.lowest + _TOLERANCE)
        when = describe(lowest.at, self.now)
        return f"The pings last: at the least {left} of {capacity} are left, {when}."


# Rounding must not leave 1.9999999 of two pings.
_TOLERANCE = 1e-9


def week_of(
    rehearsal: Rehearsal,
    found: Sequence[Finding],
    quiet: QuietSettings | None,
    calendars: Sequence[CalendarCopy],
    travel_minutes: int | None,
    costs: PastCosts,
) -> WeekView:
    """The rehearsed days and what was found in them, with calendars, quiet, budget and money."""
    money = forecast(rehearsal, costs)
    now, until = rehearsal.now, rehearsal.until
    nights = () if quiet is None else quiet_spans(quiet, now, until)
    zone = rehearsal.zone
    spans = [(start.astimezone(zone), end.astimezone(zone)) for start, end in nights]
    events = [
        WeekEvent.of(event, zone, moment_to_leave(event, travel_minutes), quiet)
        for event in between(calendars, now, until)
    ]
    length = duration_in_words(rehearsal.length)
    is_answered = any(fire.job.follows_answers for fire in rehearsal.fires)
    you = "answered at once what comes after it is done" if is_answered else "wrote nothing"
    return WeekView(
        rehearsal,
        [*_days(rehearsal, spans, events, money)],
        found,
        [*_budget_hours(rehearsal)],
        spans,
        events,
        money,
        f"each run took {length}, each background run pinged once at its end, "
        f"no reminder followed up, and you {you}",
        notes=[stale_words(copy, now) for copy in calendars if copy.is_stale(now)],
    )


def _days(
    rehearsal: Rehearsal,
    spans: Sequence[tuple[datetime, datetime]],
    events: Sequence[WeekEvent],
    money: Forecast,
) -> Iterator[WeekDay]:
    hours: dict[date, list[WeekHour]] = {}
    for hour in _hours(rehearsal, spans):
        hours.setdefault(hour.at.date(), []).append(hour)
    first = rehearsal.now
    while first < rehearsal.until:
        day = first.date()
        tomorrow = midnight(day + _DAY, rehearsal.zone)
        last = min(tomorrow, rehearsal.until)
        yield WeekDay(
            first,
            last,
            hours.get(day, ()),
            # One without a length is taken to last a moment.
            [
                each
                for each in events
                if each.begins < last and max(each.ends, each.begins + datetime.resolution) > first
            ],
            [span for span in spans if span[0] < last and span[1] > first],
            money.by_day.get(day),
        )
        first = tomorrow


def _hours(rehearsal: Rehearsal, spans: Sequence[tuple[datetime, datetime]]) -> Iterator[WeekHour]:
    fires = sorted(rehearsal.fires, key=lambda fire: fire.at)
    for at, found in groupby(fires, key=lambda fire: full_hour(fire.at.astimezone(rehearsal.zone))):
        inside = [*found]
        is_still = all(
            any(start <= fire.at < end for start, end in spans) for fire in (inside[0], inside[-1])
        )
        yield WeekHour.of(at, inside, is_quiet=is_still)


def full_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _budget_hours(rehearsal: Rehearsal) -> Iterator[BudgetHour]:
    """The budget by the hour, from now until the end."""
    zone, budget = rehearsal.zone, rehearsal.budgets[0]
    pings = (
        fire.at if fire.starts is None else fire.starts + rehearsal.length
        for fire in rehearsal.fires
        if fire.ping is Ping.REFUSED
    )
    refused = Counter(full_hour(at.astimezone(zone)).astimezone(UTC) for at in pings)
    payments = list(reversed(rehearsal.budgets[1:]))
    at = rehearsal.now
    while at < rehearsal.until:
        # A clock that is set back by half an hour shows the same hour again.
        end = (at.astimezone(UTC) + (timedelta(hours=1) - (at - full_hour(at)))).astimezone(zone)
        left = lowest = budget.refilled(at).available
        paid = 0
        while payments and elapsed(end, payments[-1].last_refill) < timedelta(0):
            budget, paid = payments.pop(), paid + 1
            lowest = min(lowest, budget.available)
        yield BudgetHour(at, left, lowest, paid, refused.pop(full_hour(at).astimezone(UTC), 0))
        at = end


def day_name(day: date, now: datetime) -> str:
    """`Today`, `Tomorrow`, `Fri 20 Nov`."""
    near = {now.date(): "Today", now.date() + _DAY: "Tomorrow"}
    return near.get(day) or day_words(day, now)


@dataclass(frozen=True, slots=True)
class Forecast:
    """`amount` is what `runs` runs would cost; the cost of `unknown_jobs` is not known."""

    amount: Amount = field(default_factory=Amount)
    runs: int = 0
    unknown_jobs: int = 0
    by_day: Mapping[date, Amount] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """`About $0.84 for 43 runs, by the median of past runs.`"""
        jobs = counted(self.unknown_jobs, "job")
        verb = "costs" if self.unknown_jobs == 1 else "cost"
        rest = f" What {jobs} {verb} is not known yet." if self.unknown_jobs else ""
        if not self.runs:
            return rest.strip() or "Nothing of this asks a model, so it costs nothing."
        words = self.amount.in_words()
        about = "About " if any(each.is_listed for each in self.amount.prices) else ""
        total = f"{about}{words} for {counted(self.runs, 'run')}"
        return f"{total[0].upper()}{total[1:]}, by the median of past runs.{rest}"


def forecast(rehearsal: Rehearsal, costs: PastCosts) -> Forecast:
    """What the runs of the rehearsed days would cost."""
    asked = [fire for fire in rehearsal.fires if fire.starts is not None and not fire.job.is_plain]
    jobs = {id(fire.job): fire.job for fire in asked}
    usual = {key: costs.amount(job) for key, job in jobs.items()}
    counts = Counter((fire.at.astimezone(rehearsal.zone).date(), id(fire.job)) for fire in asked)
    by_day: dict[date, list[Amount]] = {}
    runs = 0
    for (day, key), times in counts.items():
        amount = usual[key]
        if amount is not None:
            runs += times
            by_day.setdefault(day, []).append(
                Amount(amount.micros * times, amount.included * times, amount.prices)
            )
    return Forecast(
        total(each for amounts in by_day.values() for each in amounts),
        runs,
        sum(amount is None for amount in usual.values()),
        {day: total(amounts) for day, amounts in by_day.items()},
    )


def total(amounts: Iterable[Amount]) -> Amount:
    known = [*amounts]
    prices = frozenset(price for each in known for price in each.prices)
    return Amount(sum(each.micros for each in known), sum(each.included for each in known), prices)
