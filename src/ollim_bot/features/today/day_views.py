"""Today and the jobs: the cards of the chat, kept up to date, and the views of the page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from ollim_bot.features.tasks.task_buttons import DueTasks
from ollim_bot.features.today.day import DayView, day_of, gauge
from ollim_bot.features.today.quick_add_box import QuickAdds
from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import elapsed, midnight_after
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, PressOn, refusable
from ollim_bot.kernel.conversation.desktop_notices import ONLY_HERE, Reach
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.schedule.day_receipts import TodayReceipts
from ollim_bot.kernel.store.heartbeat import ReadHeartbeat
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.store.store import Store, Watches, changes_of
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.calendar import EVENT_TEXT, CalendarCopy
from ollim_bot.kernel.values.cards import Button, Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer, slash_command
from ollim_bot.kernel.values.costs import PAST
from ollim_bot.kernel.values.due_items import undo_button
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.job_list import (
    JobLine,
    JobList,
    JobPast,
    first_moment,
    line_of,
    past_of,
    since_when,
)
from ollim_bot.kernel.values.jobs import J, Job, Routine, list_order
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
from ollim_bot.kernel.values.run_history import RunStory
from ollim_bot.kernel.values.schedule import NextMoments, ScheduledJob, Skips, skipped_moment
from ollim_bot.kernel.values.taint import Untrusted, marked_taint
from ollim_bot.kernel.values.view_ports import ActingView
from ollim_bot.kernel.values.views import Preview, ViewAnswer

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


class Overviews:
    """Posts overviews. The newest of each kind is kept up to date until the next or midnight."""

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        poster: MessagePoster,
        clock: Clock,
        day: DaySources,
        reach: Reach | None = None,
    ) -> None:
        self._reach = reach or Reach()
        self._store = store
        self._day = day
        self._repositories = repositories
        self._poster = poster
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
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


# The records beside those of the overviews: the gauge of pings, when it is quiet, and what was
# changed by hand in the tasks, and the channels that reach the owner.
_MORE = frozenset({"budget", "held", "quiet", "config", "changes", "channels"})
_ADD, _OF_LINE = "add", ("line", "reading", "key")


class DayPanel(ActingView[DayView]):
    """The action `press` presses the button `custom_id` as on a card, with `words`.

    `press_on` is the router of buttons.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        sources: DaySources,
        clock: Clock,
        press_on: PressOn,
        lines: QuickAdds,
        heartbeat: ReadHeartbeat,
        reach: Reach,
        receipts: TodayReceipts,
    ) -> None:
        self._store = store
        self._sources = sources
        self._clock = clock
        self._press_on = press_on
        self._lines = lines
        self._repositories = repositories
        # The jobs with moments are the same object until a file of them has changed.
        self._jobs: tuple[object, object, Sequence[ScheduledJob]] = (None, None, ())
        self._moments = NextMoments()
        self._heartbeat = heartbeat
        self._reach = reach
        self._receipts = receipts

    async def look(self, _: Mapping[str, str]) -> DayView:
        return await asyncio.to_thread(self._read)

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if action == _ADD:
            return await self._lines.add(*(fields.get(each, "") for each in _OF_LINE))
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
        return await self._lines.preview(fields.get("line", "")) if action == _ADD else Preview()

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


# The ledger has a row for each change of a job; a change by the page or a command has one sooner.
_MADE_OF = ("ledger", "changes", "usage", "zone", "skips")

# How many moments before the last 30 days are looked at to find the last run.
_EARLIER = 5

# Does what a button of a job's form does.
ActOnJob = Callable[[str, str, Mapping[str, str]], Awaitable[ViewAnswer]]


class _Known(NamedTuple):
    """A job with its next `moment`; `text` has its words in small letters, and its id."""

    job: Job
    moment: datetime | None
    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """All jobs in order, and the past of those that were shown; right until `until`."""

    jobs: Sequence[_Known]
    problems: Sequence[str]
    warnings: Sequence[str]
    skips: Skips
    at: datetime
    until: datetime
    past: dict[str, JobPast] = field(default_factory=dict)

    def by_object(self, now: datetime) -> dict[int, _Known]:
        """The jobs whose next moment is the same at `now`, by the identity of the job."""
        if now.tzinfo != self.at.tzinfo or now < self.at:
            return {}
        utc = now.astimezone(UTC)
        return {
            id(each.job): each
            for each in self.jobs
            if each.moment is None or each.moment.astimezone(UTC) > utc
        }


