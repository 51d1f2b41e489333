"""`ollim-bot doses`: when each dose was due, and whether it was taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ollim_bot.features.runs.doses import Dose, counts, doses_between, month_of
from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, clock_time, describe
from ollim_bot.kernel.base.text import counted
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    argument,
    columns,
    command,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import open_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ollim_bot.kernel.store.transaction import Transaction

# A dose may have been put off from the month before.
_PUT_OFF = timedelta(days=31)
_MONTHS_OFFERED = 12


def _months(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    month = caller.now().date().replace(day=1)
    for _month in range(_MONTHS_OFFERED):
        yield Completion(f"{month:%Y-%m}")
        month = (month - timedelta(days=1)).replace(day=1)


@command(
    "doses",
    "when each dose of a month was due, and whether you took it",
    "--month 2026-11",
    argument(
        "--month",
        metavar="YYYY-MM",
        help="such as 2026-11; this month if not given",
        completions=_months,
    ),
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    begin, end = month_of(given.get("month"), data.now)

    def question(tx: Transaction) -> list[Dose]:
        return doses_between(tx.due_items.due_since(begin - _PUT_OFF), begin, end)

    found = data.ask_if_used(question) or []
    if "json" in given:
        rows = [_object(dose, caller, data.now) for dose in found]
        print_json({"month": f"{begin:%Y-%m}", "doses": rows, **counts(found)})
    elif found:
        table = [
            (_day(dose.due, data.now), _words(dose, data.now), title(_title(dose, caller)))
            for dose in found
        ]
        parts = ", ".join(f"{number} {state}" for state, number in counts(found).items())
        total = plain(f"{counted(len(found), 'dose')}: {parts}.")
        show(f"{columns(table)}\n\n{total}")
    else:
        show(f"No doses in {MONTHS[begin.month - 1]} {begin.year}.")


def _day(moment: datetime, now: datetime) -> str:
    local = moment.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    day = f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]}"
    return f"{day} {clock_time(local).zfill(5)}"


def _words(dose: Dose, now: datetime) -> str:
    if dose.until is not None and dose.until > now:
        return f"unanswered, again {describe(dose.until, now)}"
    if dose.answered_at is None:
        return dose.state.value
    at, due = (each.astimezone(now.tzinfo) for each in (dose.answered_at, dose.due))
    minute = at.replace(second=0, microsecond=0)
    return f"{dose.state} {clock_time(minute) if at.date() == due.date() else _day(at, now)}"


def _title(dose: Dose, caller: Caller) -> str:
    return dose.item.title if caller.agent else dose.item.owner_title


def _object(dose: Dose, caller: Caller, now: datetime) -> dict[str, object]:
    kind, job_id = dose.job
    return {
        "due": dose.due.astimezone(now.tzinfo),
        "kind": kind.value,
        "job_id": job_id,
        "title": _title(dose, caller),
        "state": dose.state.value,
        "answered_at": _local(dose.answered_at, now),
        "until": _local(dose.until, now),
    }


def _local(moment: datetime | None, now: datetime) -> datetime | None:
    return None if moment is None else moment.astimezone(now.tzinfo)
