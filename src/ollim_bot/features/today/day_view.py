"""Today on the page: the day as it is, what is pressed and added there, and its drawing."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from html import escape

from ollim_bot.features.today.day import DayLine, DayView, PingGauge, day_of, free_stretches, gauge
from ollim_bot.features.today.overviews import DaySources
from ollim_bot.features.today.quick_add_box import LINE_FIELDS, QuickAdds
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.moments import clock_time, duration_in_words, elapsed
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.desktop_notices import ONLY_HERE, Reach
from ollim_bot.kernel.schedule.day_receipts import TodayReceipts
from ollim_bot.kernel.store.heartbeat import ReadHeartbeat
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.due_items import BREAK_DOWN, LET_GO, SNOOZE, undo_button
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.kernel.values.overviews import MADE_OF
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.schedule import NextMoments, ScheduledJob
from ollim_bot.kernel.values.views import ActingView, Preview, ViewAnswer
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    about,
    fold,
    joined_parts,
    list_section,
    marked,
    quick_add,
    receipt_html,
    section,
    show_more,
    things,
    time_html,
)

# The records beside those of the overviews: the gauge of pings, when it is quiet, and what was
# changed by hand in the tasks, and the channels that reach the owner.
_MORE = frozenset({"budget", "held", "quiet", "config", "changes", "channels"})

# Presses the button with that id on a card that is no message of the log.
PressOn = Callable[[str, ChatMessage, str, str], Awaitable[CommandAnswer]]


@dataclass(eq=False)
class DayPanel(ActingView[DayView]):
    """The action `press` presses the button `custom_id` as on a card, with `words`.

    `press_on` is the router of buttons.
    """

    _store: Store
    _repositories: JobRepositories
    _sources: DaySources
    _clock: Clock
    _press_on: PressOn
    _lines: QuickAdds
    _heartbeat: ReadHeartbeat
    _reach: Reach
    _receipts: TodayReceipts
    # The jobs with moments are the same object until a file of them has changed.
    _jobs: tuple[object, object, Sequence[ScheduledJob]] = field(
        default=(None, None, ()), init=False
    )
    _moments: NextMoments = field(default_factory=NextMoments, init=False)

    async def look(self, _: Mapping[str, str]) -> DayView:
        return await asyncio.to_thread(self._read)

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if action == "add":
            return await self._lines.add(*(fields.get(each, "") for each in LINE_FIELDS))
        day, custom_id = await asyncio.to_thread(self._read), fields.get("custom_id", "")
        card = day.card
        if custom_id not in [each.custom_id for each in card.buttons]:
            # The Undo of an answer says itself why its time is over.
            over = undo_button(custom_id.rpartition(":")[2])
            card = Card(card.title, buttons=(over,) if over.custom_id == custom_id else ())
        if action != "press" or not card.buttons:
            return ViewAnswer(texts.BUTTON_USED, is_error=True)
        shown = ChatMessage(MessageId("today"), day.now, Author.PROGRAM, card.text, card=card)
        answer = await self._press_on(surface, shown, custom_id, fields.get("words", ""))
        return ViewAnswer(answer.text, answer.is_error, field="words")

    async def preview(self, action: str, fields: Mapping[str, str]) -> Preview:
        return await self._lines.preview(fields.get("line", "")) if action == "add" else Preview()

    async def open_items(self) -> int:
        return await self._store.read(lambda tx: len(tx.due_items.open()))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *MADE_OF, *_MORE, also=self._sources.news)

    def _read(self) -> DayView:
        # Read before the ledger, which then has everything that was claimed until this moment.
        watched_until, now = self._heartbeat(), self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        calendars, due_tasks = self._sources.calendars(), self._sources.tasks.read()
        reminders, routines = self._repositories.reminders.all(), self._repositories.routines.all()
        if self._jobs[0] is not reminders or self._jobs[1] is not routines:
            read: list[ScheduledJob] = [each.item for each in reminders]
            self._jobs = reminders, routines, [*read, *(each.item for each in routines)]
        jobs = self._jobs[2]

        def question(tx: Transaction) -> DayView:
            day = day_of(
                tx.due_items.open(),
                tx.due_items.answered_since(midnight),
                jobs,
                tx.skips.get(),
                now,
                calendars,
                tx.marks.marked(due_tasks),
                tx.task_undos.get().undos,
                quiet_settings(tx, now.tzinfo),
                gauge(tx.budget.get(), len(tx.held.get().waiting), now),
                self._receipts.read(tx, now, watched_until),
                self._moments,
            )
            return replace(day, reach=ONLY_HERE) if self._reach.is_page_only(tx) else day

        return self._store.query(question)


_LISTS = ("overdue", "later", "events", "all_day", "tasks", "put_off", "done")
# So many minutes before the next thing its bar is still full; that of a timer is at its start.
BAR_MINUTES = 60
# The kinds of lines that begin with a time; of an event, the note has it.
_TIMED = ("job", "quiet")
_EMPTY = "Nothing waits for you, and nothing more comes today."
_HINT = "Tell me what to remind you of, and when: it stands here until it is done."


@joined_parts
def day_html(whole: DayView, most: int) -> Iterator[str]:
    """The panel: overdue, the next thing, the rest of the day, tasks, pings, and what is done.

    Of each list it has `most` lines at most, and a button that asks for more.
    """
    lists = {name: getattr(whole, name) for name in _LISTS}
    day = replace(whole, **{name: each[:most] for name, each in lists.items()})
    yield quick_add("Add something", "call mum tomorrow 9am, or + milk")
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
