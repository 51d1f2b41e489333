"""How full the context window is, and at which level the owner is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.session_use import context_warning, percent_used, thousands
from ollim_bot.domain.usage import Usage

tokens = st.integers(0, 3_000_000)
windows = st.sampled_from([8_192, 200_000, 1_000_000]) | st.integers(1, 2_000_000)


@given(tokens, windows)
def test_the_percentage_is_rounded_down(context: int, window: int) -> None:
    percent = percent_used(context, window)
    assert percent is not None
    assert percent * window <= context * 100 < (percent + 1) * window


@pytest.mark.parametrize("window", [None, 0])
def test_without_a_window_there_is_no_percentage_and_no_warning(window: int | None) -> None:
    assert percent_used(100_000, window) is None
    assert context_warning(Usage(100_000, window=window)) == ""


@given(tokens, windows)
def test_the_warning_follows_from_the_percentage(context: int, window: int) -> None:
    percent = percent_used(context, window)
    assert percent is not None
    warning = context_warning(Usage(context, window=window))
    assert bool(warning) == (percent >= 60)
    if warning:
        advice = "consider /compact" if percent < 80 else "compaction soon, /compact recommended"
        assert warning == f"context: {percent}% ({thousands(context)}) — {advice}"


@pytest.mark.parametrize("window", [200_000, 1_000_000])
@pytest.mark.parametrize(
    ("percent", "advice"),
    [
        (59, None),
        (60, "consider /compact"),
        (79, "consider /compact"),
        (80, "compaction soon, /compact recommended"),
    ],
)
def test_the_borders_are_at_60_and_80_percent(
    window: int, percent: int, advice: str | None
) -> None:
    first, last = window * percent // 100, window * (percent + 1) // 100 - 1
    for context in (first, last):
        warning = context_warning(Usage(context, window=window))
        assert warning.partition(" — ")[2] == (advice or "")
        assert warning.startswith(f"context: {percent}% (") == bool(advice)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (44_500, "44k"),
        (45_200, "45k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_234_567, "1.2M"),
    ],
)
def test_tokens_are_said_in_thousands(number: int, text: str) -> None:
    assert thousands(number) == text


@given(tokens)
def test_what_is_said_is_near_the_number(number: int) -> None:
    text = thousands(number)
    factor = {"k": 1000, "M": 1_000_000}.get(text[-1], 1)
    said = float(text.rstrip("kM")) * factor
    assert abs(said - number) <= (0 if factor == 1 else 500 if factor == 1000 else 50_000)
    assert len(text) <= 4


@given(tokens, tokens)
def test_more_tokens_are_never_said_to_be_fewer(one: int, other: int) -> None:
    def said(number: int) -> float:
        text = thousands(number)
        return float(text.rstrip("kM")) * {"k": 1000, "M": 1_000_000}.get(text[-1], 1)

    low, high = sorted((one, other))
    assert said(low) <= said(high)
