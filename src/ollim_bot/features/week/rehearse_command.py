"""`ollim-bot rehearse`: the schedule of the coming days."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import date, datetime, timedelta
from itertools import groupby
from pathlib import Path

from ollim_bot.features.week.rehearsal_difference import Difference, rehearse_week
from ollim_bot.features.week.rehearsal_findings import Finding, findings, push_days
from ollim_bot.features.week.week import (
    DAYS,
    Forecast,
    WeekEvent,
    WeekView,
    around,
    fate,
    fates,
    often_together,
    week_of,
)
from ollim_bot.kernel.base.errors import BadJob, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, clock_time, describe, duration_in_words
from ollim_bot.kernel.base.plain_files import SizeLimit
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.calendar_files import readable_copies
from ollim_bot.kernel.store.document import BadDocument, Document
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.job_formats import REMINDERS, FieldProblem
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.store.skill_files import SkillFolder
from ollim_bot.kernel.values.answer_plans import with_plan_of
from ollim_bot.kernel.values.calendar import CalendarCopy, event_row, time_words, without_text
from ollim_bot.kernel.values.costs import PAST, PastCosts
from ollim_bot.kernel.values.jobs import Routine
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.push import KEPT_FOR_MUST, PER_DAY
from ollim_bot.kernel.values.schedule import ScheduledJob, Skips, day_of, key_of, moments_of_day
from ollim_bot.kernel.values.simulation import Fire, Rehearsal, rehearse
from ollim_bot.kernel.values.usage import dollars
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    argument,
    columns,
    command,
    plain,
    print_json,
    small,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import open_data

_MOST_FINDINGS = 5
_MOST_ROWS = 30

_NOTHING = (
    "Nothing would happen until {until}. "
    'Add something: ollim-bot reminder add -m "call the dentist" --in 20m'
)

Row = tuple[str, str, str]

_EXAMPLE = "--days 14"
_FILE_EXAMPLE = "Example: ollim-bot rehearse --with evening.md"
_MOST_DAYS = 366


def page(week: WeekView, *, has_titles: bool, is_running: bool) -> str:
    """The words for a terminal; the titles of events are for the owner only."""
    rehearsal, days = week.rehearsal, [*_calendar(week, has_titles=has_titles)]
    until = describe(rehearsal.until.replace(second=0), rehearsal.now)
    if not rehearsal.fires:
        return plain("\n\n".join([_NOTHING.format(until=until), *days]))
    start = "" if is_running else "the bot started now, "
    parts = [
        f"What would happen until {until}, if {start}{week.assumed}.",
        _to_look_at(week.findings),
        *([f"Money: {week.money.sentence}"] if week.money.runs else ()),
    ]
    if rehearsal.pushes is not None:
        most = max((each.total for each in push_days(rehearsal)), default=0)
        parts.append(
            f"Your phone: {most} messages on the fullest day at most; it takes {PER_DAY} a day."
        )
    parts += days
    if not rehearsal.is_whole:
        parts.append(f"There is more than can be shown: this ends {until}.")
    return plain("\n\n".join(parts))


def _to_look_at(found: Sequence[Finding]) -> str:
    if not found:
        return "Nothing gets in the way of anything else."
    lines = []
    for kind, several in groupby(found, key=lambda finding: finding.kind):
        sentences = [finding.sentence for finding in several]
        lines += [f"- {sentence}" for sentence in sentences[:_MOST_FINDINGS]]
        if len(sentences) > _MOST_FINDINGS:
            lines.append(f"- {len(sentences) - _MOST_FINDINGS} more like this ({kind}).")
    return "\n".join(["Worth a look:", *lines])


def _calendar(week: WeekView, *, has_titles: bool) -> Iterator[str]:
    """One part for each day, or for consecutive days on which the same happens."""
    rehearsal, today = week.rehearsal, week.now.date()
    days: dict[date, list[tuple[datetime, Row]]] = {}
    for event in week.events:
        row = event.begins, _event_row(event, week.now, has_titles=has_titles)
        days.setdefault(max(event.begins.date(), today), []).append(row)
    shown = _shown(rehearsal)
    for day, fires in groupby(shown, key=lambda fire: _local(fire.at, rehearsal).date()):
        rows = [(same[0].at, _row(same, rehearsal)) for same in often_together([*fires])]
        days.setdefault(day, []).extend(rows)
    for stretch in _stretches([(day, _in_order(rows)) for day, rows in sorted(days.items())]):
        yield f"{_head(stretch[0][0], stretch[-1][0], today)}\n{columns(stretch[0][1])}"
    yield from (f"{note}." for note in week.notes)


def _in_order(rows: Sequence[tuple[datetime, Row]]) -> list[Row]:
    """The rows by their moments, and how many more there are than can be shown."""
    sorted_rows = [row for _, row in sorted(rows, key=lambda each: each[0].timestamp())]
    more = len(sorted_rows) - _MOST_ROWS
    last = [("", f"and {more} more", "")] if more > 0 else []
    return [*sorted_rows[:_MOST_ROWS], *last]


def _event_row(one: WeekEvent, now: datetime, *, has_titles: bool) -> Row:
    what = title(one.event.summary) or "no title" if has_titles else "busy"
    time, _, end = time_words(one.event, now).partition("–")
    until = f"until {end}, " if end else ""
    note = f"{until}in your calendar ({one.event.calendar}){one.leave_words(now)}"
    return f"  {time:>5}", what, note


def _stretches(days: Sequence[tuple[date, list[Row]]]) -> list[list[tuple[date, list[Row]]]]:
    found: list[list[tuple[date, list[Row]]]] = []
    for day, rows in days:
        before = found[-1][-1] if found else None
        if before and before[1] == rows and day - before[0] == timedelta(days=1):
            found[-1].append((day, rows))
        else:
            found.append([(day, rows)])
    return found


def _row(fires: Sequence[Fire], rehearsal: Rehearsal) -> Row:
    """The row of a moment, or of several of one job that come often together."""
    fire, time = fires[0], _clock(fires[0].at, rehearsal)
    name = title(fire.job.spec.title)
    if len(fires) > 1:
        until = _clock(fires[-1].at, rehearsal)
        return f"  {time:>5}", name, f"{len(fires)} times until {until}: {fates(fires)}"
    late = f", late: it was due {describe(fire.due, rehearsal.now)}" if fire.is_late else ""
    wait = f", after waiting {duration_in_words(fire.wait)}" if fire.wait else ""
    words = fate(fire) + wait + late + around(fire, rehearsal.zone)
    return f"  {time:>5}", name, words


def _head(first: date, last: date, today: date) -> str:
    """`Today, Sun 15 Nov`, `Tomorrow to Fri 20 Nov, each day`."""
    near = {today: "Today", today + timedelta(days=1): "Tomorrow"}
    if first != last:
        return f"{near.get(first) or _day(first, today)} to {_day(last, today)}, each day"
    return f"{near[first]}, {_day(first, today)}" if first in near else _day(first, today)


def _day(day: date, today: date) -> str:
    year = "" if day.year == today.year else f" {day.year}"
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}{year}"


def _clock(moment: datetime, rehearsal: Rehearsal) -> str:
    return clock_time(_local(moment, rehearsal).replace(second=0, microsecond=0))


def _local(moment: datetime, rehearsal: Rehearsal) -> datetime:
    return moment.astimezone(rehearsal.zone)


def brief(rehearsal: Rehearsal) -> str:
    """A line for each moment; what comes often has one for each day."""
    found: dict[tuple[date, JobKey], list[Fire]] = {}
    for fire in _shown(rehearsal):
        found.setdefault((_local(fire.at, rehearsal).date(), key_of(fire.job)), []).append(fire)
    rows = [row for fires in found.values() for row in _brief_rows(fires, rehearsal)]
    return plain("\n".join(sorted(rows)))


def _brief_rows(fires: Sequence[Fire], rehearsal: Rehearsal) -> Iterator[str]:
    job = fires[0].job
    day = day_of(fires[0].at, rehearsal.zone)
    is_often = moments_of_day(job, day, rehearsal.zone) is None
    for fire in fires[:1] if is_often else fires:
        notes = [title(job.spec.title)]
        if is_often and isinstance(job, Routine):
            notes.append(f"{small(job.rhythm.explain())}, {counted(len(fires), 'time')}")
        if fire.is_skipped:
            notes.append(fate(fire))
        yield f"{_local(fire.at, rehearsal):%Y-%m-%d %H:%M}  {' · '.join(notes)}"


def _shown(rehearsal: Rehearsal) -> list[Fire]:
    shown = [fire for fire in rehearsal.fires if fire.state is not OccurrenceState.MISSED]
    return sorted(shown, key=lambda fire: fire.at)


def page_object(
    week: WeekView, calendars: Sequence[CalendarCopy], *, has_titles: bool, is_running: bool
) -> dict[str, object]:
    rehearsal, copies = week.rehearsal, {copy.name: copy for copy in calendars}
    rows = [
        {
            **event_row(one.event, copies[one.event.calendar], rehearsal.zone),
            "leave_by": one.leave_by,
        }
        for one in week.events
    ]
    hours = [
        {
            "at": each.at,
            "left": round(each.left, 2),
            "lowest": round(each.lowest, 2),
            "paid": each.paid,
            "refused": each.refused,
        }
        for each in week.budget
    ]
    budget = week.start_budget
    minutes = budget.refill_rate_minutes
    return {
        "now": rehearsal.now,
        "until": rehearsal.until,
        "is_whole": rehearsal.is_whole,
        "assumed": {
            "bot_starts_now": not is_running,
            "run_seconds": round(rehearsal.length.total_seconds()),
            "pings_per_run": 1,
        },
        "superseded": rehearsal.superseded,
        "findings": [
            {
                "kind": finding.kind,
                "first": finding.at,
                "times": finding.times,
                "jobs": [{"kind": key.kind, "id": key.id} for key in finding.jobs],
                "sentence": finding.sentence,
            }
            for finding in week.findings
        ],
        "fires": [_fire_object(fire, rehearsal) for fire in rehearsal.fires],
        "quiet": [{"from": start, "until": until} for start, until in week.quiet],
        "pings": {"capacity": budget.capacity, "minutes_per_ping": minutes, "hours": hours},
        "money": _money_object(week.money),
        "phone": _phone_object(rehearsal),
        "calendar": rows if has_titles else [without_text(row) for row in rows],
    }


def _phone_object(rehearsal: Rehearsal) -> dict[str, object] | None:
    if rehearsal.pushes is None:
        return None
    return {
        "what": rehearsal.pushes,
        "per_day": PER_DAY,
        "kept_for_must": KEPT_FOR_MUST,
        "by_day": [
            {"day": each.day, "messages": each.total, "must": each.must, "missing": each.missing}
            for each in push_days(rehearsal)
        ],
    }


def _money_object(money: Forecast) -> dict[str, object]:
    return {
        **money.amount.as_object(),
        "runs": money.runs,
        "unknown_jobs": money.unknown_jobs,
        "by_day": [
            {"day": day, **amount.as_object()} for day, amount in sorted(money.by_day.items())
        ],
    }


def _fire_object(fire: Fire, rehearsal: Rehearsal) -> dict[str, object]:
    return {
        **key_of(fire.job)._asdict(),
        "title": fire.job.spec.short_title,
        "background": fire.job.spec.background,
        "due": _local(fire.due, rehearsal),
        "starts": None if fire.starts is None else _local(fire.starts, rehearsal),
        "state": fire.state,
        "reason": fire.reason,
        "ping": fire.ping,
        "quiet_until": fire.quiet_until,
        "heads_ups": [_local(at, rehearsal) for at in fire.heads_ups],
        "again": [_local(at, rehearsal) for at in fire.again],
    }


@command(
    "rehearse",
    "preview the coming days: what comes when, and what gets in its way",
    _EXAMPLE,
    argument("--days", metavar="7", help="how many days; a week if not given"),
    argument(
        "--with",
        metavar="FILE",
        help="with this job file in place of the job with its id, or beside the others",
    ),
    argument("--brief", action="store_true", help="only what comes when, a line for each"),
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    days = _days(given.get("days", str(DAYS)))
    data = open_data(caller)
    jobs, problems = data.scheduled_jobs()
    skips = data.read(lambda tx: tx.skips.get()) or Skips()
    heartbeat = HeartbeatFile(data.paths).read()
    is_running = running_pid(data.paths.bot_pid) is not None
    circumstances = replace(
        data.assumptions(),
        watched_until=None if is_running else heartbeat or data.now,
        skills=SkillFolder(data.paths.skills).read().loaded.keys(),
        is_skipped=skips.has if skips.moments or skips.repetitions else None,
    )
    present, draft, former = {key_of(job): job for job in jobs}, None, None
    name = plain(given.get("with", ""))
    if "with" in given:
        draft = _read_job(caller.path(given["with"]), name)
        former = present.get(key_of(draft))
        draft = present[key_of(draft)] = with_plan_of(draft, former)
    calendars = readable_copies(data.paths)
    past = data.read(lambda tx: tx.usage.since(data.now - PAST)) or []
    rehearsal = rehearse([*present.values()] if draft else jobs, circumstances, days)
    if "brief" in given and "json" not in given:
        until = describe(rehearsal.until.replace(second=0), rehearsal.now)
        show(brief(rehearsal) or _NOTHING.format(until=until))
        return
    week = week_of(
        rehearsal,
        findings(rehearsal),
        circumstances.quiet,
        calendars,
        circumstances.config.travel_minutes,
        PastCosts(past),
    )
    shown = {"has_titles": caller.agent is None, "is_running": is_running}
    made = None
    if draft is not None:
        made = rehearse_week(jobs, circumstances).difference(former, draft, PastCosts(past))
    if "json" in given:
        change = {} if made is None else {"difference": _difference_object(made)}
        whole = page_object(week, calendars, **shown)
        print_json({**change, **whole, "problems": problems})
        return
    if made is not None:
        show(f"{plain(_draft_sentence(name, former, made))}\n")
    show(page(week, **shown))
    for problem in problems:
        show(plain(problem), "  ", stream=sys.stderr)


def _read_job(path: Path, name: str) -> ScheduledJob:
    """The job in that file, which the person calls `name`.

    Raises `WrongInput`, or `BadJob` with the lines at fault.
    """
    try:
        text = OsDisk().read(path, SizeLimit.JOB).decode("utf-8")
        document = frontmatter.parse(text)
    except OSError as refused:
        why = refused.strerror or str(refused)
        raise WrongInput(f"{name} cannot be read: {why}. {_FILE_EXAMPLE}") from None
    except UnicodeDecodeError:
        raise WrongInput(f"{name} is not UTF-8 text. {_FILE_EXAMPLE}") from None
    except BadDocument as bad:
        problem = FieldProblem(bad.reason, None, bad.line)
        raise BadJob([problem.sentence(name)]) from None
    form = REMINDERS if _is_reminder(path, document) else ROUTINES
    reading = form.read(document)
    if reading.job is None:
        raise BadJob([problem.sentence(name) for problem in reading.problems])
    return reading.job


def _is_reminder(path: Path, document: Document) -> bool:
    """By its folder; elsewhere by the field that says when it comes."""
    folder = path.resolve().parent.name
    if folder in (JobKind.ROUTINE.plural, JobKind.REMINDER.plural):
        return folder == JobKind.REMINDER.plural
    return any(name in document.fields for name in REMINDERS.moments)


def _draft_sentence(name: str, former: ScheduledJob | None, found: Difference) -> str:
    """`With evening.md in place of “Evening”: adds 7 pings a week.`."""
    place = "beside your jobs"
    if former is not None:
        place = f"in place of “{title(former.spec.title)}”"
    return f"With {name} {place}: {small(found.in_words())}"


def _difference_object(found: Difference) -> dict[str, object]:
    cost = None if found.micros is None else dollars(found.micros)
    return {
        "sentence": found.in_words(),
        **{name: asdict(getattr(found, name)) for name in ("pings", "turns", "silent")},
        "heads_ups": found.heads_ups,
        "again": found.again,
        "cost_usd": cost,
        "is_included": found.is_included,
        "refused": found.refused,
        "used_up": [*found.used_up],
        "no_longer_used_up": [*found.no_longer_used_up],
        "appeared": [finding.sentence for finding in found.appeared],
        "vanished": [finding.sentence for finding in found.vanished],
    }


def _days(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= _MOST_DAYS:
        wrong = f"--days: {text!r} is not a number from 1 to {_MOST_DAYS}."
        raise WrongInput(f"{wrong} Example: ollim-bot rehearse {_EXAMPLE}")
    return int(text)
