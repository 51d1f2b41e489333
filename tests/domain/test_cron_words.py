"""How a cron line is put into words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.domain.cron_lines import Line, lines

from ollim_bot.domain.cron import Cron


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
