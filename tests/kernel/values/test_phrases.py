"""Phrases and what they mean, of `phrases.txt`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.phrase_files import Row, pairs, read

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.base.moments import describe, duration_in_words, instant
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.phrases.moment import parse_moment

pytestmark = pytest.mark.same_fixtures

NOW = datetime(2026, 11, 18, 10, 0)
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")

_TABLES = read(Path(__file__).with_name("phrases.txt"))


def _length(words: str) -> timedelta:
    unit, _, count = words.partition("=")
    return timedelta(**{unit: int(count)})


MOMENTS = pairs(_TABLES["moments"])
WITH_OFFSET = pairs(_TABLES["with an offset"])
REFUSED_MOMENTS = pairs(_TABLES["refused moments"])
DURATIONS = {phrase: _length(words) for phrase, words in _TABLES["durations"]}
REFUSED_DURATIONS = pairs(_TABLES["refused durations"])
SHIFTS: list[Row] = _TABLES["shifts"]

VOCABULARY = """
    today tomorrow tonight this next day after the on at in from now and a an half quarter past to
    of morning afternoon evening night noon midnight o'clock am pm mon friday sat sunday jan feb
    december 24 3rd 31st 2026 2027 0 7 9 12 13 25 9:30 21:30 12am 9pm 20m 1h 90 minutes hours week
    months nine twenty 2026-12-24 2026-12-24t18:00 12/11 , . - z
