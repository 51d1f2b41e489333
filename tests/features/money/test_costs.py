"""The rows of what sessions used, and their sums against a count of the test's own."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.values.costs import Amount, cost_report, month_start
from ollim_bot.kernel.values.usage import (
    ModelCost,
    Price,
    Usage,
    UsageKind,
    UsageRow,
    micros,
    usage_after,
    usage_rows,
)

BERLIN = ZoneInfo("Europe/Berlin")

NOW = datetime(2026, 11, 16, 0, 30, tzinfo=BERLIN)

RUN = "routine:morning:2026-11-15T07:30:00Z"


def row(micros: int, price: Price = Price.LISTED, **more: object) -> UsageRow:
    fields = {"at": NOW, "kind": UsageKind.TURN, "model": "m"} | more
    return UsageRow(price=price, micros=micros, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "words", "usd"),
    [
        ([], "$0.00", 0.0),
        ([row(420_000)], "$0.42", 0.42),
        ([row(0, Price.FREE)], "free", None),
        ([row(0, Price.UNKNOWN)], "your own server", None),
        ([row(420_000, Price.INCLUDED)], "included ($0.42 at list price)", 0.42),
        ([row(10_000), row(0, Price.UNKNOWN)], "$0.01 and your own server", 0.01),
        ([row(10_000), row(0, Price.FREE)], "$0.01", 0.01),
    ],
)
def test_a_price_that_is_not_known_is_never_called_0(
    rows: list[UsageRow], words: str, usd: float | None
) -> None:
    amount = Amount.of(rows)
    assert (amount.in_words(), amount.usd) == (words, usd)


def test_days_and_months_begin_at_the_owners_midnight() -> None:
    before = datetime(2026, 11, 15, 22, 59, tzinfo=UTC)
    rows = [row(5, at=before), row(7, at=before + timedelta(minutes=2))]
    report = cost_report(rows, month_start(NOW), NOW, None)
    assert (report.today.micros, report.month.micros) == (7, 12)
    assert [(line.name, line.amount.micros) for line in report.by_day] == [
        ("2026-11-15", 5),
        ("2026-11-16", 7),
    ]


def test_a_month_at_this_pace_goes_on_as_it_began() -> None:
    rows = [row(1_000_000, at=month_start(NOW))]
    assert cost_report(rows, month_start(NOW), NOW, 5).month_at_pace == 1_997_226
    first = month_start(NOW) + timedelta(minutes=5)
    assert cost_report(rows, month_start(NOW), first, 5).month_at_pace == 30_000_000
    assert cost_report([], month_start(NOW), NOW, 5).month_at_pace is None


moments = st.datetimes(datetime(2026, 10, 20), datetime(2026, 11, 15), timezones=st.just(UTC))

rows = st.builds(
    UsageRow,
    moments,
    st.sampled_from(UsageKind),
    st.sampled_from(["opus", "haiku", ""]),
    st.just(Price.LISTED),
    st.integers(1, 10**8),
    occurrence=st.sampled_from(["", RUN, "reminder:tea:2026-11-15T07:30:00Z"]),
)


@given(st.lists(rows, max_size=30))
def test_every_way_to_add_up_has_the_same_sum(known: list[UsageRow]) -> None:
    since = NOW - timedelta(days=60)
    report = cost_report(known, since, NOW, None)
    whole = sum(each.micros for each in known)
    for lines in (report.by_day, report.by_job, report.by_model):
        assert sum(line.amount.micros for line in lines) == whole
    assert report.conversation.micros + report.jobs.micros == whole
    by_model = Counter[str]()
    for each in known:
        by_model[each.model] += each.micros
    assert {line.name: line.amount.micros for line in report.by_model} == by_model


AT = datetime(2026, 11, 17, 12, tzinfo=UTC)

UNUSED = Usage()

MODELS = ("opus", "haiku", "")


def engine_rows(used: Usage, before: Usage = UNUSED) -> list[UsageRow]:
    return usage_rows(used, before, AT, UsageKind.TURN, turn="t1")


def test_the_model_of_a_subagent_has_a_row_of_its_own() -> None:
    parts = (ModelCost("opus", 0.3), ModelCost("haiku", 0.1))
    used = Usage(900, 10, cost_usd=0.4, model="opus", by_model=parts)
    found = {row.model: (row.micros, row.tokens) for row in engine_rows(used)}
    assert found == {"opus": (300_000, 910), "haiku": (100_000, 0)}


@pytest.mark.parametrize(
    ("used", "found"),
    [
        (Usage(), []),
        (Usage(5, model="m"), []),
        (Usage(5, cost_usd=0.25, model="m"), [("m", 250_000, Price.LISTED)]),
        (Usage(5, cost_usd=0.25, model="m", price=Price.INCLUDED), [("m", 250_000, "included")]),
        (Usage(5, cost_usd=9, model="m", price=Price.UNKNOWN), [("m", 0, Price.UNKNOWN)]),
        (Usage(5, model="m", price=Price.FREE), [("m", 0, Price.FREE)]),
    ],
)
def test_what_has_a_price_or_none_is_told_apart(used: Usage, found: list[object]) -> None:
    assert [(row.model, row.micros, row.price) for row in engine_rows(used)] == found


def test_a_turn_that_asked_nothing_lets_the_next_one_count_from_the_same_place() -> None:
    first = Usage(900, 10, cost_usd=0.4, model="m")
    stopped = usage_after(first, Usage())
    assert engine_rows(Usage(), first) == []
    assert [
        row.micros for row in engine_rows(Usage(950, 10, cost_usd=0.5, model="m"), stopped)
    ] == [100_000]


costs = st.floats(0, 1000)


@given(st.lists(st.tuples(costs, st.lists(costs, max_size=3), st.sampled_from(MODELS))))
def test_the_rows_of_any_turns_add_up_to_the_cost_of_the_session(
    turns: list[tuple[float, list[float], str]],
) -> None:
    before, total, written = Usage(), 0.0, 0
    for number, (cost, parts, model) in enumerate(turns):
        total += cost
        by_model = tuple(map(ModelCost, MODELS, parts))
        used = Usage(number + 1, 0, cost_usd=total, model=model, by_model=by_model)
        found = engine_rows(used, before)
        assert len({row.model for row in found}) == len(found)
        written += sum(row.micros for row in found)
        before = usage_after(before, used)
    assert written == micros(total)
