"""Runs on the page: the newest ones with a receipt of the day, and one with all its decisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import partial
from html import escape
from urllib.parse import urlencode

from ollim_bot.features.runs.run_reports import (
    CHUNK,
    FIRST,
    run_named,
    said_by,
    stories_of,
    used_in_words,
)
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import NotFound
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe, duration_in_words
from ollim_bot.kernel.base.text import one_line, visible
from ollim_bot.kernel.schedule.day_receipts import TodayReceipts, rows_about_day
from ollim_bot.kernel.store.heartbeat import ReadHeartbeat
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.costs import Amount
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.receipts import (
    COSTLY,
    RunFilter,
    RunList,
    RunPage,
    Show,
    is_late_story,
)
from ollim_bot.kernel.values.run_history import History, RunStory, part_in_words
from ollim_bot.kernel.values.run_words import (
    address_of_run,
    answer_in_words,
    decisions,
    moment_of,
    refused_pings,
    sources_of,
    state_in_words,
    tools_of,
    why,
)
from ollim_bot.kernel.values.usage import UsageRow, dollars
from ollim_bot.kernel.values.views import View
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    joined_parts,
    receipt_html,
    section,
    select,
    things,
    time_html,
)

# A list looks through so many runs for each that it may have.
_LOOKED_AT = 5
_USUAL_DAYS = timedelta(days=30)


def run_list(
    tx: Transaction,
    wanted: RunFilter,
    most: int,
    now: datetime,
    watched_until: datetime | None,
    today: TodayReceipts | None = None,
) -> RunList:
    """At most `most` runs that fit, with the receipt of the day, or of today."""
    if wanted.day is None:
        listed = _newest_runs(tx, wanted, most, now, ())
        return replace(listed, receipt=(today or TodayReceipts()).read(tx, now, watched_until))
    about = rows_about_day(tx, wanted.day, now)
    listed = _newest_runs(tx, wanted, most, now, about.rows)
    return replace(listed, receipt=about.receipt(now, watched_until))


def _newest_runs(
    tx: Transaction, wanted: RunFilter, most: int, now: datetime, of_day: Sequence[LedgerRow]
) -> RunList:
    """It looks back through a bounded number of others; `of_day` are the rows about the day."""
    by_run: dict[str, list[UsageRow]] = {}
    for row in tx.usage.since(now - _USUAL_DAYS) if wanted.show is Show.COSTLY else ():
        if row.occurrence:
            by_run.setdefault(row.occurrence, []).append(row)
    known = sorted(each for rows in by_run.values() if (each := Amount.of(rows).micros) > 0)
    usual = known[len(known) // 2] if known else 0
    found: list[RunStory] = []
    seen, back_to = 0, None
    for ids in _chunks(tx, wanted, now, of_day):
        stories = stories_of(tx, ids)
        found += [each for each in stories if wanted.fits(each, now, usual)]
        seen += len(ids)
        back_to = min((moment_of(each) for each in stories), default=back_to)
        if len(found) > most or seen >= _LOOKED_AT * most:
            break
    else:
        back_to = None
    found.sort(key=lambda each: each.fired.timestamp(), reverse=True)
    has_more = len(found) > most or back_to is not None
    return RunList(now, wanted, found[:most], has_more, back_to, usual)


def _chunks(
    tx: Transaction, wanted: RunFilter, now: datetime, of_day: Sequence[LedgerRow]
) -> Iterator[list[str]]:
    """The ids of the runs that may fit, the newest first."""
    if wanted.day is not None:
        stories = History.of(of_day).newest_first
        yield [each.id for each in stories if RunFilter(day=wanted.day).fits(each, now)]
        return
    ledger, before = tx.ledger, FIRST
    newest = partial(ledger.newest_of_job, wanted.job) if wanted.job else ledger.newest_ids
    while ids := newest(before, CHUNK):
        before = ids[-1][1]
        yield [each for each, _ in ids]


_MADE_OF = ("ledger", "usage", "due_items")
_USUAL = 100
_LONGEST_ID = 400


def no_heartbeat() -> datetime | None:
    """For a bot whose heartbeat is not kept: the ledger says until when it ran."""
    return None


@dataclass(eq=False)
class RunListView(View[RunList]):
    """A `View` of the newest `most` runs that fit `show`, `job` and `day`, with a receipt."""

    _store: Store
    _clock: Clock
    _heartbeat: ReadHeartbeat = no_heartbeat
    _receipts: TodayReceipts = field(default_factory=TodayReceipts)

    async def look(self, asked: Mapping[str, str]) -> RunList:
        word = asked.get("most", "")
        most = int(word) if word.isascii() and word.isdecimal() and len(word) < 6 else _USUAL
        wanted = RunFilter.read(asked, self._clock.now())
        return await asyncio.to_thread(self._read, wanted, most)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    def _read(self, wanted: RunFilter, most: int) -> RunList:
        # Read before the ledger, which then has everything that was claimed until this moment.
        watched_until, now = self._heartbeat(), self._clock.now()
        return self._store.query(
            lambda tx: run_list(tx, wanted, most, now, watched_until, self._receipts)
        )


@dataclass(eq=False)
class RunView(View[RunPage]):
    """A `View` of the run `id`, which may be short."""

    _store: Store
    _repositories: JobRepositories
    _clock: Clock

    async def look(self, asked: Mapping[str, str]) -> RunPage:
        return await asyncio.to_thread(self._read, asked.get("id", ""))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    def _read(self, word: str) -> RunPage:
        now = self._clock.now()

        def question(tx: Transaction) -> RunPage:
            story = run_named(tx, word[:_LONGEST_ID])
            one, job = story.occurrence, ""
            if isinstance(one.kind, JobKind):
                # It is named if it has a file.
                with suppress(NotFound):
                    self._repositories.of(one.kind).text_of(one.job_id)
                    job = f"{one.kind}:{one.job_id}"
            return RunPage(now, story, said_by(tx, story), job)

        return self._store.query(question)


_LONGEST = 160
_EMPTY = "Nothing has run yet. Each time that something comes by itself will stand here, with why."
_HINT = '<a href="/today">Add something in Today</a>'
_NONE = "No run fits that."
_ABOUT = {
    Show.SILENT: "Silent: it ran, and had nothing to say.",
    Show.LATE: "Late: it came more than a minute after it was due.",
    Show.MISSED: "Missed: the bot was away, and it was too late for it.",
    Show.FAILED: "Failed: it was tried and did not work.",
}


@joined_parts
def runs_html(listed: RunList, _: int) -> Iterator[str]:
    """The panel: the receipt of the day, the filters, and a line for each run."""
    wanted, now = listed.wanted, listed.now
    yield f"<h2>Runs</h2>{_filter(listed)}"
    if listed.receipt is not None and (listed.receipt.things or wanted.day):
        yield receipt_html(listed.receipt, now, is_linked=wanted.day is None)
    yield _days(wanted.day, now)
    if wanted.show is not None:
        yield f'<p class="about">{_about(wanted.show, listed.usual)}</p>'
    if listed.runs:
        yield section("runs-all", "Newest first", things(_line(run, now) for run in listed.runs))
    elif wanted == RunFilter() and not listed.has_more:
        yield f'<p class="empty">{_EMPTY}<br>{_HINT}</p>'
    else:
        yield f'<p class="empty">{_NONE} <a href="/runs">Show all runs</a></p>'
    if listed.has_more:
        if listed.back_to is not None and not listed.runs:
            words = escape(describe(listed.back_to, now))
            yield f'<p class="about">Looked back to {words}.</p>'
        yield '<button type="button" class="plain" data-most>Show older ones</button>'


def _filter(listed: RunList) -> str:
    wanted = listed.wanted
    titles = {each.occurrence.job_id: each.title for each in reversed(listed.runs)}
    titles = {wanted.job: wanted.job} | titles if wanted.job else titles
    jobs = sorted(titles.items(), key=lambda each: each[1].lower())
    jobs = [(job, one_line(title, _LONGEST)) for job, title in jobs]
    shows = [("", "all")] + [(each.value, each.value) for each in Show]
    chosen = wanted.show.value if wanted.show else ""
    day = wanted.day.isoformat() if wanted.day else ""
    return (
        f"<form data-filter><label>Show{select('show', shows, chosen)}</label>"
        f"<label>Job{select('job', [('', 'all jobs'), *jobs], wanted.job)}</label>"
        f'<label>Day<input type="date" name="day" value="{day}"></label></form>'
    )


def _days(day: date | None, now: datetime) -> str:
    """Leads to the day before and after."""
    today, step = now.date(), timedelta(days=1)
    if day is None:
        days = [("Yesterday", today - step), ("Today", today)]
    else:
        after = day if day == date.max else day + step
        days = [("The day before", day - step), ("The day after", after)]
        days = [(words, each) for words, each in days if each <= today]
    links = " ".join(
        f'<a href="/runs?{urlencode({"day": each.isoformat()})}">{words}</a>'
        for words, each in days
    )
    return f'<p class="choices">{links}</p>'


def _about(show: Show, usual: int) -> str:
    if show is not Show.COSTLY:
        return _ABOUT[show]
    if not usual:
        return "Costly: no run of the last 30 days had a price."
    return f"Costly: at least {COSTLY} times the usual ${dollars(usual):.4f} of the last 30 days."


def _line(story: RunStory, now: datetime) -> str:
    at = moment_of(story)
    title = escape(one_line(story.title, _LONGEST))
    notes = (
        part_in_words(story.occurrence),
        "by hand" if story.occurrence.manual else "",
        _late(story),
        one_line(why(story, now), _LONGEST) or state_in_words(story),
        answer_in_words(story),
    )
    about = escape(" · ".join(filter(None, notes)))
    return (
        f'<li class="thing"><p>{time_html(at, describe(at, now))} '
        f'<a class="what" href="{escape(address_of_run(story.id))}"><bdi>{title}</bdi></a> '
        f'<bdi class="about">{about}</bdi></p></li>'
    )


@joined_parts
def run_html(page: RunPage, _: int) -> Iterator[str]:
    """The panel of one run: why, its decisions in order, its messages, and what it used."""
    story, now = page.story, page.now
    yield '<p><a class="back" href="/runs">All runs</a></p>'
    yield f'<h2><bdi class="what">{escape(one_line(story.title, _LONGEST))}</bdi></h2>'
    yield f'<p class="when">{escape(_when(story, now))}</p>'
    sentence = why(story, now) or state_in_words(story)
    yield f"<p><strong><bdi>{escape(visible(sentence))}</bdi></strong></p>"
    if page.job:
        yield f'<div class="buttons"><a href="{escape(address_of(page.job))}">Edit</a></div>'
    steps = "".join(
        '<li class="thing">'
        f"{time_html(step.at, describe(step.at.replace(microsecond=0), now, is_exact=True))} "
        f"<bdi>{escape(visible(step.what))}</bdi></li>"
        for step in decisions(story, now)
    )
    yield section("run-steps", "Step by step", f"<ol>{steps}</ol>")
    held = [f"Held for the quiet: {row.facts.get('text', '')}" for row in story.held]
    refused = [f"Not sent: {text} ({reason})" for text, reason in refused_pings(story)]
    yield _texts("Messages", "messages", [*page.said, *held, *refused])
    yield _texts("Report", "report", map(str, filter(None, [story.facts.get("report")])))
    yield _texts("Read from others", "sources", sources_of(story))
    tools = (name if times == 1 else f"{name} ×{times}" for name, times in tools_of(story).items())
    yield _texts("Tools used", "tools", tools)
    yield _texts("Cost", "cost", filter(None, [used_in_words(story)]))
    yield f'<p class="about"><bdi>{escape(visible(story.id))}</bdi> · {story.short_id}</p>'


def _when(story: RunStory, now: datetime) -> str:
    due = story.occurrence.scheduled_at
    words = (
        story.occurrence.kind.value.capitalize(),
        part_in_words(story.occurrence),
        f"due {describe(due, now)}" if due else "",
        "by hand" if story.occurrence.manual else "",
        _late(story),
        state_in_words(story),
        answer_in_words(story),
    )
    return visible(" · ".join(filter(None, words)))


def _late(story: RunStory) -> str:
    """`4 min late`; empty for a run that came in its time."""
    late = story.facts.get("lateness")
    if not is_late_story(story) or not isinstance(late, int):
        return ""
    return f"{duration_in_words(timedelta(seconds=late))} late"


def _texts(heading: str, name: str, texts: Iterable[str]) -> str:
    items = "".join(f"<li><bdi>{escape(visible(each))}</bdi></li>" for each in texts)
    return section(f"run-{name}", heading, f"<ul>{items}</ul>") if items else ""


PAGES = (
    ViewPage("runs", "Runs", runs_html, "r", is_paged=True),
    ViewPage("run", "A run", run_html, path="/runs/"),
)
