"""`ollim-bot today`: what waits for an answer, what comes today, and what is done."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ollim_bot.features.tasks.tasks_command import as_seen, marked, task_list
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.store.calendar_files import readable_copies
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.calendar import event_row, without_text
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import Reminder
from ollim_bot.kernel.values.overviews import (
    UpcomingToday,
    coming_today,
    in_overdue_order,
    still_today,
    today_overview,
)
from ollim_bot.kernel.values.schedule import Skips
from ollim_bot.kernel.values.tasks import Task, in_order, is_due, task_row
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import JSON, Given, command, plain, print_json, zone_of
from ollim_bot.surfaces.terminal.printing import show, width_of, wrapped
from ollim_bot.surfaces.terminal.terminal_data import (
    ONLY_THERE,
    Data,
    is_page_only,
    note,
    open_data,
)

_INDENT = "  "


class _Day(NamedTuple):
    """What the database knows of a day."""

    waiting: Sequence[DueItem] = ()
    answered: Sequence[DueItem] = ()
    skips: Skips = Skips()


@command("today", "what waits for you, what comes today, and what is done", "", JSON)
def run(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    now = data.now
    jobs = sorted(data.scheduled_jobs()[0], key=lambda job: job.rank)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)

    def question(tx: Transaction) -> _Day:
        items = tx.due_items
        return _Day(items.open(), items.answered_since(midnight), tx.skips.get())

    day = data.read(question) or _Day()
    calendars, is_owner = readable_copies(data.paths), caller.agent is None
    tasks = _due_tasks(data, caller)
    if given.get("json"):
        copies = {copy.name: copy for copy in calendars}
        coming = still_today(calendars, now)
        events = [event_row(event, copies[event.calendar], zone_of(now)) for event in coming]
        # What others wrote in them is for the owner only.
        events = events if is_owner else [without_text(row) for row in events]
        rows = {"calendar": events, "tasks": [task_row(task) for task in tasks]}
        print_json(_as_object(day, coming_today(jobs, day.skips, now), now) | rows)
    else:
        shown = today_overview(
            day.waiting, day.answered, jobs, day.skips, now, calendars, tasks, has_titles=is_owner
        )
        parts = [shown.card.title, *([shown.card.description] if shown.card.description else [])]
        for line in shown.card.lines:
            parts += ["", line.heading] if line.heading else []
            parts.append(wrapped(f"{_INDENT}{line.text}", width_of(sys.stdout), _INDENT * 2))
        show(plain("\n".join(parts)))
        if is_page_only(data, caller):
            note(ONLY_THERE)


def _due_tasks(data: Data, caller: Caller) -> list[Task]:
    """The tasks that are due today or overdue; a list that cannot be read is a note."""
    try:
        tasks = task_list(data, caller).tasks()
    except OllimError as refused:
        note(f"the tasks are missing here. {refused}")
        return []
    due = in_order([task for task in tasks if is_due(task, data.now.date())])
    return [as_seen(task, caller) for task in marked(due, data)]


def _as_object(day: _Day, coming: Sequence[UpcomingToday], now: datetime) -> dict[str, object]:
    return {
        "date": now.date(),
        "overdue": [
            {
                **_item_object(item),
                "again_at": _local(item.again_at, now),
                "earlier": [_local(each, now) for each in item.earlier],
                "earlier_count": item.earlier_count,
            }
            for item in in_overdue_order(day.waiting)
        ],
        "next": [
            {
                "kind": each.job.kind,
                "id": each.job.spec.id,
                "title": each.job.spec.title,
                "at": _local(each.moment, now),
                "set_at": _local(each.job.set_at if isinstance(each.job, Reminder) else None, now),
                "skipped": each.is_skipped,
                "more_today": each.more or 0,
            }
            for each in coming
        ],
        "put_off": [
            _answered_object(item, now) for item in day.answered if item.is_still_put_off(now)
        ],
        "done": [_answered_object(item, now) for item in day.answered if not item.is_put_off],
    }


def _item_object(item: DueItem) -> dict[str, object]:
    return {"occurrence": item.occurrence, "title": item.title, "due": item.due}


def _answered_object(item: DueItem, now: datetime) -> dict[str, object]:
    return {
        **_item_object(item),
        "answer": item.answer,
        "answered_at": _local(item.answered_at, now),
        "until": _local(item.until, now),
    }


def _local(moment: datetime | None, now: datetime) -> datetime | None:
    return None if moment is None else moment.astimezone(now.tzinfo)
