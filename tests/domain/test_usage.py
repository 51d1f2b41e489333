"""The rows of what a session used: they add up to its cost, whatever the engine says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.usage import (
    ModelCost,
    Price,
    Usage,
    UsageKind,
    UsageRow,
    micros,
    usage_after,
    usage_rows,
)

AT = datetime(2026, 11, 17, 12, tzinfo=UTC)
UNUSED = Usage()
MODELS = ("opus", "haiku", "")


def rows(used: Usage, before: Usage = UNUSED) -> list[UsageRow]:
    return usage_rows(used, before, AT, UsageKind.TURN, turn="t1")


def test_the_model_of_a_subagent_has_a_row_of_its_own() -> None:
    parts = (ModelCost("opus", 0.3), ModelCost("haiku", 0.1))
    used = Usage(900, 10, cost_usd=0.4, model="opus", by_model=parts)
    found = {row.model: (row.micros, row.tokens) for row in rows(used)}
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
    assert [(row.model, row.micros, row.price) for row in rows(used)] == found


def test_a_turn_that_asked_nothing_lets_the_next_one_count_from_the_same_place() -> None:
    first = Usage(900, 10, cost_usd=0.4, model="m")
    stopped = usage_after(first, Usage())
    assert rows(Usage(), first) == []
    assert [row.micros for row in rows(Usage(950, 10, cost_usd=0.5, model="m"), stopped)] == [
        100_000
    ]


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
        found = rows(used, before)
        assert len({row.model for row in found}) == len(found)
        written += sum(row.micros for row in found)
        before = usage_after(before, used)
    assert written == micros(total)
