"""A row passes within its limits, and is listed under its bar of the contract."""

from __future__ import annotations

import pytest
from bench.measure import Bar, Result, Unit, shown
from bench.report import UsualRatio, table


def row(
    amount: float,
    most: float | None = None,
    most_times: float | None = None,
    most_more: float | None = None,
) -> Result:
    return Result("start", amount, "bare", 2.0, None, most, most_times, most_more)


@pytest.mark.parametrize(
    ("limits", "most"),
    [({"most": 5.0}, 5.0), ({"most_times": 3.0}, 6.0), ({"most_more": 1.5}, 3.5)],
)
def test_a_row_passes_up_to_its_limit(limits: dict[str, float], most: float) -> None:
    assert row(most, **limits).passes
    assert not row(most + 0.01, **limits).passes


def test_a_row_with_several_limits_keeps_all_of_them() -> None:
    assert not row(5.0, most=10.0, most_more=1.0).passes
    assert row(5.0, most=10.0, most_more=1.0).limits == "≤ 10 s, ≤ +1 s"


def test_a_row_without_a_limit_passes_and_says_nothing() -> None:
    assert row(1000.0).passes
    assert table([row(1000.0)], {}, is_whole=False).splitlines()[-1].endswith("500.00")


def test_rows_stand_in_the_order_of_the_bars_and_the_rest_comes_last() -> None:
    rows = [
        Result("other", 1.0, "bare", 1.0),
        Result("idle", 1.0, "bare", 1.0, Bar.MEMORY),
        Result("sign", 1.0, "bare", 1.0, Bar.FIRST_SIGN),
    ]
    printed = table(rows, {}, is_whole=False)
    places = [printed.index(word) for word in ("The bars", "sign", "idle", "The rest", "other")]
    assert places == sorted(places)


def test_a_whole_run_leaves_no_bar_out() -> None:
    rows = [Result(bar.name, 1.0, "bare", 1.0, bar) for bar in Bar if bar is not Bar.GIT]
    lines = table(rows, {}, is_whole=True).splitlines()
    for number, bar in enumerate(Bar, 1):
        assert f"{number}. {bar.value}" in lines
    assert lines[lines.index(f"10. {Bar.GIT.value}") + 1].strip() == "NOT MEASURED"


def test_what_has_become_slower_is_marked_beside_what_it_was() -> None:
    past = {"start": UsualRatio(1.0, 5)}
    last = table([row(2.6)], past, is_whole=False).splitlines()[-1]
    assert last.split()[-3:] == ["1.30", "1.00", "SLOWER"]
    assert "SLOWER" not in table([row(2.4)], past, is_whole=False)


@pytest.mark.parametrize(
    ("amount", "unit", "words"),
    [
        (1.5, Unit.SECONDS, "1.5 s"),
        (0.0123, Unit.SECONDS, "12.3 ms"),
        (2e-5, Unit.SECONDS, "20 µs"),
        (120e6, Unit.BYTES, "120 MB"),
        (0.005, Unit.SHARE, "0.5 %"),
        (0, Unit.COUNT, "0"),
    ],
)
def test_an_amount_is_shown_in_its_unit(amount: float, unit: Unit, words: str) -> None:
    assert shown(amount, unit) == words
