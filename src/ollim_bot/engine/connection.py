"""One process of the engine: started, always read, and closed within bounds."""

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

from ollim_bot.engine.launcher import PROGRAM_MISSING
from ollim_bot.errors import EngineError, SessionLost

# The SDK raises bare `Exception`s of its own for requests that are refused or not answered; where
# nothing of the engine's may get out, all of them are caught, and logged.

_INTERRUPT_LIMIT = 2.0
_CLOSE_LIMIT = 4.0
_LAST_WORDS = 20

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gone:
    """Comes after the last message of a process."""


class Connection:
    """Reads all messages into `inbox`, without limit: an engine that nobody reads stands still."""

    def __init__(self, client: ClaudeSDKClient, last_words: deque[str]) -> None:
        self.inbox: asyncio.Queue[Message | Gone] = asyncio.Queue()
        self._client = client
        self._last_words = last_words
        self._closing: asyncio.Task[None] | None = None
        self._is_gone = False
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, options: ClaudeAgentOptions) -> Self:
        """Raises `SessionLost`, or `EngineError` if no engine can be started."""
        last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        client = ClaudeSDKClient(replace(options, stderr=last_words.append))
        try:
            await client.connect()
        except CLINotFoundError as error:
            raise EngineError(PROGRAM_MISSING) from error
        except Exception as error:  # the SDK raises more kinds than it names
            if options.resume and isinstance(error, ResultError):
                raise SessionLost(options.resume) from error
            _logger.warning("The engine did not start: %s %s", error, "\n".join(last_words))
            raise EngineError("The engine did not start. Run `ollim-bot doctor`.") from error
        return cls(client, last_words)

    @property
    def is_alive(self) -> bool:
        return self._closing is None and not self._is_gone

    def forget(self) -> None:
        """Empty the inbox of what came after the last turn was over."""
        while not self.inbox.empty():
            self.inbox.get_nowait()

    async def send(self, message: Mapping[str, Any]) -> None:
        async def only() -> AsyncIterator[dict[str, Any]]:
            yield dict(message)

        try:
            await self._client.query(only())
        except BaseException as error:  # cancelled too: nobody knows how much the engine got
            self.abandon()
            if isinstance(error, ClaudeSDKError):
                raise EngineError("The engine is gone.") from error
            raise

    async def interrupt(self) -> None:
        """If the engine does not listen, it is closed."""
        try:
            async with asyncio.timeout(_INTERRUPT_LIMIT):
                await self._client.interrupt()
        except Exception:  # whatever it is, the turn has to end
            _logger.warning("The engine did not take an interrupt", exc_info=True)
            self.abandon()

    def abandon(self) -> None:
        """Begin to close; whoever waits for the inbox soon gets `Gone`."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())

    async def close(self) -> None:
        """A process that hangs is left to be killed in a while; nobody has to wait for that."""
        self.abandon()
        if self._closing is not None:
            await asyncio.wait({self._closing}, timeout=_CLOSE_LIMIT)

    async def _close(self) -> None:
        # In the middle of a turn, a process would not see for seconds that its input has ended.
        with suppress(Exception):
            async with asyncio.timeout(_INTERRUPT_LIMIT):
                await self._client.interrupt()
        try:
            await self._client.disconnect()
        except Exception:  # it is being left: nothing of it may hurt what comes next
            _logger.warning("The engine was not closed in good order", exc_info=True)

    async def _read(self) -> None:
        try:
            async for message in self._client.receive_messages():
                self.inbox.put_nowait(message)
        except Exception:  # however it died, whoever waits has to be told
            if self._closing is None:
                words = "\n".join(self._last_words)
                _logger.warning("The engine died. Its last words: %s", words, exc_info=True)
        finally:
            self._is_gone = True
            self.inbox.put_nowait(Gone())
