"""What the model costs, as markup for the page: a sentence, a chart, and the same as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from html import escape

from ollim_bot.domain.costs import CONVERSATION, CostLine, CostReport, job_name
from ollim_bot.domain.moments import MONTHS, WEEKDAYS
from ollim_bot.domain.run_pages import address_of_run
from ollim_bot.domain.text import counted
from ollim_bot.domain.usage import dollars
from ollim_bot.surfaces.web.marked import section, show_more

_SPANS = (("", "this month"), ("7d", "7 days"), ("30d", "30 days"), ("365d", "a year"))
_WIDTH, _HEIGHT = 600, 120
# Fewer days leave room at the end of the chart.
_FEWEST_BARS = 14
_EMPTY = "Nothing has been used yet. What each answer and each job costs will stand here."
_HINT = "Say something in Chat, or set a limit: <code>/config daily_cost_cap 2</code>."


def money_html(report: CostReport, most: int) -> str:
    """Today and this month against the limit, then by day, by job, by model, and the dearest."""
    return "".join(_parts(report, most))


def _parts(report: CostReport, most: int) -> Iterator[str]:
    yield "<h2>Money</h2>"
    yield _sums(report)
    links = " ".join(
        f'<a href="/money{f"?since={span}" if span else ""}">{words}</a>' for span, words in _SPANS
    )
    yield f'<p class="choices">Since {_day(report.since)}: {links}</p>'
    if not report.by_day:
        yield f'<p class="empty">{_EMPTY}<br>{_HINT}</p>'
        return
    yield _days(report.by_day)
    jobs = [_job(each, report) for each in report.by_job]
    yield _table("By job", "job", report.by_job, jobs, most)
    models = [escape(each.name or "model not known") for each in report.by_model]
    yield _table("By model", "model", report.by_model, models, most)
    if report.costliest:
        runs = [_run(each, report) for each in report.costliest]
        yield _table("The dearest runs", "run", report.costliest, runs, most)


def _sums(report: CostReport) -> str:
    parts = " · ".join(f"{name} {escape(amount.in_words())}" for name, amount in report.used)
    about = f'<p class="about">{parts}</p>' if parts else ""
    if report.month.usd is None:
        return f"<p>{escape(report.month.in_words())} this month</p>{about}"
    today, joint, rest = escape(report.today.in_words()).partition(" and ")
    cap, bar = "no daily limit", ""
    if report.cap is not None:
        cap = f"of ${report.cap:.2f} a day for jobs"
        spent = min(report.today.usd or 0.0, report.cap)
        bar = f'<progress max="{report.cap:.4f}" value="{spent:.4f}" aria-hidden="true"></progress>'
    if report.today.usd is not None:
        today = f'<strong class="large">{today}</strong>'
    pace = report.month_at_pace
    at_pace = "" if pace is None else f" · ${dollars(pace):.2f} a month at this pace"
    return (
        f"<figure><figcaption>{today}{joint}{rest} today · {cap}</figcaption>"
        f"{bar}</figure><p>{escape(report.month.in_words())} this month{at_pace}</p>{about}"
    )


def _days(days: Sequence[CostLine]) -> str:
    """A bar for each day that has cost something, and the same numbers as a table."""
    rows = "".join(
        f'<tr><th scope="row">{_day(date.fromisoformat(each.name))}</th>'
        f"<td>{escape(each.amount.in_words(4))}</td><td>{counted(each.uses, 'use')}</td></tr>"
        for each in reversed(days)
    )
    table = f"<table><tbody>{rows}</tbody></table>"
    largest = max(days, key=lambda each: each.amount.micros)
    top = largest.amount.micros
    if not top:
        return f"<section><h3>By day</h3>{table}</section>"
    step = _WIDTH / max(len(days), _FEWEST_BARS)
    bars = "".join(
        f'<rect x="{place * step + step * 0.1:.1f}" width="{step * 0.8:.1f}" '
        f'y="{_HEIGHT - each.amount.micros / top * _HEIGHT:.1f}" '
        f'height="{max(each.amount.micros / top * _HEIGHT, 1):.1f}"/>'
        for place, each in enumerate(days)
    )
    point = (
        f"The dearest of {counted(len(days), 'day')} was {_day(date.fromisoformat(largest.name))}: "
        f"{largest.amount.in_words()}."
    )
    return (
        f"<figure><h3>By day</h3><figcaption>{escape(point)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true" '
        f'class="chart">{bars}</svg><details data-fold="days"><summary>The numbers</summary>'
        f"{table}</details></figure>"
    )


def _table(
    heading: str, fold: str, lines: Sequence[CostLine], names: Sequence[str], most: int
) -> str:
    rows = "".join(
        f'<tr class="thing"><th scope="row">{name}</th><td>{escape(line.amount.in_words(4))}</td>'
        f"<td>{counted(line.uses, 'use')}</td></tr>"
        for line, name in [*zip(lines, names, strict=True)][:most]
    )
    table = f"<table><tbody>{rows}</tbody></table>{show_more(len(lines) - most)}"
    return section(f"money-{fold}", heading, table)


def _job(line: CostLine, report: CostReport) -> str:
    if line.name == CONVERSATION:
        return "the conversation"
    return f"<bdi>{escape(report.titles.get(line.name) or line.name)}</bdi>"


def _run(line: CostLine, report: CostReport) -> str:
    title = report.titles.get(job_name(line.name)) or job_name(line.name)
    return f'<a href="{escape(address_of_run(line.name))}"><bdi>{escape(title)}</bdi></a>'


def _day(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}"
