"""One process of the engine: started, read continuously, and closed within a time limit."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLINotFoundError,
    Message,
    ResultError,
)

from ollim_bot.kernel.base.errors import EngineError, SessionLost
from ollim_bot.kernel.engine.launcher import PROGRAM_MISSING
from ollim_bot.kernel.values.usage import Usage

# The SDK raises bare `Exception`s for requests that are refused or not answered; where no error of
# the engine may get out, all of them are caught and logged.

_INTERRUPT_LIMIT = 2.0
_CLOSE_LIMIT = 4.0
_STDERR_LINES = 20
_NOTHING = Usage()

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineExited:
    """Follows the last message of a process."""


class Connection:
    """Reads all messages into an unbounded queue: an engine whose output is not read blocks.

    `spent_before` has the cost from which the process goes on counting.
    """

    def __init__(
        self, client: ClaudeSDKClient, stderr_tail: deque[str], spent_before: Usage
    ) -> None:
        self.spent_before = spent_before
        self.messages: asyncio.Queue[Message | EngineExited] = asyncio.Queue()
        self._client = client
        self._stderr_tail = stderr_tail
        self._closing: asyncio.Task[None] | None = None
        self._is_gone = False
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, options: ClaudeAgentOptions, spent_before: Usage = _NOTHING) -> Self:
        """Raises `SessionLost`, or `EngineError` if no engine can be started."""
        stderr_tail: deque[str] = deque(maxlen=_STDERR_LINES)
        client = ClaudeSDKClient(replace(options, stderr=stderr_tail.append))
        try:
            await client.connect()
        except CLINotFoundError as error:
            raise EngineError(PROGRAM_MISSING) from error
        except Exception as error:  # the SDK raises more kinds than it names
            if options.resume and isinstance(error, ResultError):
                raise SessionLost(options.resume) from error
            _logger.warning("The engine did not start: %s %s", error, "\n".join(stderr_tail))
            raise EngineError("The engine did not start. Run `ollim-bot doctor`.") from error
        return cls(client, stderr_tail, spent_before)

    @property
    def is_alive(self) -> bool:
        return self._closing is None and not self._is_gone

    def drain(self) -> None:
        """Drop the messages that came after the end of the last turn."""
        while not self.messages.empty():
            self.messages.get_nowait()

    async def send(self, message: Mapping[str, Any]) -> None:
        async def only() -> AsyncIterator[dict[str, Any]]:
            yield dict(message)

        try:
            await self._client.query(only())
        except BaseException as error:  # also if cancelled: it is unknown how much was sent
            self.begin_close()
            if isinstance(error, ClaudeSDKError):
                raise EngineError("The engine is gone.") from error
            raise

    async def interrupt(self) -> None:
        """Interrupt the turn; close the process if it does not respond."""
        try:
            async with asyncio.timeout(_INTERRUPT_LIMIT):
                await self._client.interrupt()
        except Exception:  # the turn has to end after any error
            _logger.warning("The engine did not take an interrupt", exc_info=True)
            self.begin_close()

    def begin_close(self) -> None:
        """Begin to close; a reader of `messages` soon gets `EngineExited`."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())

    async def close(self) -> None:
        """Close, waiting a few seconds at most; the SDK kills a hanging process later."""
        self.begin_close()
        if self._closing is not None:
            await asyncio.wait({self._closing}, timeout=_CLOSE_LIMIT)

    async def _close(self) -> None:
        # During a turn, a process would notice only after seconds that its input has ended.
        with suppress(Exception):
            async with asyncio.timeout(_INTERRUPT_LIMIT):
                await self._client.interrupt()
        try:
            await self._client.disconnect()
        except Exception:  # no error of a closing process may reach the next one
            _logger.warning("The engine was not closed in good order", exc_info=True)

    async def _read(self) -> None:
        try:
            async for message in self._client.receive_messages():
                self.messages.put_nowait(message)
        except Exception:  # readers must be told of any death
            if self._closing is None:
                words = "\n".join(self._stderr_tail)
                _logger.warning("The engine died. Its last words: %s", words, exc_info=True)
        finally:
            self._is_gone = True
            self.messages.put_nowait(EngineExited())
