"""Checks the files of jobs, and the ledger of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe_with_distance
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.heartbeat import SHARED_HEARTBEAT, HeartbeatFile
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.upkeep.findings import Check, DoctorInput, Found, failed, passed, warned
from ollim_bot.kernel.upkeep.looks import job_report
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.schedule import next_due

_MOST_NAMED = 5
_MEND = "Mend the file; `ollim-bot {} list` shows whether it is right."
_SHOW_RUN = "`ollim-bot runs show ID`, with the id at the front, shows what is known of it."


def check_jobs(kind: JobKind, given: DoctorInput) -> Found:
    report = job_report(given, JOB_TYPES[kind])
    yield from map(failed, report.problems)
    yield from map(warned, report.warnings)
    if report.jobs or not report.problems:
        found = [one.item for one in report.jobs]
        yield passed(_overview(kind, found, given.local_now, given.data.zone))


def _overview(kind: JobKind, found: Sequence[Job], now: datetime, zone: tzinfo) -> str:
    if not found:
        return f"none; `ollim-bot {kind} add --help` shows how to add one"
    timed = [job for job in found if isinstance(job, Routine | Reminder)]
    waiting = [job for job in timed if isinstance(job, Reminder) and job.spec.enabled]
    counts = [counted(len(found), str(kind))]
    if paused := sum(not job.spec.enabled for job in found):
        counts.append(f"{paused} paused")
    if overdue := sum(job.due(zone).astimezone(UTC) <= now.astimezone(UTC) for job in waiting):
        counts.append(f"{overdue} overdue")
    coming = [(at, job.spec.short_title) for job in timed if (at := next_due(job, now, zone))]
    moment, title = min(coming, default=(None, ""))
    after = f"; next {describe_with_distance(moment, now)}: {title}" if moment else ""
    return f"{', '.join(counts)}{after}"


def check_ledger(given: DoctorInput) -> Found:
    # Read first: the ledger, read afterwards, has every occurrence claimed until this heartbeat.
    watched_until = HeartbeatFile(given.data.paths).read()
    if watched_until is None and given.is_shared:
        # When the machine that leads last recorded the time.
        led_until = given.read(lambda tx: tx.meta.get(SHARED_HEARTBEAT))
        watched_until = None if led_until is None else datetime.fromisoformat(led_until)
    # None if the database cannot be read, which is a check of its own.
    rows = given.read(lambda tx: tx.ledger.page(0, 2**62)[0]) or ()
    wrong = check(rows, given.local_now, watched_until)
    yield from map(failed, wrong[:_MOST_NAMED])
    if len(wrong) > _MOST_NAMED:
        step = "`ollim-bot runs check` names them all."
        yield failed(f"{len(wrong) - _MOST_NAMED} more like that", step)
    if not wrong:
        runs = len({row.occurrence for row in rows if row.occurrence})
        right = f"{counted(runs, 'run')}, and nothing is missing, doubled or made up"
        yield passed(right if runs else "no runs yet")


CHECKS = (
    # Webhooks have more to check than their files.
    *(
        Check(kind.plural, partial(check_jobs, kind), _MEND.format(kind), place=100)
        for kind in JobKind
        if kind is not JobKind.WEBHOOK
    ),
    Check("ledger", check_ledger, _SHOW_RUN, place=110),
)
