"""Today and the jobs as cards of the chat, kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from ollim_bot.features.tasks.task_buttons import DueTasks
from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import elapsed, midnight_after
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, refusable
from ollim_bot.kernel.conversation.desktop_notices import ONLY_HERE, Reach
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.store.store import Store, Watches
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.calendar import EVENT_TEXT, CalendarCopy
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer, slash_command
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.jobs import J, Job
from ollim_bot.kernel.values.overviews import (
    MADE_OF,
    TURN,
    Listed,
    OpenOverviews,
    ShownOverview,
    hidden_on_page,
    jobs_card,
    still_today,
    today_overview,
)
from ollim_bot.kernel.values.ports import JobRepositories, JobRepository
from ollim_bot.kernel.values.schedule import ScheduledJob, Skips
from ollim_bot.kernel.values.taint import Untrusted, marked_taint

_TODAY = "today"
_ABOUT = "an overview, with text that the owner may not have written"


class _Drawn(NamedTuple):
    """A card, and what others wrote in it; of today, the places and the other pages."""

    card: Card
    untrusted: Untrusted | None = None
    places: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class DaySources(NamedTuple):
    """What a day has besides jobs: the copies of calendars, and the tasks.

    `news` are published when an event has changed.
    """

    calendars: Callable[[], Sequence[CalendarCopy]]
    tasks: DueTasks
    news: Watches


@dataclass(eq=False)
class Overviews:
    """Posts overviews. The newest of each kind is kept up to date until the next or midnight."""

    _store: Store
    _repositories: JobRepositories
    _poster: MessagePoster
    _clock: Clock
    _day: DaySources
    _reach: Reach = field(default_factory=Reach)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._kinds: Mapping[str, Callable[[datetime], _Drawn]] = {
            _TODAY: self._today,
            "reminders": self._reminders,
            "routines": self._routines,
        }
        self.actions: Mapping[str, Action] = {TURN: refusable(self._turn)}

    @slash_command(10, "today", "What waits for you, what comes, and what is done")
    async def show_today(self, call: CommandCall) -> str:
        return await self._show(_TODAY, call)

    @slash_command(30, "reminders", "What comes once, with its moment")
    async def show_reminders(self, call: CommandCall) -> str:
        return await self._show("reminders", call)

    @slash_command(40, "routines", "What comes again and again, with its next moment")
    async def show_routines(self, call: CommandCall) -> str:
        return await self._show("routines", call)

    async def _show(self, kind: str, call: CommandCall) -> str:
        """Post an overview of this kind."""
        drawn = await asyncio.to_thread(self._kinds[kind], self._clock.now())
        if not drawn.card.lines and kind != _TODAY:
            return drawn.card.description
        note = self._poster.note(drawn.card, name=f"{kind}-{call.id}")
        note = replace(note, untrusted=drawn.untrusted)

        def step(tx: Transaction) -> None:
            self._close(tx, kind)
            self._poster.add_note(tx, note)
            tx.overviews.change(lambda open_: _with(open_, kind, note.id))
            _keep_places(tx, kind, drawn)

        await self._store.transact(step)
        return ""

    async def run(self) -> None:
        """Redraw the open overviews after each change of what they show; until cancelled."""
        with (
            self._store.changes(*MADE_OF) as has_changed,
            self._store.changes("overviews") as has_opened,
            self._day.news.watching((), has_changed),
        ):
            while True:
                has_changed.clear()
                has_opened.clear()
                if await self.refresh():
                    await self._clock.sleep(1.0)
                    now = self._clock.now()
                    seconds = min(elapsed(now, midnight_after(now)).total_seconds(), 600.0)
                    await wait_until_set(has_changed, self._clock, seconds)
                else:
                    await has_opened.wait()

    async def refresh(self) -> bool:
        """Redraw the open overviews; False if none is open."""
        # What was drawn first must not be put up last.
        async with self._one_at_a_time:
            open_ = await self._store.read(lambda tx: tx.overviews.get())
            for kind, message_id in open_.messages.items():
                drawing = partial(self._today, is_kept=True)
                draw = drawing if kind == _TODAY else self._kinds[kind]
                drawn = await asyncio.to_thread(draw, self._clock.now())
                await self._put_up(kind, MessageId(message_id), drawn)
            return bool(open_.messages)

    async def _turn(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        """Show today's overdue items after the one with the button's key."""
        async with self._one_at_a_time:
            open_ = await self._store.read(lambda tx: tx.overviews.get())
            message_id = open_.messages.get(_TODAY)
            if message_id is None:
                return CommandAnswer(texts.BUTTON_USED, is_error=True)
            drawing = partial(self._today, after=button.data)
            drawn = await asyncio.to_thread(drawing, self._clock.now())
            await self._put_up(_TODAY, MessageId(message_id), drawn)
            return CommandAnswer()

    async def _put_up(self, kind: str, message_id: MessageId, drawn: _Drawn) -> None:
        today = self._clock.now().date()

        def step(tx: Transaction) -> None:
            message = tx.messages.get(message_id)
            # While it was drawn, a newer one may have come.
            if tx.overviews.get().messages.get(kind) != message_id:
                return
            if message is None or message.at.date() != today:
                self._close(tx, kind)
            else:
                self._put(tx, message_id, drawn)
                _keep_places(tx, kind, drawn)

        await self._store.transact(step)

    def _close(self, tx: Transaction, kind: str) -> None:
        """Take the buttons from the open overview of a kind, and leave it as it is."""
        message_id = tx.overviews.get().messages.get(kind)
        message = tx.messages.get(MessageId(message_id)) if message_id else None
        if message is not None and message.card is not None:
            self._put(tx, message.id, _Drawn(message.card._replace(buttons=()), message.untrusted))
        tx.overviews.change(lambda open_: _with(open_, kind, None))

    def _put(self, tx: Transaction, message_id: MessageId, drawn: _Drawn) -> None:
        message, card = tx.messages.get(message_id), drawn.card
        if message is not None and message.card != card:
            shown = replace(message, text=card.text, card=card, untrusted=drawn.untrusted)
            self._poster.add_to_log(tx, shown)

    def _today(self, now: datetime, *, is_kept: bool = False, after: str | None = None) -> _Drawn:
        """Draw it anew, or with its lines in their places; `after` is the key before the page."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)

        def question(tx: Transaction) -> _Drawn:
            waiting, answered = tx.due_items.open(), tx.due_items.answered_since(midnight)
            tasks = tx.marks.marked(due_tasks)
            undos = tx.task_undos.get().undos
            settled = tx.marks.marked(each.task for each in undos)
            marks = [each.untrusted for each in (*waiting, *answered)]
            marks += [*(each.untrusted for each in (*tasks, *settled)), *_marks(jobs)]
            last = tx.due_items.get(after) if after else None
            draw = partial(
                today_overview,
                waiting,
                answered,
                jobs,
                tx.skips.get(),
                now,
                calendars,
                tasks,
                undos,
            )
            shown, hidden = _shown_today(tx) if is_kept else None, tx.overviews.get().hidden
            found = draw(hidden=frozenset(hidden), shown=shown)
            if shown is None or found.card.problems():
                hidden = hidden_on_page(waiting, last)
                found = draw(hidden=frozenset(hidden))
            marks += [EVENT_TEXT.source] if has_events else []
            card = found.card
            if self._reach.is_page_only(tx):
                card = card._replace(description=f"{card.description} {ONLY_HERE}".strip())
            drawn = _drawn_from(card, marks)
            return drawn._replace(places=tuple(found.places), hidden=hidden)

        calendars, due_tasks = self._day.calendars(), self._day.tasks.read()
        jobs: Sequence[ScheduledJob] = [
            *(each.item for each in self._repositories.reminders.all()),
            *(each.item for each in self._repositories.routines.all()),
        ]
        has_events = bool(still_today(calendars, now))
        return self._store.query(question)

    def _reminders(self, now: datetime) -> _Drawn:
        listed = _listed(self._repositories.reminders)
        card = jobs_card(JobKind.REMINDER, listed, self._skips(), now)
        return _drawn_from(card, _marks(listed.jobs))

    def _routines(self, now: datetime) -> _Drawn:
        listed = _listed(self._repositories.routines)
        others = {kind: self._repositories.of(kind) for kind in JobKind if not kind.has_moments}
        called: dict[JobKind, Listed[Job]] = {kind: _listed(all_) for kind, all_ in others.items()}
        calls = self._store.query(lambda tx: tx.webhook_deliveries.last_calls())
        card = jobs_card(JobKind.ROUTINE, listed, self._skips(), now, called, calls)
        shown = [*listed.jobs, *(job for each in called.values() for job in each.jobs)]
        return _drawn_from(card, _marks(shown))

    def _skips(self) -> Skips:
        return self._store.query(lambda tx: tx.skips.get())


