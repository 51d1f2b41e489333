"""The day as markup for the page. Every text in it is data: it is escaped and set apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from html import escape

from ollim_bot.features.runs.runs_view import receipt_html
from ollim_bot.features.today.day import DayLine, DayView, PingGauge, free_stretches
from ollim_bot.kernel.base.moments import clock_time, duration_in_words, elapsed
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.due_items import BREAK_DOWN, LET_GO, SNOOZE
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    about,
    fold,
    joined_parts,
    list_section,
    marked,
    section,
    show_more,
    things,
    time_html,
)

_LISTS = ("overdue", "later", "events", "all_day", "tasks", "put_off", "done")
# So many minutes before the next thing its bar is still full; that of a timer is at its start.
BAR_MINUTES = 60
# The kinds of lines that begin with a time; of an event, the note has it.
_TIMED = ("job", "quiet")
# The line that adds something; the page says beneath it what it would add.
_ADD = (
    '<form class="quick-add" data-action="add" data-previews="1" data-once="1">'
    '<label>Add something<input name="line" maxlength="400" autocomplete="off" '
    'enterkeyhint="done" placeholder="call mum tomorrow 9am, or + milk" required></label>'
    "<button>Add</button>"
    '<div class="preview" aria-live="polite"></div>'
    '<p class="problem" role="alert"></p></form>'
)
_EMPTY = "Nothing waits for you, and nothing more comes today."
_HINT = "Tell me what to remind you of, and when: it stands here until it is done."


@joined_parts
def day_html(whole: DayView, most: int) -> Iterator[str]:
    """The panel: overdue, the next thing, the rest of the day, tasks, pings, and what is done.

    Of each list it has `most` lines at most, and a button that asks for more.
    """
    lists = {name: getattr(whole, name) for name in _LISTS}
    day = replace(whole, **{name: each[:most] for name, each in lists.items()})
    yield _ADD
    yield f"<h2>Today {time_html(day.now, day.title)}</h2>"
    if day.is_empty:
        yield f'<p class="empty">{_EMPTY}<br>{_HINT}</p>'
    yield _section("Overdue", "overdue", day.overdue)
    if day.next is not None:
        yield _next(day.next, day.now)
    yield _rest(day)
    yield _section("Tasks", "tasks", day.tasks)
    yield _section("Put off", "put-off", day.put_off)
    yield _pings(day.pings)
    yield from (f'<p class="remark">{escape(note)}</p>' for note in day.notes)
    if day.reach:
        link = '<a class="back" href="/settings">Pair your phone</a>'
        yield f'<p class="remark">{marked(day.reach)} {link}</p>'
    if day.done:
        yield fold("done", f"Done · {len(whole.done)}", things(map(_line, day.done)))
    if day.receipt is not None and day.receipt.things:
        yield receipt_html(day.receipt, day.now)
    yield show_more(sum(max(0, len(each) - most) for each in lists.values()))


def _section(heading: str, name: str, lines: Iterable[DayLine]) -> str:
    return list_section(f"day-{name}", heading, [*map(_line, lines)], name)


def _line(line: DayLine, kind: str = "") -> str:
    when = f"{time_html(line.at, _clock(line.at))} " if kind in _TIMED and line.at else ""
    state = "is-skipped" if line.is_skipped else ""
    kinds = " ".join(filter(None, ("thing", kind, state)))
    return (
        f'<li class="{kinds}"><p>{when}<bdi class="what">{escape(line.title)}</bdi>'
        f"{about(line.note)}</p>{_buttons(line)}</li>"
    )


def _next(line: DayLine, now: datetime) -> str:
    at = line.at or now
    minute = timedelta(minutes=1)
    whole = BAR_MINUTES if line.since is None else elapsed(line.since, at) // minute
    # Rounded up, as the page counts on.
    left = max(-(-elapsed(now, at) // minute), 0)
    in_words = f"in {duration_in_words(left * minute)}" if left else "now"
    return (
        '<section class="thing next" aria-labelledby="day-next"><h3 id="day-next">Next</h3>'
        f'<p><bdi class="what">{escape(line.title)}</bdi></p>'
        f'<p class="when">{time_html(at, _clock(at))} · <span data-left>{in_words}</span>'
        f"{about(line.note)}</p>"
        f'<progress max="{max(whole, 1)}" value="{min(left, whole)}" aria-label="Minutes left" '
        f'data-at="{escape(at.isoformat())}"></progress>{_buttons(line)}</section>'
    )


def _rest(day: DayView) -> str:
    """The rest of the day in the order of time, with a line for now."""
    following = () if day.next is None else (day.next,)
    firm = [*day.events, *day.quiet, *(each for each in day.later if not each.is_skipped)]
    gaps = free_stretches([*firm, *following], day.now)
    kinds: tuple[tuple[str, Iterable[DayLine]], ...] = (
        ("event", day.events),
        ("quiet", day.quiet),
        ("gap", gaps),
        ("job", (*day.later, *following)),
    )
    found = [(each.at or day.now, kind, each) for kind, lines in kinds for each in lines]
    if not found and not day.all_day:
        return ""
    found.sort(key=lambda one: (one[0], one[1] == "gap"))
    mark = time_html(day.now, _clock(day.now)).replace(">", " data-now>", 1)
    lines = [_line(each, "event") for each in day.all_day]
    # What is already on stands above the line of now.
    lines += [_line(each, kind) for at, kind, each in found if at < day.now]
    lines.append(f'<li class="now"><span>Now</span> {mark}</li>')
    for at, kind, each in found:
        if at >= day.now:
            # The buttons of the next thing are above.
            shown = DayLine(each.title, each.at, each.until) if each is day.next else each
            lines.append(_line(shown, kind))
    return section("day-rest", "The rest of today", f"<ol>{''.join(lines)}</ol>", "rest")


def _pings(pings: PingGauge) -> str:
    if not pings.capacity:
        return ""
    words = [f"{pings.left} of {pings.capacity} pings left"]
    words += [f"one more at {_clock(pings.next_at)}"] if pings.next_at else []
    held = "1 message is" if pings.held == 1 else f"{pings.held} messages are"
    words += [f"{held} held until the quiet ends"] if pings.held else []
    return (
        f'<figure class="pings"><figcaption>{" · ".join(words)}</figcaption>'
        f'<progress max="{pings.capacity}" value="{pings.left}" aria-hidden="true"></progress>'
        "</figure>"
    )


def _buttons(line: DayLine) -> str:
    """The buttons that settle it and the first that puts it off; the others are folded."""
    if not line.buttons and not line.job:
        return ""
    snoozes = [each for each in line.buttons if each.action == SNOOZE]
    rare = (LET_GO, BREAK_DOWN) if snoozes else ()
    folded = [each for each in line.buttons if each in snoozes[1:] or each.action in rare]
    shown = "".join(_button(each, line) for each in line.buttons if each not in folded)
    more = "".join(_button(each, line) for each in folded)
    if folded:
        key, name = escape(f"more {folded[0].custom_id}"), escape(f"More for {line.title}")
        more = (
            f'<details class="more" data-fold="{key}"><summary aria-label="{name}">More</summary>'
            f'<div class="buttons">{more}</div></details>'
        )
    edit = ""
    if line.job:
        name = escape(f"Edit: {line.title}")
        edit = f'<a href="{escape(address_of(line.job))}" aria-label="{name}">Edit</a>'
    return f'<div class="buttons">{shown}{edit}{more}</div>'


def _button(button: Button, line: DayLine) -> str:
    key, label = escape(button.custom_id), escape(button.label)
    name = escape(f"{button.label}: {line.title}")
    if button.asks:
        return (
            f'<form data-action="press" data-field-custom_id="{key}"><label>{escape(button.asks)}'
            f'<input name="words" autocomplete="off" required></label>'
            f'<button aria-label="{escape(f"Set: {line.title}")}">Set</button>'
            '<p class="problem" role="alert"></p></form>'
        )
    return (
        f'<button type="button" class="{button.style.value}" data-action="press" '
        f'data-field-custom_id="{key}" '
        f'aria-label="{name}">{label}</button>'
    )


def _clock(moment: datetime) -> str:
    return clock_time(moment.replace(second=0, microsecond=0))


PAGES = (ViewPage("today", "Today", day_html, "t", "today.css", is_in_bar=True),)
