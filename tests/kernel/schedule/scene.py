"""The whole schedule on real files, with a manual clock and a scripted agent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from devtools.doubles.clock import ManualClock, run_ready_tasks
from devtools.doubles.immediate_store import ImmediateStore
from devtools.doubles.journal import RecordingJournal
from devtools.doubles.surface import RecordingSurface
from tests.kernel.conversation.scene import (
    STATUS,
    FakeAttachmentStore,
    InlineExecutor,
    conversation_deps,
    messages_of,
)
from tests.kernel.store.files.data_directory import DataDirectory
from tests.left_behind import at_end_of_test
from tests.patience import patience
from tests.stores import Stores

from ollim_bot.app.build import ConversationParts, build_schedule
from ollim_bot.app.surfaces import keep_running
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.conversation.conversation import Conversation
from ollim_bot.kernel.conversation.desktop_notices import Reach
from ollim_bot.kernel.schedule.ledger_records import OwnerZone
from ollim_bot.kernel.schedule.scheduler import Scheduler
from ollim_bot.kernel.store.answer_plan_rows import with_known_plan
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.database_errors import DiskFull
from ollim_bot.kernel.store.job_checker import JobFileChecker
from ollim_bot.kernel.store.opening import BALLAST_FILE, open_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.steps import holder_of_id
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.ports import AgentEngine, Channel, Disk

R = TypeVar("R")

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
_ALL = 2**40


def no_events(_: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
    """Events of a file system that reports none: changes are found by a scan."""
    stop.wait(patience())
    return iter(())


@dataclass
class ScheduleScene:
    paths: DataPaths
    talk: ConversationParts
    chat: Conversation
    stores: Stores
    clock: ManualClock
    surface: RecordingSurface
    scheduler: Scheduler
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    _rows: tuple[LedgerRow, ...] = ()
    _place: int = 0

    def write(self, name: str, head: Mapping[str, object], body: str) -> Path:
        """Write a job file, as the owner does by hand."""
        lines = [f"{key}: {value}" for key, value in head.items()]
        path = self.paths.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["---", *lines, "---", body, ""]))
        return path

    def remind(self, name: str, after: timedelta, body: str = "Drink water.", **more: Any) -> Path:
        at = (self.clock.now() + after).isoformat()
        return self.write(f"reminders/{name}.md", {"id": name, "run-at": f'"{at}"', **more}, body)

    def routine(self, name: str, cron: str, body: str = "Plan the day.", **more: Any) -> Path:
        return self.write(f"routines/{name}.md", {"id": name, "cron": f'"{cron}"', **more}, body)

    def configure(self, name: str, value: object) -> None:
        self.store.run(lambda tx: tx.config.change(lambda now: now.with_value(name, value)))

    async def advance(self, seconds: float, step: float = 5.0) -> None:
        """Let time pass in small steps, and run what is due after each."""
        while seconds > 0:
            await self.clock.advance(min(step, seconds))
            seconds -= step
            await run_ready_tasks()
            self._check()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(patience()):
            for looks in count():
                if condition():
                    return
                self._check()
                await asyncio.sleep(0 if looks < 200 else 0.002)

    def _check(self) -> None:
        for task in self.tasks:
            if task.done():
                task.result()

    @property
    def rows(self) -> Sequence[LedgerRow]:
        """All rows of the ledger; only new ones are read, since tests ask for them all the time."""
        new, self._place = self.store.query(lambda tx: tx.ledger.page(self._place, _ALL))
        self._rows = (*self._rows, *new)
        return self._rows

    def states(self, job: str) -> list[str]:
        """The states of a job's occurrences in the ledger, in order."""
        return [row.state for row in self.rows if row.occurrence and row.occurrence.job_id == job]

    def ended(self, job: str) -> list[LedgerRow]:
        ends = {"done", "failed", "timed_out", "skipped", "missed", "interrupted"}
        mine = (row for row in self.rows if row.occurrence and row.occurrence.job_id == job)
        return [row for row in mine if row.state in ends]

    @property
    def store(self) -> Store:
        return self.stores.state

    @property
    def log(self) -> list[ChatMessage]:
        return messages_of(self.store)

    @property
    def pings(self) -> list[str]:
        return [message.text for message in self.log if message.author is Author.BACKGROUND]

    @property
    def told(self) -> list[str]:
        return [message.text for message in self.log if message.author is Author.PROGRAM]

    @property
    def pending(self) -> list[str]:
        return [each.message for each in self.store.query(lambda tx: tx.updates.get()).entries]

    @property
    def items(self) -> list[DueItem]:
        """The open items."""
        return self.store.query(lambda tx: tx.due_items.open())

    @property
    def is_right(self) -> bool:
        """Whether every moment until now has its one end."""
        return check(self.rows, self.clock.now(), self.clock.now()) == []

    @property
    def reminders(self) -> list[str]:
        return sorted(path.stem for path in self.paths.reminders.glob("*.md"))


