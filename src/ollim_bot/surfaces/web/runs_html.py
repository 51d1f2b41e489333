"""Runs as markup for the page. Every text in it is data: it is escaped and set apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from html import escape
from urllib.parse import urlencode

from ollim_bot.domain.job_form import address_of
from ollim_bot.domain.moments import describe
from ollim_bot.domain.run_history import RunStory, part_in_words
from ollim_bot.domain.run_list import COSTLY, RunList, RunPage, Show, late_in_words
from ollim_bot.domain.run_pages import address_of_run, moment_of, refused_pings
from ollim_bot.domain.run_words import (
    answer_in_words,
    decisions,
    sources_of,
    state_in_words,
    tools_of,
    used_in_words,
    why,
)
from ollim_bot.domain.text import one_line, visible
from ollim_bot.domain.usage import dollars
from ollim_bot.surfaces.web.receipt_html import receipt_html

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


def runs_html(listed: RunList, _: int) -> str:
    """The panel: the receipt of the day, the filters, and a line for each run."""
    return "".join(_list(listed))


def run_html(page: RunPage, _: int) -> str:
    """The panel of one run: why, its decisions in order, its messages, and what it used."""
    return "".join(_page(page))


def _list(listed: RunList) -> Iterator[str]:
    wanted, now = listed.wanted, listed.now
    yield "<h2>Runs</h2>"
    yield _filter(listed)
    if listed.receipt is not None and (listed.receipt.things or wanted.day):
        yield receipt_html(listed.receipt, now, is_linked=wanted.day is None)
    yield _days(wanted.day, now)
    if wanted.show is not None:
        yield f'<p class="about">{_about(wanted.show, listed.usual)}</p>'
    lines = "".join(_line(each, now) for each in listed.runs)
    if lines:
        yield (
            '<section aria-labelledby="runs-all"><h3 id="runs-all">Newest first</h3>'
            f'<ul class="things">{lines}</ul></section>'
        )
    elif wanted.show is None and not wanted.job and wanted.day is None and not listed.has_more:
        yield f'<p class="empty">{_EMPTY}<br>{_HINT}</p>'
    else:
        yield f'<p class="empty">{_NONE} <a href="/runs">Show all runs</a></p>'
    if listed.has_more:
        yield _more(listed)


def _filter(listed: RunList) -> str:
    wanted = listed.wanted
    shows = [("", "all")] + [(each.value, each.value) for each in Show]
    chosen = wanted.show.value if wanted.show else ""
    titles = {each.occurrence.job_id: each.title for each in reversed(listed.runs)}
    titles = {wanted.job: wanted.job} | titles if wanted.job else titles
    jobs = [("", "all jobs"), *sorted(titles.items(), key=lambda each: each[1].lower())]
    day = wanted.day.isoformat() if wanted.day else ""
    return (
        f'<form data-filter><label>Show<select name="show">{_options(shows, chosen)}</select>'
        f'</label><label>Job<select name="job">{_options(jobs, wanted.job)}</select></label>'
        f'<label>Day<input type="date" name="day" value="{day}"></label></form>'
    )


def _options(options: Iterable[tuple[str, str]], chosen: str) -> str:
    return "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>'
        f"{escape(one_line(label, _LONGEST))}</option>"
        for value, label in options
    )


def _days(day: date | None, now: datetime) -> str:
    """Leads to the day before and after."""
    today = now.date()
    if day is None:
        days = [("Yesterday", today - timedelta(days=1)), ("Today", today)]
    else:
        days = [("The day before", day - timedelta(days=1)), ("The day after", _after(day))]
        days = [(words, each) for words, each in days if each <= today]
    links = " ".join(
        f'<a href="/runs?{urlencode({"day": each.isoformat()})}">{words}</a>'
        for words, each in days
    )
    return f'<p class="choices">{links}</p>'


def _after(day: date) -> date:
    return day if day == date.max else day + timedelta(days=1)


def _about(show: Show, usual: int) -> str:
    if show is not Show.COSTLY:
        return _ABOUT[show]
    if not usual:
        return "Costly: no run of the last 30 days had a price."
    return f"Costly: at least {COSTLY} times the usual ${dollars(usual):.4f} of the last 30 days."


def _more(listed: RunList) -> str:
    back = ""
    if listed.back_to is not None and not listed.runs:
        words = describe(_minute(listed.back_to, listed.now), listed.now)
        back = f'<p class="about">Looked back to {escape(words)}.</p>'
    return f'{back}<button type="button" class="plain" data-most>Show older ones</button>'


def _line(story: RunStory, now: datetime) -> str:
    at = moment_of(story)
    title = escape(one_line(story.title, _LONGEST))
    notes = (
        part_in_words(story.occurrence),
        "by hand" if story.occurrence.manual else "",
        late_in_words(story),
        one_line(why(story, now), _LONGEST) or state_in_words(story),
        answer_in_words(story),
    )
    about = escape(" · ".join(filter(None, notes)))
    return (
        f'<li class="thing"><p><time datetime="{escape(at.isoformat())}">'
        f"{escape(describe(_minute(at, now), now))}</time> "
        f'<a class="what" href="{escape(address_of_run(story.id))}"><bdi>{title}</bdi></a> '
        f'<bdi class="about">{about}</bdi></p></li>'
    )


def _page(page: RunPage) -> Iterator[str]:
    story, now = page.story, page.now
    yield '<p><a class="back" href="/runs">All runs</a></p>'
    yield f'<h2><bdi class="what">{escape(one_line(story.title, _LONGEST))}</bdi></h2>'
    yield f'<p class="when">{escape(_when(story, now))}</p>'
    sentence = why(story, now) or state_in_words(story)
    yield f"<p><strong><bdi>{escape(visible(sentence))}</bdi></strong></p>"
    if page.job:
        yield f'<div class="buttons"><a href="{escape(address_of(page.job))}">Edit</a></div>'
    steps = "".join(
        f'<li class="thing"><time datetime="{escape(each.at.isoformat())}">'
        f"{escape(describe(each.at.replace(microsecond=0), now, is_exact=True))}</time> "
        f"<bdi>{escape(visible(each.what))}</bdi></li>"
        for each in decisions(story, now)
    )
    yield (
        '<section aria-labelledby="run-steps"><h3 id="run-steps">Step by step</h3>'
        f"<ol>{steps}</ol></section>"
    )
    yield _texts("Messages", "messages", [*_messages(page)])
    report = str(story.facts.get("report") or "")
    yield _texts("Report", "report", [report] if report else [])
    yield _texts("Read from others", "sources", sources_of(story))
    tools = (name if times == 1 else f"{name} ×{times}" for name, times in tools_of(story).items())
    yield _texts("Tools used", "tools", [*tools])
    used = used_in_words(story)
    yield _texts("Cost", "cost", [used] if used else [])
    yield f'<p class="about"><bdi>{escape(visible(story.id))}</bdi> · {story.short_id}</p>'


def _when(story: RunStory, now: datetime) -> str:
    due = story.occurrence.scheduled_at
    words = [story.occurrence.kind.value.capitalize(), part_in_words(story.occurrence)]
    words += [f"due {describe(_minute(due, now), now)}"] if due else []
    words += ["by hand"] if story.occurrence.manual else []
    words += [late_in_words(story), state_in_words(story), answer_in_words(story)]
    return visible(" · ".join(filter(None, words)))


def _messages(page: RunPage) -> Iterator[str]:
    yield from page.said
    yield from (f"Held for the quiet: {row.facts.get('text', '')}" for row in page.story.held)
    for text, reason in refused_pings(page.story):
        yield f"Not sent: {text} ({reason})"


def _texts(heading: str, name: str, texts: Iterable[str]) -> str:
    items = "".join(f"<li><bdi>{escape(visible(each))}</bdi></li>" for each in texts)
    if not items:
        return ""
    return (
        f'<section aria-labelledby="run-{name}"><h3 id="run-{name}">{heading}</h3>'
        f"<ul>{items}</ul></section>"
    )


def _minute(moment: datetime, now: datetime) -> datetime:
    return moment.astimezone(now.tzinfo).replace(second=0, microsecond=0)
