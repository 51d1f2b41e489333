"""A rhythm in words becomes one cron line or one repeat, or is refused with a suggestion."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.phrase_files import pairs, read

from ollim_bot.kernel.base.errors import BadPhrase
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.phrases.rhythm import parse_rhythm
from ollim_bot.kernel.values.quiet import QuietHours
from ollim_bot.kernel.values.repeats import read_rhythm

_TABLES = read(Path(__file__).with_name("rhythms.txt"))
RHYTHMS, REFUSED = pairs(_TABLES["rhythms"]), pairs(_TABLES["refused"])
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(("phrase", "cron"), RHYTHMS.items())
def test_a_phrase_names_one_rhythm(phrase: str, cron: str) -> None:
    assert parse_rhythm(phrase, NOW) == cron
    assert str(read_rhythm(cron)) == cron


@pytest.mark.parametrize(("phrase", "reason"), REFUSED.items())
def test_a_refused_rhythm_is_told_why_and_what_would_do(phrase: str, reason: str) -> None:
    with pytest.raises(BadPhrase) as refused:
        parse_rhythm(phrase, NOW)
    assert reason in str(refused.value)
    examples = re.findall(r"`([^`]*)`", str(refused.value).partition(" Write ")[2])
    assert examples
    assert all(parse_rhythm(example, NOW) for example in examples)


@pytest.mark.parametrize(
    ("phrase", "quiet", "cron"),
    [
        ("every 2 hours", "22:00-07:00", "0 8-20/2 * * *"),
        ("every hour", "22:00-07:00", "0 7-21 * * *"),
        ("every 15 minutes", "22:30-07:00", "*/15 7-21 * * *"),
        ("every 2 hours", "13:00-14:30", "0 0,2,4,6,8,10,12,16,18,20,22 * * *"),
        ("every 12 hours", "22:00-07:00", "0 12 * * *"),
        ("every 2 hours", "00:00-23:30", "0 */2 * * *"),
        ("every 2 hours", "12:30-13:30", "0 */2 * * *"),
        ("every day at 23:00", "22:00-07:00", "0 23 * * *"),
        ("every 90 minutes", "13:00-09:00", "every 1 day at 9:00, 10:30, 12:00 from 2026-11-18"),
    ],
)
def test_an_interval_leaves_out_the_quiet_hours_and_nothing_else_does(
    phrase: str, quiet: str, cron: str
) -> None:
    assert parse_rhythm(phrase, NOW, QuietHours.parse(quiet)) == cron
    assert str(read_rhythm(cron)) == cron


@pytest.mark.parametrize("end", ["", " until christmas", " for 2 weeks"])
@pytest.mark.parametrize(
    "every", ["every 90 minutes", "every 2 hours", "every hour", "every 30 minutes", "20 minutes"]
)
def test_without_quiet_hours_an_interval_asks_about_the_night(every: str, end: str) -> None:
    with pytest.raises(BadPhrase, match="would come at night too") as refused:
        parse_rhythm(f"{every}{end}", NOW, spares_night=True)
    by_day, always = (parse_rhythm(each, NOW, spares_night=True) for each in refused.value.readings)
    assert always == parse_rhythm(f"{every}{end}", NOW)
    hours = {
        moment.astimezone(UTC).hour
        for moment in islice(read_rhythm(by_day).moments_from(NOW, UTC), 100)
    }
    assert hours <= {*range(8, 22)}
    assert len(hours) > 6


@given(
    st.sampled_from(["every hour", "every 3 hours", "every 10 minutes", "every 30 minutes"]),
    st.tuples(st.times(), st.times()).filter(lambda two: f"{two[0]:%H:%M}" != f"{two[1]:%H:%M}"),
)
def test_no_moment_of_an_interval_is_quiet(phrase: str, ends: tuple[time, time]) -> None:
    quiet = QuietHours.parse(f"{ends[0]:%H:%M}-{ends[1]:%H:%M}")
    cron = parse_rhythm(phrase, NOW, quiet)
    moment, moments = datetime(2026, 6, 1, tzinfo=UTC), []
    for _ in range(30):
        moment = Cron.parse(cron).next(moment, UTC)
        moments.append(moment)
    is_left = cron != parse_rhythm(phrase, NOW)
    assert not (is_left and any(quiet.has(each.time()) for each in moments))


@given(st.text() | st.builds("every {} at {}".format, st.text(), st.text()))
def test_any_text_is_a_rhythm_or_a_refusal(text: str) -> None:
    try:
        cron = parse_rhythm(text, NOW)
    except BadPhrase:
        return
    assert str(read_rhythm(cron)) == cron
