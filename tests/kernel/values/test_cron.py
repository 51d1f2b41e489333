"""When a cron line is due, also on the nights when the clocks change, and what is said of it."""

from __future__ import annotations

import pickle
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.values import cron_oracle
from tests.kernel.values.cron_lines import MONTHS, NIGHTS, Line, instants, lines, texts, zones

from ollim_bot.kernel.base.errors import BadCron
from ollim_bot.kernel.values.cron import Cron

NEW_YORK = ZoneInfo("America/New_York")

BERLIN = ZoneInfo("Europe/Berlin")

HOUR = timedelta(hours=1)


def in_utc(moments: Iterable[datetime]) -> list[datetime]:
    return [moment.astimezone(UTC) for moment in moments]


def shown(moments: Iterable[datetime]) -> str:
    return " ".join(moment.strftime("%H:%M%z") for moment in moments)


@settings(deadline=None, max_examples=examples(2))
@given(lines, st.sampled_from(NIGHTS), st.timedeltas(timedelta(0), 32 * HOUR))
def test_it_is_due_when_a_watched_clock_says_so(
    line: Line, night: tuple[str, datetime], elapsed: timedelta
) -> None:
    """Around every kind of clock change, and far from any."""
    zone, midnight = ZoneInfo(night[0]), night[1].replace(tzinfo=UTC)
    start, end = midnight - 20 * HOUR, midnight + 12 * HOUR
    due = cron_oracle.due(line.pattern, zone, start, end)
    cron, probe = Cron.parse(line.text), start + elapsed
    assert in_utc(cron.between(start, end, zone)) == due
    later, earlier = in_utc([cron.next(probe, zone), cron.previous(probe, zone)])
    assert [later][: later < end] == [moment for moment in due if moment > probe][:1]
    assert [earlier][: earlier >= start] == [moment for moment in due if moment < probe][-1:]


@pytest.mark.parametrize(("zone", "date"), NIGHTS)
@pytest.mark.parametrize("text", ["0 1-3 * * *", "30 2 * * *", "*/20 0,23 * * *", "45 * * * *"])
def test_the_whole_night_agrees(zone: str, date: datetime, text: str) -> None:
    """Checked every half hour, and right before, at and right after each moment."""
    cron, there, midnight = Cron.parse(text), ZoneInfo(zone), date.replace(tzinfo=UTC)
    end = midnight + 48 * HOUR
    due = in_utc(cron.between(midnight - 48 * HOUR, end, there))
    probes = {midnight + n * HOUR / 2 for n in range(-20 * 2, 12 * 2)}
    probes |= {moment + n * timedelta.resolution for moment in due[1:-1] for n in (-1, 0, 1)}
    for probe in probes:
        at = bisect_left(due, probe)
        assert in_utc([cron.previous(probe, there)]) == [due[at - 1]]
        assert in_utc([cron.next(probe, there)]) == [due[bisect_right(due, probe)]]
        assert in_utc(islice(cron.between(probe, end, there), 1)) == [due[at]]


@settings(deadline=None)
@given(texts, instants, zones)
@example("0 9 * * *", datetime(2026, 1, 1, 9, tzinfo=UTC), ZoneInfo("UTC"))
@example("* * * * *", datetime(2026, 1, 1, 9, 0, 0, 1, tzinfo=UTC), ZoneInfo("UTC"))
def test_next_previous_and_between_agree(text: str, moment: datetime, zone: ZoneInfo) -> None:
    cron = Cron.parse(text)
    before, after = in_utc([cron.previous(moment, zone), cron.next(moment, zone)])
    assert before < moment < after
    here = in_utc(cron.between(moment, moment + timedelta.resolution, zone))
    assert here in ([], [moment])
    assert in_utc(cron.between(before, after, zone)) == [before, *here]
    assert in_utc([cron.next(before, zone)]) == (here or [after])
    assert in_utc([cron.previous(after, zone)]) == (here or [before])


@pytest.mark.parametrize("text", ["0 9 * * *", "0 * * * *"])
def test_moments_are_in_the_zone_asked_for(text: str) -> None:
    cron, start = Cron.parse(text), datetime(2026, 1, 1, tzinfo=UTC)
    moments = [cron.next(start, BERLIN), cron.previous(start, BERLIN)]
    moments += cron.between(start, start + timedelta(days=1), BERLIN)
    assert {moment.tzinfo for moment in moments} == {BERLIN}