class JobListing(ActingView[JobList]):
    """An `ActingView` of the jobs that have all `words` and the `kind` of the address.

    Of them, it reads `most`. The actions are `pause` and `resume` of the job `id`, and `add`, which
    adds what a `line` says.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        clock: Clock,
        act_on_job: ActOnJob,
        lines: QuickAdds,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock
        self._act_on_job = act_on_job
        self._lines = lines
        self._watches = ExitStack()
        self._has_changed = self._watches.enter_context(store.changes(*_MADE_OF))
        self._one_at_a_time = asyncio.Lock()
        self._kept: _Kept | None = None

    async def look(self, asked: Mapping[str, str]) -> JobList:
        async with self._one_at_a_time:
            now, kept = self._clock.now(), self._kept
            is_old = kept is None or now.astimezone(UTC) >= kept.until
            if kept is None or is_old or self._has_changed.is_set():
                self._has_changed.clear()
                kept = self._kept = await asyncio.to_thread(self._read, now)
            return await asyncio.to_thread(self._list, kept, asked, now)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        if action == _ADD:
            answer = await self._lines.add(*(fields.get(each, "") for each in _OF_LINE))
        elif action in ("pause", "resume"):
            answer = await self._act_on_job(surface, action, {"id": fields.get("id", "")})
        else:
            return ViewAnswer("There is no such button here.", is_error=True)
        self._has_changed.set()
        return answer

    async def preview(self, action: str, fields: Mapping[str, str]) -> Preview:
        return await self._lines.preview(fields.get("line", "")) if action == _ADD else Preview()

    def _read(self, now: datetime) -> _Kept:
        reports = [each.report() for each in self._repositories.by_kind.values()]
        jobs: list[Job] = [stored.item for each in reports for stored in each.jobs]
        before = {} if self._kept is None else self._kept.by_object(now)
        same, known = Counter(job.spec.id for job in jobs), list[_Known]()
        for job in jobs:
            name, words = job.spec.id, job.spec.words
            key = name if same[name] == 1 else f"{job.kind}:{name}"
            one = before.get(id(job)) or _Known(
                job, first_moment(job, now), f"{words} {name}".casefold()
            )
            known.append(one._replace(key=key))
        named = sorted(known, key=lambda each: list_order(each.job, each.moment))
        utc, midnight = now.astimezone(UTC), midnight_after(now).astimezone(UTC)
        coming = (each.moment.astimezone(UTC) for each in known if each.moment is not None)
        until = min((each for each in coming if each > utc), default=midnight)
        problems = [problem for each in reports for problem in each.problems]
        warnings = [warning for each in reports for warning in each.warnings]
        skips = self._store.query(lambda tx: tx.skips.get())
        return _Kept(named, problems, warnings, skips, now, min(until, midnight))

    def _list(self, kept: _Kept, asked: Mapping[str, str], now: datetime) -> JobList:
        words, wanted = asked.get("words", ""), asked.get("kind", "")
        kind = JobKind(wanted) if wanted in [*JobKind] else None
        most = int(asked["most"]) if asked.get("most", "").isdecimal() else 100
        terms = words.casefold().split()
        fitting = [each for each in kept.jobs if all(term in each.text for term in terms)]
        found = [each for each in fitting if kind in (None, each.job.kind)]
        shown = found[:most]
        unread = [each for each in shown if each.key not in kept.past]
        if unread:
            read = self._store.query(lambda tx: {k.key: _past(tx, k.job, now) for k in unread})
            kept.past.update(read)
        return JobList(
            now,
            [_line(each, kept, now) for each in shown],
            len(found),
            len(kept.jobs),
            words,
            kind,
            kept.problems,
            Counter(each.job.kind for each in fitting),
            kept.warnings,
        )


def _line(known: _Known, kept: _Kept, now: datetime) -> JobLine:
    job, is_skipped = known.job, False
    if isinstance(job, Routine) and job.spec.enabled:
        is_skipped = skipped_moment(job, kept.skips, now) is not None
    return line_of(job, known.key, now, kept.past[known.key], is_skipped=is_skipped)


def _past(tx: Transaction, job: Job, now: datetime) -> JobPast:
    kind, job_id = job.kind, job.spec.id
    stories: list[RunStory] = tx.ledger.stories_since(kind, job_id, since_when(now))
    if not stories and kind.has_moments:
        earlier = islice(tx.ledger.moments_of(kind, job_id), _EARLIER)
        stories = [tx.ledger.story(each) for each in earlier]
    spent = [] if job.is_plain else tx.usage.of_job(kind, job_id, now - PAST)
    return past_of(job, stories, spent, now)