def _shown_today(tx: Transaction) -> ShownOverview | None:
    """The open overview of today; None if no tap on it can go wrong, or its lines are unknown."""
    open_ = tx.overviews.get()
    message = tx.messages.get(MessageId(open_.messages.get(_TODAY, "")))
    card = None if message is None else message.card
    if card is None or not card.buttons or len(card.lines) != len(open_.places):
        return None
    return ShownOverview(card, open_.places)


def _keep_places(tx: Transaction, kind: str, drawn: _Drawn) -> None:
    open_ = tx.overviews.get()
    after = replace(open_, places=drawn.places, hidden=drawn.hidden)
    # Each change of the record draws the overviews.
    if kind == _TODAY and after != open_:
        tx.overviews.put(after)


def _marks(jobs: Iterable[Job]) -> Iterator[str]:
    return (each.spec.untrusted or "" for each in jobs)


def _drawn_from(card: Card, marks: Iterable[str]) -> _Drawn:
    """The card with the sources of its text; `marks` are those of its jobs, items and tasks."""
    mark = marked_taint(",".join(marks)).mark
    return _Drawn(card, Untrusted(mark, _ABOUT) if mark else None)


def _listed(repository: JobRepository[J]) -> Listed[J]:
    report = repository.report()
    return Listed([stored.item for stored in report.jobs], len(report.problems))


def _with(open_: OpenOverviews, kind: str, message_id: MessageId | None) -> OpenOverviews:
    others = {name: each for name, each in open_.messages.items() if name != kind}
    messages = others if message_id is None else {**others, kind: message_id}
    return replace(open_, messages=messages)