@pytest.mark.parametrize("text", ["0 9 * * *", "*/20 * * * *", "15 8,17 1 * 1"])
def test_two_who_walk_the_same_line_are_not_in_each_others_way(text: str) -> None:
    start, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
    alone = list(Cron.parse(text).between(start, end, UTC))
    one, other = (Cron.parse(text).between(start, end, UTC) for _ in range(2))
    assert [next(one) for _ in range(3)] == alone[:3]
    assert list(other) == alone
    assert list(one) == alone[3:]


@pytest.mark.parametrize(
    ("text", "zone", "day", "expected"),
    [
        ("*/15 2 * * *", NEW_YORK, (2025, 3, 9), "03:00-0400"),
        ("30 2,3 * * *", NEW_YORK, (2025, 3, 9), "03:00-0400 03:30-0400"),
        ("0 2,3 * * *", NEW_YORK, (2025, 3, 9), "03:00-0400"),
        ("*/30 1 * * *", NEW_YORK, (2025, 11, 2), "01:00-0400 01:30-0400"),
        ("0 */12 * * *", NEW_YORK, (2025, 11, 2), "00:00-0400 12:00-0500"),
        ("30 1-2 * * *", NEW_YORK, (2025, 11, 2), "01:30-0400 02:30-0500"),
    ],
)
def test_a_time_is_due_once_when_the_clocks_change(
    text: str, zone: ZoneInfo, day: tuple[int, int, int], expected: str
) -> None:
    start = datetime(*day, tzinfo=zone)
    moments = Cron.parse(text).between(start, start + timedelta(days=1), zone)
    assert shown(moments) == expected


