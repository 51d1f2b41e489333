"""The status of the bot, as the surfaces show it."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

from ollim_bot.clock import zone_of
from ollim_bot.conversation.state import ConversationState
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.domain.forks import entry_id
from ollim_bot.domain.text import with_program
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock, OpenFork, Status
from ollim_bot.store.steps import was_a_job_set
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_logger = logging.getLogger(__name__)


class StatusBoard:
    """Publishes the status on every change.

    `status` has the model and the names that are used while the owner has chosen no others. What
    has answered is shown by its own name, which says more than `default` or `opus`.
    """

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        fanout: SurfaceFanout,
        status: Status,
        clock: Clock,
    ) -> None:
        self._store = store
        self._state = state
        self._fanout = fanout
        self._status = status
        self._default = status
        self._clock = clock
        self._unkept = ""

    @property
    def current(self) -> Status:
        fork, trouble = self._state.fork, (self._status.trouble, self._unkept)
        return replace(
            self._status,
            is_busy=self._state.is_busy,
            model=self._state.answering or self._status.model,
            fork=None if fork is None else OpenFork(fork.topic, entry_id(fork.id)),
            trouble=with_program(" ".join(filter(None, trouble)), self._status.program),
        )

    async def run(self) -> None:
        """Show what was just chosen, and that the first job was set, until cancelled."""
        # The clock has moved when the zone is noted.
        with self._store.changes("config", "names", "zone") as changed, ExitStack() as first_job:
            first_job.enter_context(self._store.changes("ledger", event=changed))
            while True:
                changed.clear()
                before = self._status
                await self.load()
                if self._status.has_jobs:
                    first_job.close()
                if self._status != before:
                    await self._fanout.changed(self.current)
                await changed.wait()

    async def load(self) -> None:
        """Read what the owner has chosen, and whether a job was set."""

        def has_jobs(tx: Transaction) -> bool:
            return self._status.has_jobs or was_a_job_set(tx)

        try:
            config, names, is_set = await self._store.read(
                lambda tx: (tx.config.get(), tx.names.get(), has_jobs(tx))
            )
        except StorageError:  # the status keeps what was last known
            _logger.warning("The settings could not be read", exc_info=True)
            return
        chosen = config.model_main or self._default.model
        if chosen != self._status.model:
            self._state.answering = ""
        self._status = replace(
            self._status,
            model=chosen,
            user_name=names.user or self._default.user_name,
            bot_name=names.bot or self._default.bot_name,
            zone=str(zone_of(self._clock)),
            has_jobs=is_set,
        )

    async def tell(self) -> None:
        """Send the current status to all surfaces."""
        await self.load()
        await self._fanout.changed(self.current)

    async def trouble(self, sentence: str) -> None:
        """Show a sentence about a service that does not work; empty when it works again."""
        if sentence != self._status.trouble:
            self._status = replace(self._status, trouble=sentence)
            await self.tell()

    async def show_quiet(self, until: datetime | None) -> None:
        """Show until when it is quiet; None when it is not."""
        if until != self._status.quiet_until:
            self._status = replace(self._status, quiet_until=until)
            await self.tell()

    async def show_unkept(self, sentence: str) -> None:
        """Show a sentence that cannot be committed; empty when the disk can be written again."""
        self._unkept = sentence
        await self.tell()
