"""The coming week as markup for the page. Every text in it is data: it is escaped and set apart.

The drawings hold numbers only, as attributes. The lists and tables beside them say the same in
words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from html import escape
from urllib.parse import quote

from ollim_bot.features.week.rehearsal_findings import FindingKind
from ollim_bot.features.week.week import (
    MARK_MINUTES,
    MOST_MOMENTS,
    WeekDay,
    WeekEvent,
    WeekHour,
    WeekLine,
    WeekView,
    day_name,
    full_hour,
)
from ollim_bot.kernel.base.moments import (
    WEEKDAYS,
    day_words,
    describe,
    elapsed,
    instant,
    short_clock,
)
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.calendar import time_words
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    about,
    fold,
    joined_parts,
    section,
    show_more,
    things,
    time_html,
)

_EMPTY = "Nothing comes in the next seven days. What you add will stand here, hour by hour."
_HINT = '<a class="back" href="/today">Add one in Today</a>'
_MOST_FINDINGS = 5
# The lines of all folded hours together, and of each of very many.
_MOST_FOLDED = 200
# A mark of so many moments has the full height.
_HIGHEST_MARK = 5


def week_html(week: WeekView, most: int) -> str:
    """The panel: what to look at, pings, money, and each day by the hour.

    An hour with many moments is folded, and leads to a list of its own, which has `most` lines.
    """
    parts = _one_hour(week, most) if week.only else _parts(week, most)
    return f'<div class="week">{"".join(parts)}</div>'


def _parts(week: WeekView, most: int) -> Iterator[str]:
    yield f"<h2>Week <span>until {_moment(week.until, week.now)}</span></h2>"
    if week.is_empty:
        yield f'<p class="empty">{_EMPTY}<br>{_HINT}</p>'
        return
    yield f'<p class="about">{escape(week.summary)}</p>'
    # The line of the pings has what is found about the budget as its sentence.
    found = [each for each in week.findings if each.kind is not FindingKind.BUDGET]
    if found:
        items = [f"<li><bdi>{escape(each.sentence)}</bdi></li>" for each in found[:most]]
        first, rest = "".join(items[:_MOST_FINDINGS]), "".join(items[_MOST_FINDINGS:])
        left = f"{len(found) - _MOST_FINDINGS} more"
        more = fold("findings", left, f"<ul>{rest}</ul>") if rest else ""
        yield section("week-findings", "Worth a look", f"<ul>{first}</ul>{more}", "findings")
    elif not week.findings:
        yield '<p class="clear">Nothing gets in the way of anything else.</p>'
    yield f'<div class="sums">{_pings(week)}{_money(week)}</div>'
    yield from (f'<p class="remark"><bdi>{escape(note)}</bdi></p>' for note in week.notes)
    folds = sum(hour.is_folded for day in week.days for hour in day.hours)
    each = min(MOST_MOMENTS, max(1, _MOST_FOLDED // max(folds, 1)))
    yield f'<div class="days">{"".join(_day(day, week, each) for day in week.days)}</div>'
    if not week.rehearsal.is_whole:
        until = _moment(week.until, week.now)
        yield f'<p class="remark">There is more than can be shown: this ends {until}.</p>'
    yield (
        f'<p class="remark">Played through {_moment(week.now, week.now)}, as if '
        f"{escape(week.assumed)}.</p>"
    )


def _one_hour(week: WeekView, most: int) -> Iterator[str]:
    first = week.only[0]
    end = short_clock(full_hour(first.at) + timedelta(hours=1))
    yield f"<h2>{escape(describe(first.at, week.now))} to {end}</h2>"
    yield '<p><a class="back" href="/week">Back to the week</a></p>'
    yield f'<p class="about">{" · ".join(escape(each.summary) for each in week.only)}</p>'
    lines = [line for hour in week.only for line in hour.lines(most)][:most]
    left = sum(len(hour.groups) for hour in week.only) - len(lines)
    yield things(map(_line, lines))
    yield show_more(left)


def _pings(week: WeekView) -> str:
    budget = week.start_budget
    rows = [each for each in week.budget if each.paid or each.refused]
    marked = " The circles are the refused ones." if any(each.refused for each in rows) else ""
    if not rows:
        return _sum("Pings", f"{week.budget_sentence}{marked}")
    cells = [
        (
            _hour_words(each.at, week.now),
            *map(str, (int(each.left + 1e-9), each.paid, int(each.lowest + 1e-9), each.refused)),
        )
        for each in rows
    ]
    capacity = f"One more comes every {budget.refill_rate_minutes} minutes, up to {budget.capacity}"
    heads = ("Hour", "Before", "Sent", "Least", "Refused")
    table = _table("Pings by the hour", heads, cells, f"<caption>{capacity}.</caption>")
    gauge = (
        '<div class="gauge" aria-hidden="true">'
        f"<span>{budget.capacity}</span><span>0</span>{_pings_svg(week)}</div>"
    )
    body = f"{gauge}{fold('pings', 'As a table', table)}"
    return _sum("Pings", f"{week.budget_sentence}{marked}", body)


def _money(week: WeekView) -> str:
    if not week.money.by_day:
        return _sum("Money", week.money.sentence)
    days = [
        (day_words(day.day, week.now), day.cost.in_words())
        for day in week.days
        if day.cost is not None
    ]
    table = fold("money", "By day", _table("Money by day", ("Day", "About"), days))
    return _sum("Money", week.money.sentence, table)


def _sum(heading: str, sentence: str, body: str = "") -> str:
    caption = f"<figcaption><h3>{heading}</h3><p>{escape(sentence)}</p></figcaption>"
    return f'<figure class="sum">{caption}{body}</figure>'


def _table(
    name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = ""
) -> str:
    """A table whose rows begin with what they are about."""
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    cells = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table>{caption}'
        f"<thead><tr>{columns}</tr></thead><tbody>{cells}</tbody></table></div>"
    )


def _day(day: WeekDay, week: WeekView, most: int) -> str:
    key = f"week-{day.day}"
    name, date = day_name(day.day, week.now), day_words(day.day, week.now)
    beside = "" if name == date else f" <span>{escape(date)}</span>"
    rows = [row for _, row in sorted(_rows(day, week, most), key=lambda one: one[0])]
    body = f"<ol>{''.join(rows)}</ol>" if rows else '<p class="about">Nothing comes.</p>'
    words = [counted(day.moments, "moment")] if day.moments else []
    if day.cost is not None and day.cost.micros:
        words.append(f"about {day.cost.in_words()}")
    facts = f'<p class="about">{escape(" · ".join(words))}</p>' if words else ""
    return section(key, f"{escape(name)}{beside}", f"{facts}{_day_svg(day, week)}{body}", "one-day")


def _rows(day: WeekDay, week: WeekView, most: int) -> Iterator[tuple[tuple[float, int], str]]:
    """The rows of a day, each with its place in it."""
    for event in day.events:
        begins = max(event.begins, day.first)
        rank = 0 if event.event.all_day else 1
        yield (0.0 if not rank else begins.timestamp(), rank), _event(event, week.now)
    for start, until in day.quiet:
        # The night belongs to the evening that it begins in.
        if start >= day.first:
            is_night = elapsed(start, until) < timedelta(days=1)
            words = short_clock(until) if is_night else describe(until, week.now)
            row = f"{_time(start)} <span>Quiet{about(f'until {words}')}</span>"
            yield (start.timestamp(), 2), f'<li class="ground quiet"><p>{row}</p></li>'
    for hour in day.hours:
        yield (hour.fires[0].at.timestamp(), 3), _hour(hour, most)


def _event(one: WeekEvent, now: datetime) -> str:
    words = f"{time_words(one.event, now)} · {one.event.calendar}{one.leave_words(now)}"
    begin = "" if one.event.all_day else f"{_time(one.begins)} "
    return (
        f'<li class="ground event"><p>{begin}<span><bdi class="what">{escape(one.title)}</bdi> '
        f'<bdi class="about">{escape(words)}</bdi></span></p></li>'
    )


def _hour(hour: WeekHour, most: int) -> str:
    """The lines of the hour; `most` is for a folded one."""
    shown = hour.lines(most if hour.is_folded else None)
    body = things(map(_line, shown))
    kinds = "hour is-quiet" if hour.is_quiet else "hour"
    if hour.is_folded:
        if len(hour.groups) > len(shown):
            whole = f"All {len(hour.fires)} moments of this hour"
            body += f'<p><a class="back" href="/week?hour={quote(hour.key)}">{whole}</a></p>'
        summary = f"{_time(hour.at)} {escape(hour.summary)}"
        body = fold(f"hour {escape(hour.key)}", summary, body)
    return f'<li class="{kinds}">{body}</li>'


def _line(line: WeekLine) -> str:
    state = " is-skipped" if line.is_skipped else " is-refused" if line.is_refused else ""
    place = escape(address_of(f"{line.job.kind}:{line.job.id}"))
    return (
        f'<li class="thing{state}"><p>{_time(line.at)} <span>'
        f'<a href="{place}"><bdi class="what">{escape(line.title)}</bdi></a>'
        f"{about(line.note)}</span></p></li>"
    )


def _moment(moment: datetime, now: datetime) -> str:
    return escape(describe(moment.replace(second=0, microsecond=0), now, is_exact=True))


def _hour_words(at: datetime, now: datetime) -> str:
    day = "today" if at.date() == now.date() else f"{WEEKDAYS[at.weekday()]} {at.day}"
    return f"{day} {short_clock(full_hour(at))}"


def _time(moment: datetime) -> str:
    return time_html(moment, short_clock(moment))


@joined_parts
def _pings_svg(week: WeekView) -> Iterator[str]:
    """The pings that are left, hour by hour, over the quiet and the days."""
    yield '<svg class="budget" aria-hidden="true" focusable="false">'
    whole = elapsed(week.now, week.until)

    def place(moment: datetime) -> float:
        return _share(elapsed(week.now, moment), whole)

    for start, until in week.quiet:
        yield _band("quiet", place(start), place(until), 76)
    for day in week.days[1:]:
        x = place(day.first)
        yield f'<line class="midnight" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="76%"/>'
    for day in week.days:
        x, end = place(day.first), place(day.last)
        # A day that is cut short has no room for its name.
        if end - x > 8:
            name = WEEKDAYS[day.day.weekday()]
            yield f'<text x="{(x + end) / 2:.2f}%" y="100%" text-anchor="middle">{name}</text>'
    yield _levels(week)
    for each in week.budget:
        if each.refused:
            x = place(each.at)
            yield f'<circle class="refused" cx="{x:.2f}%" cy="76%" r="3.5"/>'
    yield "</svg>"


def _levels(week: WeekView) -> str:
    """A line of its own scale: 0 to the capacity, over all the hours."""
    capacity, whole = max(week.start_budget.capacity, 1), elapsed(week.now, week.until)
    points = []
    for each in week.budget:
        x = _share(elapsed(week.now, each.at), whole)
        levels = (each.left, each.lowest) if each.paid else (each.left,)
        points += [f"{x:.2f},{100 - 100 * level / capacity:.2f}" for level in levels]
    points.append(f"100,{points[-1].partition(',')[2]}")
    line = " ".join(points)
    return (
        '<svg class="levels" x="0" y="6%" width="100%" height="70%" viewBox="0 0 100 100" '
        'preserveAspectRatio="none" overflow="visible">'
        f'<polygon class="under" points="0,100 {line} 100,100"/>'
        f'<polyline class="level" points="{line}" vector-effect="non-scaling-stroke"/></svg>'
    )


@joined_parts
def _day_svg(day: WeekDay, week: WeekView) -> Iterator[str]:
    """A strip of 24 hours: the quiet, the events, and a mark where something comes."""
    midnight = instant(datetime.combine(day.day, time.min), week.rehearsal.zone)
    yield '<svg class="strip" aria-hidden="true" focusable="false">'
    for start, until in day.quiet:
        yield _band("quiet", _hour_share(midnight, start), _hour_share(midnight, until))
    for each in day.events:
        if not each.event.all_day:
            begin, end = _hour_share(midnight, each.begins), _hour_share(midnight, each.ends)
            yield _band("event", begin, max(end, begin + 1))
    for hour in (6, 12, 18):
        x = 100 * hour / 24
        yield f'<line class="tick" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="60%"/>'
        yield f'<text x="{x:.2f}%" y="100%" text-anchor="middle">{hour}</text>'
    if day.first > midnight:
        x = _hour_share(midnight, day.first)
        yield f'<line class="now" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="60%"/>'
    for busy in day.hours:
        for number, count in sorted(busy.marks.items()):
            at = elapsed(midnight, busy.at) + (number + 0.5) * timedelta(minutes=MARK_MINUTES)
            x = _share(at, timedelta(days=1))
            top = 60 * (1 - (0.4 + 0.6 * min(count, _HIGHEST_MARK) / _HIGHEST_MARK))
            yield f'<line class="mark" x1="{x:.2f}%" x2="{x:.2f}%" y1="{top:.0f}%" y2="60%"/>'
    yield "</svg>"


def _band(kind: str, start: float, end: float, height: int = 60) -> str:
    start, end = max(start, 0.0), min(end, 100.0)
    width = max(end - start, 0.0)
    return f'<rect class="{kind}" x="{start:.2f}%" y="0" width="{width:.2f}%" height="{height}%"/>'


def _hour_share(midnight: datetime, moment: datetime) -> float:
    return _share(elapsed(midnight, moment), timedelta(days=1))


def _share(part: timedelta, whole: timedelta) -> float:
    return 100 * (part / whole) if whole else 0.0


PAGES = (ViewPage("week", "Week", week_html, "w", "week.css", is_in_bar=True),)