@pytest.mark.parametrize(
    "text", ["30 * * * *", "30 0-23 * * *", "30 */1 * * *", "30 0-22,23 * * *"]
)
@pytest.mark.parametrize(
    ("day", "hours"), [(datetime(2025, 3, 9), 23), (datetime(2025, 11, 2), 25)]
)
def test_an_hourly_line_follows_real_time_however_it_is_spelt(
    text: str, day: datetime, hours: int
) -> None:
    start, end = day.replace(tzinfo=NEW_YORK), (day + timedelta(days=1)).replace(tzinfo=NEW_YORK)
    moments = in_utc(Cron.parse(text).between(start, end, NEW_YORK))
    first = start.astimezone(UTC) + HOUR / 2
    assert moments == [first + n * HOUR for n in range(hours)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 8 * * 1-5", "2 mar, 3 mar, 4 mar, 5 mar, 6 mar, 9 mar"),
        ("0 9 * * 0", "1 mar, 8 mar, 15 mar"),
        ("0 9 * * 7", "1 mar, 8 mar, 15 mar"),
        ("0 9 * JAN,Apr SUN", "5 apr, 12 apr, 19 apr"),
        ("0 9 * * fri-sun", "1 mar, 6 mar, 7 mar, 8 mar"),
        ("0 9 * * 6-0", "1 mar, 7 mar, 8 mar, 14 mar"),
        ("0 9 * * sun-sun", "1 mar, 8 mar, 15 mar"),
        ("0 9 * * sun-tue", "1 mar, 2 mar, 3 mar, 8 mar"),
        ("0 9 13 * 1", "2 mar, 9 mar, 13 mar, 16 mar"),
        ("0 9 */2 * 1", "9 mar, 23 mar, 13 apr, 27 apr"),
        ("0 9 1 * */2", "1 mar, 1 aug, 1 sep, 1 oct"),
        ("0 9 1-31 * 1", "1 mar, 2 mar, 3 mar"),
        ("0 9 30 2 1", "1 feb, 8 feb, 15 feb"),
        ("0 9 L * *", "31 mar, 30 apr, 31 may, 30 jun"),
        ("0 9 LW * *", "31 mar, 30 apr, 29 may, 30 jun"),
        ("0 9 * * 5L", "27 mar, 24 apr, 29 may, 26 jun"),
        ("0 9 * * friL", "27 mar, 24 apr, 29 may, 26 jun"),
        pytest.param("0 9 * * mon#2", "9 mar, 13 apr, 11 may, 8 jun", id="second-monday"),
        ("0 9 5-5/2 * *", "5 mar, 5 apr, 5 may"),
        ("0 9 25/3 * *", "25 mar, 28 mar, 31 mar, 25 apr"),
    ],
)
def test_the_days_of_a_line(text: str, expected: str) -> None:
    """From 1 March 2026, a Sunday, on."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    moments = Cron.parse(text).between(start, start + timedelta(days=400), UTC)
    days = [f"{moment.day} {MONTHS[moment.month - 1]}" for moment in moments]
    assert ", ".join(days[: expected.count(",") + 1]) == expected


@pytest.mark.parametrize(
    ("alias", "line"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
    ],
)
@given(moment=instants)
def test_an_alias_means_its_line(alias: str, line: str, moment: datetime) -> None:
    assert Cron.parse(alias).next(moment, BERLIN) == Cron.parse(line).next(moment, BERLIN)
    assert str(Cron.parse(alias)) == alias


@pytest.mark.parametrize(
    ("text", "zone", "probe", "earlier", "later"),
    [
        (
            "0 * 1 3,4 *",
            BERLIN,
            datetime(2025, 3, 20),
            "2025-03-01T23:00:00+01:00",
            "2025-04-01T00:00:00+02:00",
        ),
        (
            "30 * 6 4 *",
            ZoneInfo("America/Santiago"),
            datetime(2024, 4, 7, 2, 45),
            "2024-04-06T23:30:00-03:00",
            "2024-04-06T23:30:00-04:00",
        ),
        (
            "0 * 29 12 *",
            ZoneInfo("Pacific/Apia"),
            datetime(2011, 12, 30, 10, 10),
            "2011-12-29T23:00:00-10:00",
            "2012-12-29T00:00:00+14:00",
        ),
    ],
)
def test_rare_days_in_real_time(
    text: str, zone: ZoneInfo, probe: datetime, earlier: str, later: str
) -> None:
    cron, moment = Cron.parse(text), probe.replace(tzinfo=UTC)
    assert cron.previous(moment, zone).isoformat() == earlier
    assert cron.next(moment, zone).isoformat() == later


@pytest.mark.parametrize("text", ["0 0 29 2 *", "* * 29 2 *"])
def test_leap_days_are_found_both_ways_across_2100(text: str) -> None:
    cron, between = Cron.parse(text), datetime(2100, 3, 1, tzinfo=BERLIN)
    assert cron.next(between, BERLIN).date().isoformat() == "2104-02-29"
    assert cron.previous(between, BERLIN).date().isoformat() == "2096-02-29"


def test_the_rarest_day_is_found_both_ways() -> None:
    """Forty years lie between two leap days on a Sunday around 2100."""
    cron, between = Cron.parse("0 0 29 2 */7"), datetime(2100, 3, 1, tzinfo=UTC)
    later, earlier = cron.next(between, UTC), cron.previous(between, UTC)
    assert (earlier.weekday(), later.weekday()) == (6, 6)
    assert later.year - earlier.year == 40


def test_it_is_a_small_value_equal_by_its_text() -> None:
    cron = Cron.parse("  30   8\t* * 1-5 ")
    assert str(cron) == cron.text == "30 8 * * 1-5"
    assert cron == Cron.parse("30 8 * * 1-5")
    assert cron != Cron.parse("30 8 * * mon-fri")
    assert len({cron, Cron.parse("30 8 * * 1-5")}) == 1
    assert pickle.loads(pickle.dumps(cron)) == cron
    assert not hasattr(cron, "__dict__")
    with pytest.raises(FrozenInstanceError):
        cron.text = "0 9 * * *"  # type: ignore[misc]


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
        ("", f"{FIELDS}, this one is empty, {FOR_EXAMPLE}"),
        ("30 8 * *", f"{FIELDS}, has 4: `30 8 * *`, {FOR_EXAMPLE}"),
        ("0 30 8 * * 1", f"{FIELDS}, has 6 (seconds cannot be set): `0 30 8 * * 1`, {FOR_EXAMPLE}"),
        ("@daily 8", f"{FIELDS}, has 2: `@daily 8`, {FOR_EXAMPLE}"),
        ("@reboot", f"`@reboot` is not a time; say when it is to run, {FOR_EXAMPLE}"),
        (
            "@noon",
            (
                "`@noon` is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, "
                "@annually"
            ),
        ),
        ("30 8 * *\n*", f"'\\n' cannot stand in a cron line; write {FOR_EXAMPLE}"),
        ("30 8 * * \x00", f"'\\x00' cannot stand in a cron line; write {FOR_EXAMPLE}"),
        ("٣ 8 * * *", f"'٣' cannot stand in a cron line; write {FOR_EXAMPLE}"),
        ("0 8 * * ſun", f"'ſ' cannot stand in a cron line; write {FOR_EXAMPLE}"),
        ("* " * 5000, "a cron line has at most 500 characters, not 10000"),
        ("0 0 30 2 *", "`0 0 30 2 *` would never run: no year has such a day"),
        ("0 0 31 4,jun *", "`0 0 31 4,jun *` would never run: no year has such a day"),
        pytest.param(
            "0 0 */31 * mon#5",
            "`0 0 */31 * mon#5` would never run: no year has such a day",
            id="fifth-monday-on-the-first",
        ),
        ("0 0 LW * */6", "`0 0 LW * */6` would never run: no year has such a day"),
    ],
)
def test_a_line_that_is_wrong_as_a_whole_says_so_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadCron) as caught:
        Cron.parse(text)
    assert caught.value.field is None
    assert str(caught.value) == sentence


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "Every minute"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("0 * * * *", "Every hour"),
        ("0 0-23 * * *", "Every hour"),
        ("5 * * * *", "At minute 5 of every hour"),
        ("5/15 * * * *", "At minutes 5, 20, 35 and 50 of every hour"),
        ("0-9 * * * mon", "At minutes 0 through 9 of every hour on Monday"),
        ("0 9 * * *", "At 9:00 every day"),
        ("@daily", "At 0:00 every day"),
        ("0 9 1-31 * *", "At 9:00 every day"),
        ("0 9,18 * * *", "At 9:00 and 18:00 every day"),
        ("0 8,12,13,18 * * *", "At 8:00, 12:00, 13:00 and 18:00 every day"),
        ("0 */2 * * *", "Every 2 hours from 0:00 to 22:00"),
        ("30 9-17 * * 1-5", "Every hour from 9:30 to 17:30 on Monday through Friday"),
        ("*/5 9-17 * * *", "Every 5 minutes from 9:00 to 17:55"),
        ("10-20 9 * * *", "Every minute from 9:10 to 9:20"),
        ("0,10 0-5,22 * * *", "At minutes 0 and 10 of hours 0 through 5 and 22 every day"),
        ("0 22,23,0-5 * * *", "At minute 0 of hours 0 through 5, 22 and 23 every day"),
        ("30 8 * * 1-5", "At 8:30 on Monday through Friday"),
        ("0 9 * * 6,0", "At 9:00 on Saturday and Sunday"),
        ("0 9 * * 1-5/2", "At 9:00 on Monday, Wednesday and Friday"),
        ("0 9 * * 5L", "At 9:00 on the last Friday of the month"),
        (
            "0 9 * * 0L,7#2,0#2",
            "At 9:00 on the 2nd Sunday of the month and the last Sunday of the month",
        ),
        ("0 9 1 * *", "At 9:00 on the 1st of every month"),
        ("0 9 2,3,11,21 * *", "At 9:00 on the 2nd, the 3rd, the 11th and the 21st of every month"),
        ("0 9 1-7 * *", "At 9:00 on the 1st through the 7th of every month"),
        ("0 9 15,L * *", "At 9:00 on the 15th and the last day of every month"),
        ("0 9 LW * *", "At 9:00 on the last weekday of every month"),
        ("0 9 */2 * *", "At 9:00 on every 2nd day from the 1st to the 31st of every month"),
        ("0 9 1 */3 *", "At 9:00 on the 1st of January, April, July and October"),
        ("0 0 29 2 *", "At 0:00 on the 29th of February"),
        ("0 9 * jan-mar *", "At 9:00 every day in January through March"),
        ("0 9 * dec mon", "At 9:00 on Monday in December"),
        ("0 9 13 * 5", "At 9:00 on Friday, and also on the 13th"),
        ("0 9 1-31 * 5", "At 9:00 every day"),
        ("0 9 */10 * 5", "At 9:00 on Friday, but only on every 10th day from the 1st to the 31st"),
    ],
)
def test_a_line_in_words(text: str, words: str) -> None:
    assert Cron.parse(text).explain() == words


@settings(deadline=None)
@given(lines)
def test_the_words_tell_the_meaning_not_the_spelling(line: Line) -> None:
    """Minutes, hours and months written out one by one are explained in the same words."""
    pattern = line.pattern
    _, _, day, _, weekday = line.text.split()
    minutes, hours, months = (
        ",".join(map(str, sorted(values)))
        for values in (pattern.minutes, pattern.hours, pattern.months)
    )
    written_out = f"{minutes} {hours} {day} {months} {weekday}"
    assert Cron.parse(written_out).explain() == Cron.parse(line.text).explain()
