"""What a wrong cron line is told."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ollim_bot.domain.cron import Cron
from ollim_bot.errors import BadCron

FIELDS = "a cron line needs 5 fields (minute hour day month weekday)"
FOR_EXAMPLE = "for example `30 8 * * 1-5`"
NEW_YEAR = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("61 * * * *", "minute", "`61` is not 0 to 59"),
        ("0 8-24 * * *", "hour", "`24` is not 0 to 23"),
        ("0 8 0 * *", "day of month", "`0` is not 1 to 31"),
        ("0 8 * 13 *", "month", "`13` is not 1 to 12 or jan to dec"),
        ("0 8 * * 1,8", "weekday", "`8` is not 0 to 7 or sun to sat"),
        ("0 8 * * Monday", "weekday", "`Monday` is not 0 to 7 or sun to sat"),
        ("0 8 * * jul", "weekday", "`jul` is not 0 to 7 or sun to sat"),
        ("9" * 400 + " 8 * * *", "minute", f"`{'9' * 39}…` is not 0 to 59"),
        ("mon 8 * * *", "minute", "`mon` is not 0 to 59"),
        ("*/0 * * * *", "minute", "the step in `*/0` is not 1 to 60"),
        ("*/90 * * * *", "minute", "the step in `*/90` is not 1 to 60"),
        ("0 0-12/x * * *", "hour", "the step in `0-12/x` is not 1 to 24"),
        ("0 22-6 * * *", "hour", "`22-6` runs backwards; write `22-23,0-6`"),
        ("0 8 * nov-jan *", "month", "`nov-jan` runs backwards; write `11-12,1`"),
        ("0 8 * * sat-mon", "weekday", "`sat-mon` runs backwards; write `6,0-1`"),
        ("0 8 * * 7-2", "weekday", "`7-2` runs backwards; write `7,0-2`"),
        ("0 8 * * 1#6", "weekday", "`1#6` is not `1#1` to `1#5`"),
        ("0 8 * * 9#1", "weekday", "`9` is not 0 to 7 or sun to sat"),
        (
            "0 8 1,,2 * *",
            "day of month",
            "a list has a value on both sides of each comma, for example `1,3,5`",
        ),
        (
            "0 8 ? * *",
            "day of month",
            "`?` is not `*`, a value, a range like `1-5` or a step like `*/5`",
        ),
        (
            "*-5 8 * * *",
            "minute",
            "`*-5` is not `*`, a value, a range like `1-5` or a step like `*/5`",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_field_and_what_is_right(
    text: str, field: str, reason: str
) -> None:
    with pytest.raises(BadCron) as caught:
        Cron.parse(text)
    assert (caught.value.text, caught.value.field, caught.value.reason) == (text, field, reason)
    assert str(caught.value) == f"{field}: {reason}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", f"{FIELDS}, this one is empty, {FOR_EXAMPLE}", id="empty"),
        pytest.param("30 8 * *", f"{FIELDS}, has 4: `30 8 * *`, {FOR_EXAMPLE}", id="four"),
        pytest.param(
            "0 30 8 * * 1",
            f"{FIELDS}, has 6 (seconds cannot be set): `0 30 8 * * 1`, {FOR_EXAMPLE}",
            id="seconds",
        ),
        pytest.param(
            "@daily 8", f"{FIELDS}, has 2: `@daily 8`, {FOR_EXAMPLE}", id="alias-and-more"
        ),
        pytest.param(
            "@reboot", f"`@reboot` is not a time; say when it is to run, {FOR_EXAMPLE}", id="reboot"
        ),
        pytest.param(
            "@noon",
            "`@noon` is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, "
            "@annually",
            id="alias",
        ),
        pytest.param(
            "30 8 * *\n*",
            f"'\\n' cannot stand in a cron line; write {FOR_EXAMPLE}",
            id="line-break",
        ),
        pytest.param(
            "30 8 * * \x00",
            f"'\\x00' cannot stand in a cron line; write {FOR_EXAMPLE}",
            id="control",
        ),
        pytest.param(
            "٣ 8 * * *", f"'٣' cannot stand in a cron line; write {FOR_EXAMPLE}", id="arabic-digit"
        ),
        pytest.param(
            "0 8 * * ſun", f"'ſ' cannot stand in a cron line; write {FOR_EXAMPLE}", id="long-s"
        ),
        pytest.param(
            "* " * 5000, "a cron line has at most 500 characters, not 10000", id="too-long"
        ),
        pytest.param(
            "0 0 30 2 *", "`0 0 30 2 *` would never run: no year has such a day", id="30-february"
        ),
        pytest.param(
            "0 0 31 4,jun *",
            "`0 0 31 4,jun *` would never run: no year has such a day",
            id="31-april",
        ),
        pytest.param(
            "0 0 */31 * mon#5",
            "`0 0 */31 * mon#5` would never run: no year has such a day",
            id="fifth-monday-on-the-first",
        ),
        pytest.param(
            "0 0 LW * */6",
            "`0 0 LW * */6` would never run: no year has such a day",
            id="last-weekday-on-a-weekend",
        ),
    ],
)
def test_a_line_that_is_wrong_as_a_whole_says_so_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadCron) as caught:
        Cron.parse(text)
    assert caught.value.field is None
    assert str(caught.value) == sentence


@given(st.sets(st.sampled_from([2, 4, 6, 9, 11]), min_size=1), st.sampled_from(["*", "*/2"]))
def test_a_line_without_a_day_is_refused(short_months: set[int], weekday: str) -> None:
    with pytest.raises(BadCron, match="would never run"):
        Cron.parse(f"0 0 31 {','.join(map(str, short_months))} {weekday}")


@settings(deadline=None, max_examples=examples(5))
@given(
    st.text()
    | st.text("0123456789*,-/#@LW monsuja\t\n", max_size=30)
    | st.lists(st.text("0123459*,-/#LlwSunmoja", max_size=6), min_size=5, max_size=5).map(" ".join)
)
@example("9" * 499)
@example("9" * 5000 + " * * * *")
@example("1" + ",1" * 245 + " * * * *")
@example("* * * * 1L/2")
@example("* * * * 1#2/2")
@example("* * L/2 * *")
@example("\ud800 * * * *")
def test_any_text_is_refused_or_has_moments_and_words(text: str) -> None:
    with suppress(BadCron):
        cron = Cron.parse(text)
        assert cron.previous(NEW_YEAR, UTC) < NEW_YEAR < cron.next(NEW_YEAR, UTC)
        assert cron.explain()
