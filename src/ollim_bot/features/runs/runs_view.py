"""Runs, receipt, money and changes as markup for the page. Every text in it is data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from html import escape
from urllib.parse import urlencode

from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, describe
from ollim_bot.kernel.base.text import counted, one_line, shortened, visible
from ollim_bot.kernel.values.answers import state_words
from ollim_bot.kernel.values.changes import (
    ANSWER,
    CHANGERS,
    SETTING,
    ChangeFilter,
    ChangeLine,
    ChangeList,
    ChangeRow,
)
from ollim_bot.kernel.values.costs import CONVERSATION, CostLine, CostReport, job_name
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.receipts import (
    COSTLY,
    DueThing,
    Receipt,
    RunFilter,
    RunList,
    RunPage,
    Show,
    late_in_words,
)
from ollim_bot.kernel.values.run_history import RunStory, part_in_words
from ollim_bot.kernel.values.run_words import (
    address_of_run,
    answer_in_words,
    decisions,
    moment_of,
    refused_pings,
    sources_of,
    state_in_words,
    tools_of,
    used_in_words,
    why,
)
from ollim_bot.kernel.values.usage import dollars
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    fold,
    joined_parts,
    list_section,
    marked,
    section,
    select,
    show_more,
    things,
    time_html,
)

_RECEIPT_LONGEST = 120
_MOST = 20


def receipt_html(receipt: Receipt, now: datetime, *, is_linked: bool = True) -> str:
    """The numbers, what did not simply come with its reason, and whether all is accounted for."""
    lines = [_receipt_line(each, now) for each in receipt.notable[:_MOST]]
    left = len(receipt.notable) - _MOST
    day = f"/runs?day={receipt.day.isoformat()}"
    more = f'<p><a href="{day}">{left} more</a></p>' if left > 0 else ""
    link = f' <a href="{day}">The runs of the day</a>' if is_linked else ""
    return (
        '<section class="receipt"><h3>Receipt of the day</h3>'
        f"<p>{escape(receipt.sentence(now))}</p>{things(lines) if lines else ''}{more}"
        f'<p class="about">{marked(receipt.checked)}{link}</p></section>'
    )


def _receipt_line(thing: DueThing, now: datetime) -> str:
    title = one_line(thing.title, _RECEIPT_LONGEST)
    reason = one_line(thing.why(now), _RECEIPT_LONGEST)
    about = f"{thing.word}: {reason}" if reason else thing.word
    link = ""
    if thing.story is not None:
        name, href = escape(f"Why? {title}"), escape(address_of_run(thing.occurrence.id))
        link = f'<div class="buttons"><a href="{href}" aria-label="{name}">Why?</a></div>'
    return (
        f'<li class="thing"><p>{time_html(thing.due, describe(thing.due, now))} '
        f'<bdi class="what">{escape(title)}</bdi> '
        f'<bdi class="about">{escape(about)}</bdi></p>{link}</li>'
    )


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
        late_in_words(story),
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
        late_in_words(story),
        state_in_words(story),
        answer_in_words(story),
    )
    return visible(" · ".join(filter(None, words)))


def _texts(heading: str, name: str, texts: Iterable[str]) -> str:
    items = "".join(f"<li><bdi>{escape(visible(each))}</bdi></li>" for each in texts)
    return section(f"run-{name}", heading, f"<ul>{items}</ul>") if items else ""


_SPANS = (("", "this month"), ("7d", "7 days"), ("30d", "30 days"), ("365d", "a year"))
_WIDTH, _HEIGHT = 600, 120
# Fewer days leave room at the end of the chart.
_FEWEST_BARS = 14
_MONEY_EMPTY = "Nothing has been used yet. What each answer and each job costs will stand here."
_MONEY_HINT = "Say something in Chat, or set a limit: <code>/config daily_cost_cap 2</code>."


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
        yield f'<p class="empty">{_MONEY_EMPTY}<br>{_MONEY_HINT}</p>'
        return
    yield _money_days(report.by_day)
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


def _money_days(days: Sequence[CostLine]) -> str:
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


_CHANGES_EMPTY = (
    "Nothing was changed yet. What you, the bot or an editor change from now on stands here, with "
    'a way back. Begin with a setting: <a href="/settings">Settings</a>.'
)
_NOTHING_FITS = 'No change fits. <a href="/changes">Show all</a>'
_LONGEST_LINE = 300
_FIRST_LINES = 6


@joined_parts
def changes_html(listed: ChangeList, _: int) -> Iterator[str]:
    """The changes, each with Undo or the reason why not, and the older history below them."""
    yield "<h2>Changes</h2>"
    meant, changers = listed.meant, [("", "anyone"), *zip(CHANGERS, CHANGERS, strict=True)]
    yield (
        f'<form data-filter="1"><label>Who{select("who", changers, meant.who)}</label>'
        f'<label>Find<input name="words" value="{escape(meant.words)}" autocomplete="off">'
        "</label></form>"
    )
    if not listed.lines and not listed.older:
        yield f'<p class="empty">{_CHANGES_EMPTY if meant == ChangeFilter() else _NOTHING_FITS}</p>'
    if listed.lines:
        yield things(_changes_line(each, listed.now) for each in listed.lines)
    older = [
        f'<li class="thing"><p>{time_html(at, describe(at, listed.now))} '
        f'<bdi class="what">{_short(what)}</bdi></p></li>'
        for at, what in listed.older
    ]
    yield list_section("changes-older", "Older, from the history in git", older)
    if listed.has_more:
        yield '<button type="button" class="plain" data-most>Show more</button>'


def _changes_line(line: ChangeLine, now: datetime) -> str:
    change = line.change
    notes = [change.key]
    notes += [f"undoes {change.undoes}"] if change.undoes else []
    notes += ["undone"] if line.is_undone else []
    notes += [f"with words of others: {change.untrusted}"] if change.untrusted else []
    # Who made the change, and in which turn or run; a run leads to its own page.
    cause = f"<bdi>{_short(change.cause)}</bdi>"
    with suppress(ValueError):
        run = Occurrence.parse(change.cause).id
        cause = f'<a href="{escape(address_of_run(run))}">{cause}</a>'
    by = f"{change.by}, {cause}" if change.cause else change.by
    return (
        f'<li class="thing"><p>{time_html(change.at, describe(change.at, now))} {_did(change)} '
        f'<bdi class="what">{_short(change.what)}</bdi> <span class="about">by {by}'
        f"{''.join(f' · <bdi>{_short(note)}</bdi>' for note in notes)}</span>"
        f"</p>{_difference(line, now)}{_undo(line)}</li>"
    )


def _did(change: ChangeRow) -> str:
    return "answered" if change.kind == ANSWER else change.did


def _difference(line: ChangeLine, now: datetime) -> str:
    change = line.change
    if change.kind in (ANSWER, SETTING):
        before, after = str(change.before), str(change.after)
        if change.kind == ANSWER:
            before, after = state_words(change.before, now), state_words(change.after, now)
        return (
            f"<p>was <del><bdi>{_short(before)}</bdi></del>, "
            f"is <ins><bdi>{_short(after)}</bdi></ins></p>"
        )
    if not line.difference:
        command = f"<code>ollim-bot changes {escape(change.key)}</code>"
        return "" if change.is_cut else f'<p class="about">{command} shows it whole.</p>'
    first, rest = line.difference[:_FIRST_LINES], line.difference[_FIRST_LINES:]
    shown = f'<ul class="difference">{"".join(map(_changed, first))}</ul>'
    if not rest:
        return shown
    more = f'<ul class="difference">{"".join(map(_changed, rest))}</ul>'
    return shown + fold(escape(change.key), counted(len(rest), "more line"), more)


def _changed(line: str) -> str:
    tag, word = ("ins", "added") if line.startswith("+") else ("del", "removed")
    return f"<li><span>{word}</span> <{tag}><bdi>{_short(line[1:])}</bdi></{tag}></li>"


def _undo(line: ChangeLine) -> str:
    if line.is_undone:
        return ""
    if line.refusal:
        edit = f' <a href="{escape(line.edit)}">Edit</a>' if line.edit else ""
        return f'<p class="about">Undo is not possible: <bdi>{escape(line.refusal)}</bdi>{edit}</p>'
    change = line.change
    name = escape(f"Undo: {_did(change)} {shortened(change.what, _LONGEST_LINE)}, {change.key}")
    return (
        '<div class="buttons"><button type="button" data-action="undo" '
        f'data-field-id="{escape(change.key)}" aria-label="{name}">Undo</button></div>'
    )


def _short(text: str) -> str:
    return escape(shortened(text, _LONGEST_LINE))


PAGES = (
    ViewPage("runs", "Runs", runs_html, "r", is_paged=True),
    ViewPage("run", "A run", run_html, path="/runs/"),
    ViewPage("money", "Money", money_html, "m", "money.css"),
    ViewPage("changes", "Changes", changes_html, "v", "changes.css", is_paged=True),
)
