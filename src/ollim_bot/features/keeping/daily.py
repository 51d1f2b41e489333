"""Does the upkeep of the day, such as the backup, while the bot is idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from ollim_bot.features.keeping.backup import KEPT, incomplete, write_backup
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.presence import is_due
from ollim_bot.kernel.values.runtime_config import RuntimeConfig

_BETWEEN_LOOKS = 60.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DailyTask:
    """`run` does the task and tells its failures itself; `is_wanted` says whether it is on.

    With `only_in_hour` a task that could not begin within the hour waits for the next day.
    """

    name: str
    is_wanted: Callable[[RuntimeConfig], bool]
    run: Callable[[], Awaitable[None]]
    only_in_hour: bool = False


class DailyUpkeep:
    """Begins each task at most once a day, also across restarts, in the order of the tasks.

    The day begins at `auto_update_hour` on the owner's clock. A task that is due while the bot is
    busy waits for an idle moment.
    """

    def __init__(
        self, store: Store, clock: Clock, tasks: Sequence[DailyTask], is_idle: Callable[[], bool]
    ) -> None:
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._is_idle = is_idle

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            for task in self._tasks:
                try:
                    if self._is_idle() and await self._claimed(task):
                        await task.run()
                except OllimError:
                    _logger.warning("The daily %s failed", task.name, exc_info=True)
            await self._clock.sleep(_BETWEEN_LOOKS)

    async def _claimed(self, task: DailyTask) -> bool:
        """Whether the task is due; if so, its day is noted before it begins."""
        now = self._clock.now()

        def is_wanted(tx: Transaction) -> bool:
            config, begun = tx.config.get(), tx.daily.get().begun.get(task.name)
            hour, only_in_hour = config.auto_update_hour, task.only_in_hour
            return task.is_wanted(config) and is_due(now, hour, begun, only_in_hour=only_in_hour)

        def claim(tx: Transaction) -> bool:
            is_claimed = is_wanted(tx)
            if is_claimed:
                tx.daily.change(lambda record: record.with_task(task.name, now.date()))
            return is_claimed

        # Asked first without a write: the tasks are not due most of the time.
        return await self._store.read(is_wanted) and await self._store.transact(claim)


async def back_up_daily(
    paths: DataPaths,
    environment: Mapping[str, str],
    clock: Clock,
    tell: Callable[[str], Awaitable[object]],
) -> None:
    """Make the backup of the day on a thread of its own, which ends if this is cancelled.

    A failure is told, and so is a file that could not be read.
    """
    is_cancelled = Event()

    def check() -> None:
        if is_cancelled.is_set():
            raise OllimError("The bot is stopping.")

    try:
        report = await asyncio.to_thread(
            write_backup, paths, environment, clock.now, keep=KEPT, check=check
        )
    except asyncio.CancelledError:
        is_cancelled.set()
        raise
    except OllimError as error:
        day = f"{clock.now():%Y-%m-%d}"
        await tell(f"The automatic backup of {day} was not made. {error}")
        return
    _logger.info("A backup was made: %s", report.path)
    if not report.is_complete:
        await tell(incomplete(report))
