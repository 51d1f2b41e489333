"""The day for the page: read anew at each look, with buttons that act as those of cards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ollim_bot.conversation import texts
from ollim_bot.conversation.desktop import ONLY_HERE, Reach
from ollim_bot.conversation.jobs.overviews import MADE_OF, DaySources
from ollim_bot.conversation.quick_add import QuickAdds
from ollim_bot.conversation.runs import ReadHeartbeat
from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.day import DayView, day_of, gauge
from ollim_bot.domain.due_items import undo_button
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.jobs import Reminder, Routine, StoredJob
from ollim_bot.domain.next_moments import NextMoments
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.views import Preview, ViewAnswer
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.store.day_receipts import TodayReceipts
from ollim_bot.store.steps import quiet_settings
from ollim_bot.store.store import Store, changes_of
from ollim_bot.store.transaction import Transaction

# The records beside those of the overviews: the gauge of pings, when it is quiet, and what was
# changed by hand in the tasks, and the channels that reach the owner.
_MORE = frozenset({"budget", "held", "quiet", "config", "changes", "channels"})
_ADD, _OF_LINE = "add", ("line", "reading", "key")

# Presses the button with that id on a card that is no message of the log.
PressOn = Callable[[str, ChatMessage, str, str], Awaitable[CommandAnswer]]


class _Read(NamedTuple):
    reminders: Sequence[StoredJob[Reminder]] = ()
    routines: Sequence[StoredJob[Routine]] = ()
    jobs: Sequence[ScheduledJob] = ()


class _JobFiles:
    """The jobs with moments; they are the same object until a file of them has changed."""

    def __init__(self, repositories: JobRepositories) -> None:
        self._repositories = repositories
        self._last = _Read()

    def look(self) -> Sequence[ScheduledJob]:
        """The jobs as their files are now. Raises `StorageError`."""
        reminders, routines = self._repositories.reminders.all(), self._repositories.routines.all()
        last = self._last
        if last.reminders is not reminders or last.routines is not routines:
            jobs: list[ScheduledJob] = [each.item for each in reminders]
            jobs += [each.item for each in routines]
            last = self._last = _Read(reminders, routines, jobs)
        return last.jobs


class DayPanel:
    """A `DayService`. `press_on` is the router of buttons."""

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
        self._job_files = _JobFiles(repositories)
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
        jobs = self._job_files.look()

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
