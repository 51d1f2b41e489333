"""`ollim-bot doses`: when each dose was due, and whether it was taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind, OccurrenceKind
from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, clock_time, describe, instant
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.due_items import DueItem, root_in
from ollim_bot.kernel.values.occurrences import Answer, Occurrence
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
    from ollim_bot.kernel.store.transaction import Transaction


class DoseState(StrEnum):
    TAKEN = "taken"
    SKIPPED = "skipped"
    UNANSWERED = "unanswered"


_STATES = {
    Answer.TAKEN: DoseState.TAKEN,
    Answer.DONE: DoseState.TAKEN,
    Answer.NOT_TAKEN: DoseState.SKIPPED,
    Answer.LET_GO: DoseState.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class Dose:
    """One dose. `due` is its own moment, also if it was put off; `until` is when it comes again.

    `item` is its first card.
    """

    due: datetime
    state: DoseState
    item: DueItem
    answered_at: datetime | None = None
    until: datetime | None = None

    @property
    def job(self) -> tuple[OccurrenceKind, str]:
        one = Occurrence.parse(self.item.occurrence)
        return one.kind, one.job_id


def month_of(text: str | None, now: datetime) -> tuple[datetime, datetime]:
    """The beginning and the end of a month such as `2026-11`; that of `now` if none is given.

    Raises `WrongInput`.
    """
    try:
        first = now.date().replace(day=1) if text is None else date.fromisoformat(f"{text}-01")
        following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    except ValueError:
        raise WrongInput(f"{text!r:.40} is not a month. Example: 2026-11") from None
    zone = now.tzinfo or UTC
    begin, end = (instant(datetime(each.year, each.month, 1), zone) for each in (first, following))
    return begin, end


def doses_between(items: Iterable[DueItem], begin: datetime, end: datetime) -> list[Dose]:
    """The doses that were due then, the earliest first.

    A dose that was put off is one dose with several cards; so is one whose reminder
    was followed up.
    """
    shown = [each for each in items if each.is_dose and not each.same_as]
    cards = sorted(shown, key=lambda each: each.due.timestamp())
    later = {each.copy: each for each in cards if each.copy}
    first: dict[str, DueItem] = {}
    newest: dict[str, DueItem] = {}
    for card in cards:
        name = _name(card, later)
        first.setdefault(name, card)
        if name not in newest or newest[name].answer not in _STATES:
            newest[name] = card
    doses = []
    for name, card in first.items():
        last = newest[name]
        state = DoseState.UNANSWERED if last.answer is None else _STATES.get(last.answer)
        if state is None:
            doses.append(Dose(card.due, DoseState.UNANSWERED, card, until=last.until))
        else:
            doses.append(Dose(card.due, state, card, last.answered_at))
    return [dose for dose in doses if begin <= dose.due.astimezone(UTC) < end]


def _name(card: DueItem, put_off: dict[str, DueItem]) -> str:
    """What all cards of one dose share."""
    one, seen = card, set[str]()
    while (job := Occurrence.parse(one.occurrence)).kind is JobKind.REMINDER:
        root = root_in(one.note)
        before = put_off.get(job.job_id) or put_off.get(root)
        if before is None or before.key in seen:
            return f"{job.kind}:{root}"
        seen.add(before.key)
        one = before
    return one.occurrence


def counts(doses: Sequence[Dose]) -> dict[str, int]:
    """How many doses there are of each state."""
    return {state.value: sum(dose.state is state for dose in doses) for state in DoseState}


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
