"""What the surfaces show about the bot itself, kept true while things change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.errors import StorageError
from ollim_bot.ports import OpenFork, Status, Store

_logger = logging.getLogger(__name__)


class StatusBoard:
    """`status` is how it begins; the others are asked whenever it is looked at.

    `unkept` is a sentence that the disk has no room for.
    """

    def __init__(
        self,
        fanout: SurfaceFanout,
        config: Store[RuntimeConfig],
        status: Status,
        *,
        is_busy: Callable[[], bool],
        fork: Callable[[], OpenFork | None],
        unkept: Callable[[], str],
    ) -> None:
        self._fanout = fanout
        self._config = config
        self._status = status
        self._default_model = status.model
        self._is_busy = is_busy
        self._fork = fork
        self._unkept = unkept

    @property
    def current(self) -> Status:
        trouble = " ".join(filter(None, (self._status.trouble, self._unkept())))
        return replace(self._status, is_busy=self._is_busy(), fork=self._fork(), trouble=trouble)

    async def tell(self) -> None:
        """Let all surfaces know how it is now."""
        try:
            config = await asyncio.to_thread(self._config.read)
        except StorageError:  # who answers is not worth a message, nor the end of a conversation
            _logger.warning("The settings could not be read", exc_info=True)
        else:
            self._status = replace(self._status, model=config.model_main or self._default_model)
        await self._fanout.changed(self.current)

    async def trouble(self, sentence: str) -> None:
        """Something outside does not work now; with nothing to say, it works again."""
        if sentence != self._status.trouble:
            self._status = replace(self._status, trouble=sentence)
            await self.tell()
