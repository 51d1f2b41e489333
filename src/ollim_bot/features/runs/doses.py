"""The doses of a time: when each was due, and whether it was taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind, OccurrenceKind
from ollim_bot.kernel.base.moments import instant
from ollim_bot.kernel.values.due_items import DueItem, root_in
from ollim_bot.kernel.values.occurrences import Answer, Occurrence


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