"""

zones = st.sampled_from([ZoneInfo(name) for name in ZONES])
seconds_of_25_years = st.datetimes(datetime(2025, 1, 1), datetime(2050, 1, 1)).map(
    lambda wall: wall.replace(microsecond=0, tzinfo=UTC)
)
seconds_of_10_years = st.integers(1, 10 * 365 * 86400).map(lambda count: timedelta(seconds=count))
presents = st.builds(lambda moment, zone: moment.astimezone(zone), seconds_of_25_years, zones)
word_salads = st.lists(st.sampled_from(VOCABULARY.split()), max_size=7).map(" ".join)
texts = st.text() | st.text("0123456789:./-apmhsd ") | word_salads


@pytest.fixture(params=ZONES)
def now(request: pytest.FixtureRequest) -> datetime:
    return NOW.replace(tzinfo=ZoneInfo(request.param))


def same_instant(one: datetime, other: datetime) -> bool:
    """Python compares two moments of one zone by their wall-clock times; this does not."""
    return one.astimezone(UTC) == other.astimezone(UTC)


def moment_or_none(text: str, now: datetime) -> datetime | None:
    try:
        return parse_moment(text, now)
    except BadPhrase:
        return None


def assert_one_short_line(refusal: BadPhrase) -> None:
    sentence = str(refusal)
    assert sentence.isprintable()
    assert len(sentence) < 200
    assert sentence.endswith("`.")


def examples_in(refusal: BadPhrase) -> list[str]:
    return re.findall(r"`([^`]*)`", str(refusal).partition(" Write ")[2])


def assert_examples_are_moments(refusal: BadPhrase, now: datetime) -> None:
    assert all(parse_moment(example, now) for example in examples_in(refusal))


def test_a_phrase_names_one_moment(now: datetime) -> None:
    for phrase, wall in MOMENTS.items():
        moment = parse_moment(phrase, now)
        assert moment.replace(tzinfo=None) == datetime.fromisoformat(wall), phrase
        assert moment.tzinfo is now.tzinfo, phrase


@pytest.mark.parametrize(("phrase", "expected"), WITH_OFFSET.items())
def test_an_offset_is_obeyed(phrase: str, expected: str, now: datetime) -> None:
    moment = parse_moment(phrase, now)
    assert same_instant(moment, datetime.fromisoformat(expected))
    assert moment.tzinfo is now.tzinfo


@pytest.mark.parametrize(("zone", "present", "phrase", "expected"), SHIFTS)
def test_where_the_clocks_change(zone: str, present: str, phrase: str, expected: str) -> None:
    """A gap means its end, a repeated time the first; days are wall-clock days, hours elapse."""
    now = datetime.fromisoformat(present).astimezone(ZoneInfo(zone))
    moment = parse_moment(phrase, now)
    assert moment.isoformat(timespec="minutes") == expected


def test_a_repeated_time_whose_first_pass_is_over_lies_in_the_past() -> None:
    now = datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"), fold=1)
    with pytest.raises(BadPhrase, match="was 45 min ago"):
        parse_moment("today 1:45am", now)


@pytest.mark.parametrize(
    ("clock", "phrase", "wall"),
    [
        pytest.param("08:00", "at 9", "2026-11-18 09:00", id="both ahead, nearest by day"),
        pytest.param("22:30", "at 9", "2026-11-19 09:00", id="both tomorrow, nearest by day"),
        pytest.param("22:30", "9:30", "2026-11-19 09:30", id="with minutes"),
        pytest.param("06:00", "wed at 9", "2026-11-18 09:00", id="weekday, nearest by day"),
        pytest.param("00:30", "midnight", "2026-11-19 00:00", id="the coming midnight"),
        pytest.param("00:30", "tonight", "2026-11-18 19:00", id="tonight after midnight"),
        pytest.param("22:00", "in 3 hours", "2026-11-19 01:00", id="over midnight"),
    ],
)
def test_what_a_phrase_means_depends_on_the_hour(clock: str, phrase: str, wall: str) -> None:
    now = datetime.fromisoformat(f"2026-11-18T{clock}").replace(tzinfo=ZoneInfo("Europe/Berlin"))
    assert parse_moment(phrase, now).replace(tzinfo=None) == datetime.fromisoformat(wall)


@pytest.mark.parametrize(
    ("clock", "phrase"),
    [
        pytest.param("14:00", "at 12", id="midnight is nearer than noon"),
        pytest.param("14:00", "12:30", id="so it is with minutes"),
        pytest.param("02:00", "at 3", id="nearest, but at night"),
        pytest.param("09:00", "at 9", id="the same time as now"),
        pytest.param("12:00", "today at 9", id="one is over, the other is not"),
    ],
)
def test_an_hour_that_could_be_either_is_refused(clock: str, phrase: str) -> None:
    now = datetime.fromisoformat(f"2026-11-18T{clock}").replace(tzinfo=ZoneInfo("Europe/Berlin"))
    with pytest.raises(BadPhrase, match="can be read two ways"):
        parse_moment(phrase, now)


def assert_told_why(parse: Callable[[str], object], phrase: str, reason: str) -> BadPhrase:
    with pytest.raises(BadPhrase) as refused:
        parse(phrase)
    assert reason in str(refused.value), phrase
    assert refused.value.text == phrase
    assert_one_short_line(refused.value)
    assert 1 <= len(examples_in(refused.value)) <= 3, phrase
    return refused.value


def test_a_refused_moment_is_told_why_and_what_would_do(now: datetime) -> None:
    for phrase, reason in REFUSED_MOMENTS.items():
        refusal = assert_told_why(lambda text: parse_moment(text, now), phrase, reason)
        assert_examples_are_moments(refusal, now)


def test_a_phrase_names_one_duration() -> None:
    wrong = {
        phrase: length for phrase, length in DURATIONS.items() if parse_duration(phrase) != length
    }
    assert wrong == {}


def test_a_refused_duration_is_told_why_and_what_would_do() -> None:
    for phrase, reason in REFUSED_DURATIONS.items():
        refusal = assert_told_why(parse_duration, phrase, reason)
        assert all(parse_duration(example) for example in examples_in(refusal)), phrase


def test_every_duration_can_follow_in(now: datetime) -> None:
    for phrase, length in DURATIONS.items():
        moment = parse_moment(f"in {phrase.lower().removeprefix('in ')}", now)
        assert moment.astimezone(UTC) - now.astimezone(UTC) == length


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param("TOMORROW AT 9 PM", id="capitals"),
        pytest.param("  Tomorrow  at\t9\npm  ", id="spaces"),
        pytest.param("tomorrow\u00a0at\u20099\u202fpm", id="narrow spaces"),
        pytest.param("tomorrow, at 9 p.m.", id="punctuation"),
    ],
)
def test_letter_case_spacing_and_punctuation_mean_nothing(changed: str, now: datetime) -> None:
    assert parse_moment(changed, now) == parse_moment("tomorrow at 9 pm", now)


@settings(deadline=None)
@given(texts, presents)
def test_any_text_is_a_moment_ahead_or_a_refusal(text: str, now: datetime) -> None:
    try:
        moment = parse_moment(text, now)
    except BadPhrase as refusal:
        assert_one_short_line(refusal)
        assert_examples_are_moments(refusal, now)
    else:
        assert now.astimezone(UTC) < moment.astimezone(UTC)
        assert moment.tzinfo is now.tzinfo
        assert moment.microsecond == 0


@settings(deadline=None)
@given(texts)
def test_any_text_is_a_duration_or_a_refusal(text: str) -> None:
    try:
        length = parse_duration(text)
    except BadPhrase as refusal:
        assert_one_short_line(refusal)
    else:
        assert timedelta(seconds=1) <= length <= timedelta(days=3653)
        assert length.microseconds == 0


@pytest.mark.parametrize(
    "piece", ["a ", "9", "9 ", "1h", "an hour and ", "tomorrow ", "\u202f", "\0"]
)
@pytest.mark.parametrize("size", [78, 100_000])
def test_long_texts_are_refused_quickly(piece: str, size: int, now: datetime) -> None:
    text = (piece * size)[:size]
    start = time.process_time()
    with pytest.raises(BadPhrase) as refused_moment:
        parse_moment(text, now)
    with pytest.raises(BadPhrase) as refused_duration:
        parse_duration(text)
    assert time.process_time() - start < 1
    assert_one_short_line(refused_moment.value)
    assert_one_short_line(refused_duration.value)


@settings(deadline=None)
@given(presents, seconds_of_10_years)
def test_an_iso_rendering_gives_the_same_instant(now: datetime, ahead: timedelta) -> None:
    moment = (now.astimezone(UTC) + ahead).astimezone(now.tzinfo)
    in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    for text in (moment.isoformat(), moment.isoformat(" "), f"{in_utc.isoformat()}Z"):
        assert same_instant(parse_moment(text, now), moment)


@settings(deadline=None)
@given(presents, seconds_of_10_years)
def test_an_iso_rendering_without_offset_is_on_the_clocks_here(
    now: datetime, ahead: timedelta
) -> None:
    assert now.tzinfo is not None
    wall = now.replace(tzinfo=None, fold=0) + ahead
    moment = instant(wall, now.tzinfo)
    assume(now.astimezone(UTC) < moment.astimezone(UTC))
    assert same_instant(parse_moment(wall.isoformat(), now), moment)


@settings(deadline=None)
@given(presents, st.integers(1, 5_000_000))
def test_in_n_minutes_is_elapsed_time(now: datetime, count: int) -> None:
    moment = parse_moment(f"in {count} minutes", now)
    assert moment.astimezone(UTC) - now.astimezone(UTC) == timedelta(minutes=count)


@settings(deadline=None)
@given(presents, st.integers(1, 999_999), st.integers(1, 10_000))
def test_a_fraction_of_a_second_is_never_cut_off(
    now: datetime, microsecond: int, count: int
) -> None:
    now = now.replace(microsecond=microsecond)
    over = parse_moment(f"in {count}s", now).astimezone(UTC) - now.astimezone(UTC)
    assert timedelta(0) <= over - timedelta(seconds=count) < timedelta(seconds=1)


@settings(deadline=None)
@given(presents, st.integers(0, 6), st.integers(0, 1439))
def test_a_weekday_means_the_first_one_ahead(now: datetime, weekday: int, minute: int) -> None:
    name = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")[weekday]
    clock = datetime(2026, 1, 1) + timedelta(minutes=minute)
    assume(minute)
    assert now.tzinfo is not None
    days = [datetime(now.year, now.month, now.day) + timedelta(days=day) for day in range(9)]
    walls = [day + timedelta(minutes=minute) for day in days if day.weekday() == weekday]
    ahead = [instant(wall, now.tzinfo).astimezone(UTC) for wall in walls]
    expected = min(moment for moment in ahead if moment > now.astimezone(UTC))
    assert same_instant(parse_moment(f"{name} {clock:%I:%M%p}", now), expected)


@settings(deadline=None)
@given(presents, seconds_of_10_years)
def test_what_the_program_says_is_never_read_as_something_else(
    now: datetime, ahead: timedelta
) -> None:
    moment = (now.astimezone(UTC) + ahead).astimezone(now.tzinfo)
    assume(moment.fold == 0)
    for is_exact in (True, False):
        read = moment_or_none(describe(moment, now, is_exact=is_exact), now)
        said = moment if is_exact else moment.replace(second=0)
        # The minute that has begun is over, for who reads it.
        is_unread = 1 <= moment.hour <= 6 or said <= now
        assert same_instant(read, said) if read else is_unread


@settings(deadline=None)
@given(seconds_of_10_years)
def test_a_duration_in_the_programs_words_is_understood(length: timedelta) -> None:
    words = duration_in_words(length)
    assert duration_in_words(parse_duration(words)) == words
