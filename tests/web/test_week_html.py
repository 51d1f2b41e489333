"""The week as markup: plain elements, words that stay words, and hours that fold."""

from __future__ import annotations

from dataclasses import replace

from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY
from tests.web.weeks import full_week

from ollim_bot.domain.text import shortened
from ollim_bot.surfaces.web.week_html import week_html

DRAWN = {"svg", "rect", "line", "polyline", "polygon", "circle", "text"}
SHAPES = {
    *("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "points", "width", "height", "viewbox"),
    *("preserveaspectratio", "overflow", "vector-effect", "text-anchor", "focusable"),
}
TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_the_week_is_plain_markup_in_which_every_text_is_words() -> None:
    week = full_week(SUNDAY)
    html = week_html(week, 100)
    markup = Markup(html)
    assert markup.tags <= TAGS | DRAWN | TABLE | {"a"}
    assert markup.attributes <= ATTRIBUTES | SHAPES | {"href", "scope", "tabindex"}
    assert any(word.startswith(shortened(HOSTILE, 40)[:-1]) for word in markup.words)
    assert "Ada’s birthday" in markup.words
    # The drawings have their numbers as tables; each line leads to its job.
    spent = [each for each in week.budget if each.paid or each.refused]
    assert html.count('<th scope="row">') == len(spent) + len(week.money.by_day)
    assert 'href="/jobs/routine:pills"' in html


def test_an_hour_with_more_than_twenty_moments_folds_and_has_a_list_of_its_own() -> None:
    week = full_week(SUNDAY)
    (full,) = (hour for day in week.days for hour in day.hours if hour.is_folded)
    html = week_html(week, 100)
    fold = html.partition(f'<details data-fold="hour {full.key}">')[2].partition("</details>")[0]
    assert "25 moments" in fold
    assert fold.count('<li class="thing') == 20
    assert f'href="/week?hour={full.key}"' in fold
    alone = replace(week, only=[full])
    assert week_html(alone, 100).count('<li class="thing') == 25
    first = week_html(alone, 10)
    assert first.count('<li class="thing') == 10
    assert "Show more · 15 left" in first
    assert 'href="/week"' in first


def test_an_empty_week_says_what_will_stand_here_and_what_to_do() -> None:
    week = full_week(SUNDAY)
    empty = replace(week, rehearsal=replace(week.rehearsal, fires=()), events=[], days=[])
    assert [word for word in Markup(week_html(empty, 100)).words if word][2:] == [
        "Nothing comes in the next seven days. What you add will stand here, hour by hour.",
        "Add one in Today",
    ]
