"""All jobs as markup for the page. Every text in it is data: it is escaped and set apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape

from ollim_bot.domain.job_form import address_of, dated
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.job_list import DAYS, DayState, JobLine, JobList, JobPast
from ollim_bot.domain.moments import describe
from ollim_bot.domain.text import counted, shortened, visible

_EMPTY = "There are no jobs yet. All that comes again, reminds you or is called will stand here."
_HINT = "Write one line above, such as <code>stretch every weekday at 11</code>."
_NONE_FITS = 'No job fits. <a href="/jobs">Show all jobs</a>'
_ADD = (
    '<form class="quick-add" data-action="add" data-previews="1" data-once="1">'
    '<label>Add a job<input name="line" maxlength="400" autocomplete="off" '
    'enterkeyhint="done" placeholder="stretch every weekday at 11" required></label>'
    "<button>Add</button>"
    '<div class="preview" aria-live="polite"></div>'
    '<p class="problem" role="alert"></p></form>'
)
_LONGEST = 300
_MOST_PROBLEMS = 5
# A day of the strip is so wide and high; the height of its bar tells its state beside its colour.
_STEP, _WIDTH, _HEIGHT = 10, 8, 20
_HEIGHTS = {
    DayState.ON_TIME: 20,
    DayState.LATE: 14,
    DayState.SKIPPED: 8,
    DayState.WAITING: 5,
    DayState.NOTHING: 2,
    DayState.MISSED: 20,
    DayState.FAILED: 20,
}


def jobs_html(listed: JobList, _: int) -> str:
    """The panel: a line that adds a job, a filter, and a line for each job that was read."""
    return "".join(_parts(listed))


def _parts(listed: JobList) -> Iterator[str]:
    yield "<h2>Jobs</h2>"
    yield _ADD
    if listed.all:
        yield _filter(listed)
    yield _sentences("These files are wrong, and do not run", listed.problems)
    yield _sentences("Not all in these files counts", listed.warnings)
    if not listed.lines:
        words = _NONE_FITS if listed.all else f"{_EMPTY}<br>{_HINT}"
        yield f'<p class="empty">{words}</p>'
        return
    lines = "".join(_line(each, listed.now) for each in listed.lines)
    total = counted(listed.found, "job")
    yield (
        f'<section aria-labelledby="jobs-all"><h3 id="jobs-all">{total}</h3>'
        f'<ul class="things jobs">{lines}</ul></section>'
    )
    left = listed.found - len(listed.lines)
    if left > 0:
        yield f'<button type="button" class="plain" data-most>Show more · {left} left</button>'


def _filter(listed: JobList) -> str:
    kinds = "".join(
        f'<option value="{kind}"{" selected" if listed.kind is kind else ""}>'
        f"{kind.plural.capitalize()} · {listed.counts.get(kind, 0)}</option>"
        for kind in JobKind
    )
    every = sum(listed.counts.values())
    return (
        '<form data-filter><label>Find<input name="words" maxlength="200" '
        f'autocomplete="off" value="{escape(listed.words)}"></label>'
        f'<label>Kind<select name="kind"><option value="">All · {every}</option>{kinds}</select>'
        "</label></form>"
    )


def _sentences(heading: str, found: Sequence[str]) -> str:
    if not found:
        return ""
    shown = "".join(
        f"<li><bdi>{escape(visible(shortened(each, _LONGEST)))}</bdi></li>"
        for each in found[:_MOST_PROBLEMS]
    )
    more = len(found) - _MOST_PROBLEMS
    rest = f"<li>and {more} more: <code>ollim-bot doctor</code> names them</li>" if more > 0 else ""
    return f'<section class="wrong"><h3>{heading}</h3><ul>{shown}{rest}</ul></section>'


def _line(line: JobLine, now: datetime) -> str:
    title = escape(visible(line.title))
    action, label = ("pause", "Pause") if line.is_enabled else ("resume", "Resume")
    state = "" if line.is_enabled else " is-paused"
    return (
        f'<li class="thing job{state}"><p><a class="what" href="{escape(address_of(line.key))}">'
        f"<bdi>{title}</bdi></a></p>"
        f'<p class="when">{escape(_when(line, now))}</p>{_strip(line.past)}'
        f'<p class="about"><bdi>{escape(visible(_about(line, now)))}</bdi></p>'
        f'<div class="buttons"><button type="button" data-action="{action}" '
        f'data-field-id="{escape(line.key)}" aria-label="{label}: {title}">{label}</button></div>'
        "</li>"
    )


def _when(line: JobLine, now: datetime) -> str:
    """`Routine · On · at 9:00 on Monday · next Mon 2 Mar, 9:00, then …`."""
    kind = line.kind.capitalize()
    if not line.is_enabled:
        return " · ".join(filter(None, (kind, "Paused", _lower(line.rhythm))))
    if line.is_overdue:
        return f"{kind} · On · overdue since {dated(line.next[0], now)}"
    if line.kind is JobKind.REMINDER:
        return f"{kind} · On · {line.rhythm}"
    if not line.kind.has_moments:
        return f"{kind} · On · runs when it is called"
    coming = ", then ".join(dated(each, now) for each in line.next)
    skipped = " · the next time is skipped" if line.is_skipped else ""
    then = f"next {coming}{skipped}" if coming else f"it {line.standstill}"
    return f"{kind} · On · {_lower(line.rhythm)} · {then}"


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _strip(past: JobPast) -> str:
    """A bar for each day, and the same in words; one path has the bars of a state."""
    if not past.days:
        return ""
    bars: dict[DayState, str] = {}
    for place, each in enumerate(past.days):
        bar = f"M{place * _STEP + 1} {_HEIGHT}h{_WIDTH}v-{_HEIGHTS[each.state]}h-{_WIDTH}z"
        bars[each.state] = bars.get(each.state, "") + bar
    paths = "".join(
        f'<path class="{state.replace(" ", "-")}" d="{bar}"/>' for state, bar in bars.items()
    )
    words = escape(visible(shortened(past.sentence, _LONGEST)))
    return (
        f'<figure class="past"><svg viewBox="0 0 {DAYS * _STEP} {_HEIGHT}" aria-hidden="true" '
        f'class="days">{paths}</svg>'
        f"<figcaption>{DAYS} days: <bdi>{words}</bdi></figcaption></figure>"
    )


def _about(line: JobLine, now: datetime) -> str:
    past = line.past
    if past.cost is not None:
        cost = f"usually {past.cost.in_words(4)} a run"
    else:
        cost = "has cost nothing yet" if line.asks_model else "free, no model is asked"
    if past.last is None:
        return (
            f"{cost} · has not come yet" if line.kind.has_moments else f"{cost} · not called lately"
        )
    at = past.last.at.astimezone(now.tzinfo).replace(second=0, microsecond=0)
    words = shortened(past.last.words, _LONGEST)
    return f"{cost} · last run {describe(at, now)}: {words}"
