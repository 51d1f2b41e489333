"""Money on the page: what the model costs, by day, by job and by model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from html import escape

from ollim_bot.features.money.cost_reports import costs_since
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, elapsed
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.costs import CONVERSATION, CostLine, CostReport, job_name, month_start
from ollim_bot.kernel.values.phrases.durations import parse_duration
from ollim_bot.kernel.values.run_words import address_of_run
from ollim_bot.kernel.values.usage import dollars
from ollim_bot.kernel.values.views import View
from ollim_bot.surfaces.web.marked import ViewPage, fold, joined_parts, section, show_more

# What a new minute changes in the costs is small: the pace of the month.
_COSTS_KEPT = timedelta(minutes=1)


@dataclass(eq=False)
class MoneyView(View[CostReport]):
    """A `View` of the costs since the first of the month, or for so long as `since` says."""

    _store: Store
    _clock: Clock
    # The report, what it was made of, and when.
    _kept: tuple[CostReport, tuple[object, ...], datetime] | None = field(default=None, init=False)

    async def look(self, asked: Mapping[str, str]) -> CostReport:
        return await self._store.read(partial(self._read, asked))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, "usage", "config")

    def _read(self, asked: Mapping[str, str], tx: Transaction) -> CostReport:
        now, kept = self._clock.now(), self._kept
        since = month_start(now)
        with suppress(WrongInput, OverflowError):
            ago = now.astimezone(UTC) - parse_duration(asked.get("since", ""))
            day = ago.astimezone(now.tzinfo)
            since = day.replace(hour=0, minute=0, second=0, microsecond=0)
        made_of = (since, now.date(), tx.usage.newest_place(), tx.config.get().daily_cost_cap)
        is_kept = kept is not None and kept[1] == made_of
        if kept is None or not is_kept or not timedelta() <= elapsed(kept[2], now) < _COSTS_KEPT:
            kept = self._kept = costs_since(tx, since, now), made_of, now
        return kept[0]


_SPANS = (("", "this month"), ("7d", "7 days"), ("30d", "30 days"), ("365d", "a year"))
_WIDTH, _HEIGHT = 600, 120
# Fewer days leave room at the end of the chart.
_FEWEST_BARS = 14
_EMPTY = "Nothing has been used yet. What each answer and each job costs will stand here."
_HINT = "Say something in Chat, or set a limit: <code>/config daily_cost_cap 2</code>."


@joined_parts
def money_html(report: CostReport, most: int) -> Iterator[str]:
    """Today and this month against the limit, then by day, by job, by model, and the dearest."""
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
    jobs = [_title(line.name, report) for line in report.by_job]
    yield _table("By job", "job", report.by_job, jobs, most)
    models = [escape(line.name or "model not known") for line in report.by_model]
    yield _table("By model", "model", report.by_model, models, most)
    runs = [
        f'<a href="{escape(address_of_run(line.name))}">{_title(job_name(line.name), report)}</a>'
        for line in report.costliest
    ]
    yield _table("The dearest runs", "run", report.costliest, runs, most)


def _title(job: str, report: CostReport) -> str:
    if job == CONVERSATION:
        return "the conversation"
    return f"<bdi>{escape(report.titles.get(job) or job)}</bdi>"


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
        f'class="chart">{bars}</svg>{fold("days", "The numbers", table)}</figure>'
    )


def _table(
    heading: str, key: str, lines: Sequence[CostLine], names: Sequence[str], most: int
) -> str:
    rows = "".join(
        f'<tr class="thing"><th scope="row">{name}</th><td>{escape(line.amount.in_words(4))}</td>'
        f"<td>{counted(line.uses, 'use')}</td></tr>"
        for line, name in [*zip(lines, names, strict=True)][:most]
    )
    table = f"<table><tbody>{rows}</tbody></table>{show_more(len(lines) - most)}"
    return section(f"money-{key}", heading, table) if lines else ""


def _day(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}"


PAGES = (ViewPage("money", "Money", money_html, "m", "money.css"),)