@cache
def _new_database() -> bytes:
    """The file of an empty database: to write it is several times faster than to make one."""
    with TemporaryDirectory() as root:
        data = DataDirectory(Path(root))
        data.run(lambda _: None, is_holder=True)
        return (data.paths.state / DATABASE).read_bytes()


def opened_store(paths: DataPaths, clock: ManualClock, disk: Disk | None = None) -> ImmediateStore:
    """A store on the database of the directory; its disk is full while `disk` says so."""

    def refusal() -> StorageError | None:
        is_full_for: Callable[[str], bool] | None = getattr(disk, "is_full_for", None)
        is_full = is_full_for is not None and is_full_for(DATABASE)
        return DiskFull(paths.state / DATABASE) if is_full else None

    if not (paths.state / DATABASE).exists():
        (paths.state / DATABASE).touch(0o600)
        (paths.state / DATABASE).write_bytes(_new_database())
        # The real ballast is a megabyte of random bytes, which takes as long as the rest.
        (paths.state / BALLAST_FILE).touch(0o600)
    database = open_database(paths, clock.now, is_holder=True, report=lambda _: None)
    at_end_of_test(database.close)
    return ImmediateStore(database, refusal)


@asynccontextmanager
async def schedule_scene(
    engine: AgentEngine,
    root: Path,
    *,
    clock: ManualClock | None = None,
    runs: bool = True,
    disk: Disk | None = None,
    seen: Callable[[Stores], Stores] = lambda stores: stores,
    channels: Sequence[Channel] = (),
    is_offline: bool = False,
    store: Store | None = None,
    reach: Reach | None = None,
) -> AsyncIterator[ScheduleScene]:
    """A run of the bot; its files are below `root`, so that a second run goes on with them.

    The bot has the stores that `seen` returns; the test has them as they are. Without a `store`,
    the database is a file, too.
    """
    # No other threads: else the clock could run ahead of a task that waits for the disk.
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    clock = clock or ManualClock(NOW)
    paths = DataPaths(root)
    prepare_data_directory(paths)
    edits = ChangeJournal(RecordingJournal(), root, clock)
    state = store or opened_store(paths, clock, disk)
    changes = FileChanges(paths, state, edits, clock.now)
    repositories = open_repositories(
        paths,
        edits,
        disk,
        lambda rivals: state.query(lambda tx: holder_of_id(tx, rivals)),
        plan=lambda job: state.query(lambda tx: with_known_plan(tx, job)),
        changes=changes,
    )
    stores = Stores(state, repositories)
    surface, shown = RecordingSurface(), seen(stores)
    deps = conversation_deps(
        engine,
        shown,
        clock,
        [surface],
        keeper=FakeAttachmentStore(),
        working_directory=root,
        job_files=JobFileChecker(paths),
        former=changes,
        channels=channels,
        status=replace(STATUS, is_offline=is_offline),
        reach=reach or Reach(),
    )
    talk = ConversationParts(deps)
    await talk.load()
    zone = OwnerZone(shown.state, clock, UTC)
    scheduler = build_schedule(
        paths,
        shown.state,
        shown.repositories,
        talk,
        edits,
        clock,
        zone,
        events=no_events,
        disk=disk,
    )
    chat = talk.conversation
    made = ScheduleScene(paths, talk, chat, stores, clock, surface, scheduler)
    if runs:
        made.tasks += [
            asyncio.create_task(talk.loop.run()),
            asyncio.create_task(talk.deliveries.run()),
            asyncio.create_task(talk.fanout.run()),
            asyncio.create_task(talk.board.run()),
            asyncio.create_task(talk.desktop.run()),
            asyncio.create_task(scheduler.run()),
        ]
        for service in (talk.notices.run, talk.failures.run, talk.quiet_watch.run):
            kept = keep_running(service, stores.state, talk.notices, clock)
            made.tasks.append(asyncio.create_task(kept))
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)
        await scheduler.close()
        for run in [*talk.background._tasks]:
            run.cancel()
        await talk.forks.close()
