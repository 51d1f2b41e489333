"""A rhythm in words becomes one cron line or one repeat, or is refused with a suggestion."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.phrases.rhythm import parse_rhythm
from ollim_bot.domain.quiet import QuietHours
from ollim_bot.domain.repeats import read_rhythm
from ollim_bot.errors import BadPhrase

RHYTHMS = {
    "every day except sunday at 7am": "0 7 * * 1-6",
    "every day at 7am except weekends": "0 7 * * 1-5",
    "every weekday except wednesday at 9am": "0 9 * * 1,2,4,5",
    "every day at 8am": "0 8 * * *",
    "daily at 8": "0 8 * * *",
    "day at 8pm": "0 20 * * *",
    "at 8am every day": "0 8 * * *",
    "Every Day, at 8:15 a.m.": "15 8 * * *",
    "every day at 8am and 8pm": "0 8,20 * * *",
    "every day at 8pm and at 9": "0 9,20 * * *",
    "every day at midnight": "0 0 * * *",
    "weekday at 9": "0 9 * * 1-5",
    "weekdays at 9:30": "30 9 * * 1-5",
    "every workday at noon": "0 12 * * 1-5",
    "monday at 10:30": "30 10 * * 1",
    "every mon and thu at 18:30": "30 18 * * 1,4",
    "every monday, wednesday and friday at 7am": "0 7 * * 1,3,5",
    "sundays at 10": "0 10 * * 0",
    "every sunday evening at 6": "0 18 * * 0",
    "tuesday evening": "0 19 * * 2",
    "every morning": "0 9 * * *",
    "every night at 10": "0 22 * * *",
    "month on the 1st at 9am": "0 9 1 * *",
    "on the 15th of every month at 9am": "0 9 15 * *",
    "hour": "0 * * * *",
    "every 2 hours": "0 */2 * * *",
    "every two hours": "0 */2 * * *",
    "30 minutes": "*/30 * * * *",
    "every 15 min": "*/15 * * * *",
    "every 2 hours between 8am and 9pm": "0 8-21/2 * * *",
    "every hour between 9 and 5": "0 9-17 * * *",
    "every 2 hours from 8:30 to 16:30": "30 8-16/2 * * *",
    "every 20 minutes from 9:00 to 18:00": "*/20 9-17 * * *",
    "every 2 hours day and night": "0 */2 * * *",
    "8am & 8pm daily": "0 8,20 * * *",
    # Repeats that no cron line can hold; it is Tuesday 17 November, noon.
    "every other day at 9am": "every 2 days at 9:00 from 2026-11-18",
    "every third day at 8am and 8pm": "every 3 days at 8:00, 20:00 from 2026-11-17",
    "every other friday at 9am": "every 2 weeks at 9:00 from 2026-11-20",
    "every 2 weeks on tuesday at 18:00": "every 2 weeks at 18:00 from 2026-11-17",
    "every 2 weeks on tuesday at 9am": "every 2 weeks at 9:00 from 2026-11-24",
    "fortnightly on monday at 9am": "every 2 weeks at 9:00 from 2026-11-23",
    "the 1st monday of the month at 9am": "every first monday of the month at 9:00 from 2026-11-18",
    "last day of the month at 9am": "every last day of the month at 9:00 from 2026-11-18",
    "at the end of every month at 9am": "every last day of the month at 9:00 from 2026-11-18",
    "every month on the 31st at 9am": "every 1 month at 9:00 from 2026-10-31",
    "every 3 months on the 1st at 9am": "every 3 months at 9:00 from 2026-12-01",
    "3 days after it is done at 9am": "after-done 3 days at 9:00 from 2026-11-18",
    "2 weeks after I've done it at 9am": "after-done 2 weeks at 9:00 from 2026-11-18",
    "every day at 9am until friday": "cron 0 9 * * * until 2026-11-20",
    "every day until 24 december at 9am": "cron 0 9 * * * until 2026-12-24",
    "every tuesday at 6pm until christmas": "cron 0 18 * * 2 until 2026-12-25",
    "every monday at 9am until new year's eve": "cron 0 9 * * 1 until 2026-12-31",
    "every hour from 9 to 17 until christmas eve": "cron 0 9-17 * * * until 2026-12-24",
    "every monday at 9am starting 7 december": "cron 0 9 * * 1 from 2026-12-07",
    "every monday at 9am ten times": "cron 0 9 * * 1 from 2026-11-23 times 10",
    "every other day at 9am 5 times": "every 2 days at 9:00 from 2026-11-18 times 5",
    "every other day at 9am for 2 weeks": "every 2 days at 9:00 from 2026-11-18 until 2026-12-01",
}
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
REFUSED = {
    "every day": "has no time of day. Write `every day at 8am` or `every day at 8pm`",
    "every monday": "has no time of day. Write `every monday at 8am` or `every monday at 8pm`",
    "every day at 3": "two ways. Write `every day at 3am` or `every day at 3pm`",
    "every day at 3:30": "two ways. Write `every day at 3:30am` or `every day at 3:30pm`",
    "every weekend at 10": "Write `every saturday at 10` or `every saturday and sunday at 10`",
    "every monday at midnight": "two ways. Write `every monday at 0:00`",
    "every day at 8:00 and 20:30": "different minutes",
    "every evening at 9am": "outside that part of the day",
    "every 7 minutes": "is not a rhythm that I know. Write `every 10 minutes`",
    "every 90 minutes": "is not a rhythm that I know. Write `every hour` or `every 2 hours`",
    "every hour between 5 and 7": "Write `every hour between 5am and 7`",
    "every 20 minutes until 6pm": "from when. Write `every 20 minutes between 9am and 6pm`",
    "every hour between 8:15 and 17:30": "cannot keep yet",
    "every tuesday at 6 until christmas": (
        "Write `every tuesday at 6am until christmas` or `every tuesday at 6pm until christmas`"
    ),
    "every 3 days until christmas": "Write `every 3 days at 8am until christmas`",
    "every minute": "is not a rhythm that I know",
    "every 5 hours": "is not a rhythm that I know. Write `every 2 hours`",
    "every day at half past seven": "Write `every day at 7:30am` or `every day at 7:30pm`",
    "every 3 days": "has no time of day. Write `every 3 days at 8am` or `every 3 days at 8pm`",
    "every 2 weeks at 9am": "on which day. Write `every 2 weeks on monday at 9am`",
    "every 3 months at 9am": "on which day. Write `every 3 months on the 1st at 9am`",
    "3 days after it is done at 9am until friday": "one time of day and no end",
    "every day at 9am for 99999999999 weeks": "lasts too long",
    "every day at 9am 0 times": "does not come so often",
    "twice a day": "does not say when. Write `every day at 8am and 8pm`",
    "every monday except sunday at 9am": "is not a rhythm that I know",
    "every day at 25:00": "a time that does not exist",
    "every day at some time": "is not a rhythm that I know",
    "every full moon": "is not a rhythm that I know",
    "tomorrow 9am": "is not a rhythm that I know",
    "": "An empty text is not a rhythm that I know",
}


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
    ],
)
def test_an_interval_leaves_out_the_quiet_hours_and_nothing_else_does(
    phrase: str, quiet: str, cron: str
) -> None:
    assert parse_rhythm(phrase, NOW, QuietHours.parse(quiet)) == cron
    assert str(Cron.parse(cron)) == cron


@pytest.mark.parametrize("end", ["", " until christmas", " for 2 weeks"])
@pytest.mark.parametrize("every", ["every 2 hours", "every hour", "every 30 minutes", "20 minutes"])
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
