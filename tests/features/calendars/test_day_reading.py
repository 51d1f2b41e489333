"""The receipt of a day is read on from the ledger, and is always that of the whole ledger."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.ledger_scene import BERLIN, Scene, scenes

from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.receipts import DayReading, Fate, Receipt, receipt_of
from ollim_bot.kernel.values.run_history import History

NO_TRACE = ": was due, and nothing is known of it."


def fates(receipt: Receipt) -> dict[str, tuple[Fate, bool]]:
    return {each.occurrence.id: (each.fate, each.is_late) for each in receipt.things}


def untraced(rows: list[LedgerRow], day: date, horizon: datetime) -> set[str]:
    """What the check of the ledger, which reckons everything anew, misses of the day."""
    said = {each.removesuffix(NO_TRACE) for each in check(rows, horizon, horizon)}
    return {
        each
        for each in said
        if each.endswith("Z")
        and datetime.fromisoformat(each[-20:]).astimezone(BERLIN).date() == day
    }


@given(scenes(), st.data())
def test_however_often_it_is_asked_it_is_that_of_the_whole_ledger(
    scene: Scene, data: st.DataObject
) -> None:
    gaps = data.draw(st.sets(st.integers(0, len(scene.rows) - 1), max_size=12))
    kept = [
        row for number, row in enumerate(scene.rows) if row.occurrence is None or number not in gaps
    ]
    days = sorted({row.ts.astimezone(BERLIN).date() for row in kept})
    day = data.draw(st.sampled_from(days))
    looks = sorted(data.draw(st.sets(st.integers(1, len(kept)), max_size=6)) | {len(kept)})
    reading, read = DayReading(day, BERLIN), 0
    for place in looks:
        rows, new = kept[:place], kept[read:place]
        touched = {row.occurrence for row in new if row.occurrence is not None}
        stories = History.of(row for row in rows if row.occurrence in touched).stories
        reading.note(new, stories.values())
        read = place
        horizon = new[-1].ts + timedelta(microseconds=data.draw(st.integers(-7, 10**10)))
        now = horizon.astimezone(BERLIN)
        found = reading.receipt(now, horizon)
        assert fates(found) == fates(receipt_of(rows, day, now, horizon))
        lost = {each.occurrence.id for each in found.things if each.story is None}
        assert lost == untraced(rows, day, horizon)
