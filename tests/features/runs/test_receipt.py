"""`ollim-bot receipt`: everything that was due on a day has exactly one fate."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.values.definitions import Definition
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.receipts import Fate, counted_since, receipt_of
from ollim_bot.kernel.values.run_history import ROSTER

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)
MORNING = SUNDAY.astimezone(BERLIN).replace(hour=8, minute=0, second=0, microsecond=0)
HELD: dict[str, Any] = {
    "message": "7",
    "text": "x",
    "until": (SUNDAY + 9 * 60 * MINUTE).isoformat(),
}


def rows(name: str, *states: str, late: int = 0, **facts: object) -> list[LedgerRow]:
    one = Occurrence.scheduled(JobKind.ROUTINE, name, MORNING)
    at = MORNING + late * MINUTE
    begun = LedgerRow(at, "due", one, {"job": name.title()})
    return [begun, *(LedgerRow(at, state, one, facts) for state in states)]


DAY = [
    *rows("bins", "running", "done", pings=["1"]),
    *rows("tea", "running", "held", "done", **HELD),
    *rows("news", "running", "done", late=5, answered=True),
    *rows("mail", "skipped", reason="cost cap", reached_at="2026-11-15T06:10:00+00:00"),
    *rows("walk", "missed", reason="it was away"),
    *rows("post", "running", "failed", error="Claude is overloaded."),
    *rows("pill", "running", "failed", "delivered", error="Claude is overloaded."),
    LedgerRow(MORNING, "done", Occurrence.by_hand(JobKind.ROUTINE, "bins", MORNING)),
    LedgerRow(MORNING, "done", Occurrence.scheduled(JobKind.ROUTINE, "bins", MORNING).again(2)),
    LedgerRow(
        MORNING - timedelta(days=1),
        "done",
        Occurrence.scheduled(JobKind.ROUTINE, "bins", MORNING - timedelta(days=1)),
    ),
]


@pytest.fixture
def bot(terminal: Terminal) -> Terminal:
    prepare_data_directory(terminal.paths)
    terminal.keep(lambda tx: tx.ledger.append(*DAY))
    return terminal


def test_the_receipt_counts_what_was_due_and_names_what_did_not_simply_come(bot: Terminal) -> None:
    assert bot.done("receipt") == (
        "Today: due 7, came 3, held 1, skipped 1, missed 1, failed 1, late 1, lost 0.\n"
        "  today 8:00  held     Tea  (waits for the end of the quiet, today 23:30)\n"
        "  today 8:00  late     News  (spoke in the conversation)\n"
        "  today 8:00  skipped  Mail  (the daily cost cap was reached at 7:10)\n"
        "  today 8:00  missed   Walk  (it was away)\n"
        "  today 8:00  failed   Post  (Claude is overloaded)\n"
        "Checked: everything that was due has its end or is under way.\n"
    )


def test_another_day_can_be_asked_for(bot: Terminal) -> None:
    assert bot.done("receipt", "yesterday").startswith("Yesterday: due 1, came 1, held 0, late 0")
    assert bot.done("receipt", "2026-11-14").startswith("Yesterday: ")
    assert bot.done("receipt", "2026-11-01").startswith("Sun 1 Nov 2026: due 0, came 0")
    assert "`soon` is no day" in bot.refused("receipt", "soon")


def test_json_has_every_due_thing_with_its_reason(bot: Terminal) -> None:
    found = bot.json("receipt")
    counts = {name: found[name] for name in ("due", "came", "held", "late", "lost", "skipped")}
    assert counts == {"due": 7, "came": 3, "held": 1, "late": 1, "lost": 0, "skipped": 1}
    fates = {each["title"]: each["fate"] for each in found["things"]}
    assert fates["Pill"] == "came"
    assert fates["Walk"] == "missed"
    assert len(fates) == 7


def test_what_was_due_and_left_no_trace_is_lost() -> None:
    armed = {
        "since": (MORNING - 30 * MINUTE).isoformat(),
        "jobs": [
            Definition(
                JobKey(JobKind.ROUTINE, "bins"), "x", "0 8 * * *", "Europe/Berlin", enabled=True
            ).facts
        ],
    }
    roster = LedgerRow(MORNING - 30 * MINUTE, ROSTER, None, armed)
    receipt = receipt_of([roster], MORNING.date(), MORNING + 60 * MINUTE, MORNING + 50 * MINUTE)
    assert [(each.occurrence.job_id, each.fate) for each in receipt.things] == [("bins", Fate.LOST)]
    assert receipt.counts["lost"] == receipt.counts["due"] == 1


states = st.sampled_from(["running", "done", "failed", "skipped", "missed", "held", "delivered"])
moments = st.datetimes(datetime(2026, 11, 13), datetime(2026, 11, 16), timezones=st.just(UTC))


@given(st.dictionaries(moments, st.lists(states, max_size=4), max_size=8))
def test_whatever_happened_everything_due_has_one_fate(known: dict[datetime, list[str]]) -> None:
    ledger = [
        LedgerRow(at, state, Occurrence.scheduled(JobKind.ROUTINE, "a", at))
        for at, found in known.items()
        for state in ["due", *found]
    ]
    now = datetime(2026, 11, 16, 12, tzinfo=BERLIN)
    days = [date(2026, 11, 12) + timedelta(days=number) for number in range(6)]
    receipts = [receipt_of(ledger, day, now) for day in days]
    due = {at.replace(microsecond=0) for at in known}
    assert sum(len(each.things) for each in receipts) == len(due)
    for each in receipts:
        counts = dict(each.counts)
        assert counts.pop("late") <= counts["came"]
        assert counts.pop("due") == sum(counts.values())


def test_the_rows_that_are_read_for_a_day_tell_all_about_it(terminal: Terminal) -> None:
    """Of a ledger of many days, with a webhook whose message waited for days."""
    prepare_data_directory(terminal.paths)
    database = open_database(terminal.paths, lambda: SUNDAY, is_holder=True, report=print)
    begun = MORNING - timedelta(days=9)
    key = JobKey(JobKind.ROUTINE, "bins")
    job = Definition(key, "x", "0 8 * * *", "Europe/Berlin", enabled=True)
    ledger = [LedgerRow(begun, ROSTER, None, {"since": begun.isoformat(), "jobs": [job.facts]})]
    called = Occurrence.parse("webhook:door:0123456789abcdef")
    for number in range(9, 0, -1):
        at = MORNING - timedelta(days=number - 1)
        one = Occurrence.scheduled(JobKind.ROUTINE, "bins", at)
        ends = () if number % 3 == 0 else (LedgerRow(at, "due", one), LedgerRow(at, "done", one))
        ledger += ends
        if number in (5, 1):
            ledger.append(LedgerRow(at, "due" if number == 5 else "released", called))
    database.run(lambda tx: tx.ledger.append(*ledger))
    for number in range(9):
        day, now = (MORNING - timedelta(days=number)).date(), MORNING + 60 * MINUTE
        some = database.query(
            lambda tx, day=day: tx.ledger.rows_about(counted_since(day, SUNDAY))  # type: ignore[misc]
        )
        assert receipt_of(some, day, now, now) == receipt_of(ledger, day, now, now), day
        assert receipt_of(some, day, now, now).counts["due"] >= 1
    database.close()
