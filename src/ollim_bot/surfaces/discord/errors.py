"""Errors of discord.py and aiohttp as ours, and the waits that Discord's limits ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import discord
import yarl

from ollim_bot.kernel.base.errors import (
    DeliveryFailed,
    DeliveryUncertain,
    OllimError,
    Unreachable,
    WrongInput,
)
from ollim_bot.kernel.base.text import shortened
from ollim_bot.surfaces.discord.rendering import HistoryHidden

LONGEST_CALL = 55.0

DISCORD_ERRORS = (discord.DiscordException, aiohttp.ClientError, OSError, RuntimeError)

GONE = "That message is gone."
NO_TOKEN = (
    "Discord refused the token. Run `ollim-bot setup discord` with a new one and start the bot "
    "again."
)
NO_INTENTS = (
    "Discord does not show direct messages to this application. Allow it on the page of the "
    "application, under Bot, and start the bot again."
)
NO_OWNER = (
    "The Discord application belongs to a team. Run `ollim-bot setup discord`, which asks who you "
    "are, and start the bot again."
)
OUT_OF_REACH = "Discord cannot be reached now."
BUSY = "Discord asks to wait."
_LOST = "Discord did not say whether it has it."
_FORBIDDEN = "Discord does not let the bot write to the owner. Allow direct messages from it."
_REFUSED = "Discord refused it: {reason}"
_NO_SUCH_MESSAGE = 10008
_SAID: Mapping[int, tuple[type[OllimError], str]] = {
    401: (Unreachable, OUT_OF_REACH),
    403: (DeliveryFailed, _FORBIDDEN),
    413: (DeliveryFailed, "Discord does not take a file of that size."),
    429: (Unreachable, BUSY),
}


class NotAdmitted(WrongInput):
    """Discord refuses the bot until the owner changes a setting."""


def not_in_team(owner_id: int) -> NotAdmitted:
    return NotAdmitted(
        f"`DISCORD_OWNER_ID` is {owner_id}, who is not in the team of the Discord application. "
        "Put the user id of a member there and start the bot again."
    )


@asynccontextmanager
async def reading(longest: float = LONGEST_CALL) -> AsyncIterator[None]:
    """Raise every error and timeout within it as `Unreachable` or `HistoryHidden`."""
    try:
        async with asyncio.timeout(longest):
            yield
    except DISCORD_ERRORS as error:
        found = translated_error(error)
        kind = HistoryHidden if isinstance(found, DeliveryFailed) else Unreachable
        raise kind(str(found)) from error


@asynccontextmanager
async def writing(longest: float = LONGEST_CALL) -> AsyncIterator[None]:
    """Raise errors and timeouts as `DeliveryFailed`, `Unreachable` or `DeliveryUncertain`."""
    try:
        async with asyncio.timeout(longest):
            yield
    except DISCORD_ERRORS as error:
        raise translated_error(error) from error


def translated_error(error: BaseException) -> OllimError:
    """Translate the error of a call that should change something.

    Raises the error itself if neither Discord nor the network can have caused it.
    """
    match error:
        case discord.HTTPException():
            return _answered(error)
        case discord.RateLimited():
            return Unreachable(BUSY)
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
            return Unreachable(OUT_OF_REACH)
        case aiohttp.ClientError() | OSError():
            return DeliveryUncertain(_LOST)
        case RuntimeError() if "closed" in str(error):
            return Unreachable(OUT_OF_REACH)
    raise error


def _answered(error: discord.HTTPException) -> OllimError:
    if error.status in _SAID:
        kind, sentence = _SAID[error.status]
        return kind(sentence)
    if error.status >= 500:
        return DeliveryUncertain(_LOST)
    if error.status == 404 and error.code == _NO_SUCH_MESSAGE:
        return DeliveryFailed(GONE)
    # For an invalid field the first line gives no details.
    lines = [line.strip() for line in error.text.splitlines() if line.strip()]
    last = lines[-1] if lines else f"{error.status}, without a reason"
    return DeliveryFailed(_REFUSED.format(reason=shortened(last, 200)))


UNKNOWN_PAUSE = 1.2
# With a limit of one call at a time, optional edits are left out.
NEVER = 3600.0

_METHODS = frozenset({"POST", "PATCH"})


@dataclass(frozen=True, slots=True)
class _Window:
    limit: int
    remaining: int
    told_at: float
    reset_at: float

    def next_edit(self, now: float, in_flight: int) -> float:
        """When the next optional edit may go and still leave one call for an important message."""
        if self.limit <= 1:
            return now + NEVER
        if now >= self.reset_at:
            return now if self.limit - in_flight > 1 else now + UNKNOWN_PAUSE
        left = max(1, self.remaining - in_flight)
        return self.told_at + (self.reset_at - self.told_at) / left


class EditAllowance:
    """Tracks what Discord allows to be sent and edited in a channel.

    Discord counts the two apart, but discord.py queues them together, so the tighter limit counts.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._windows: dict[str, _Window] = {}
        self._in_flight = 0
        self._unknown_until = monotonic() + UNKNOWN_PAUSE
        self._uncertain_calls = 0

    @property
    def uncertain_calls(self) -> int:
        """How many calls failed with an unknown outcome; discord.py repeats some of them."""
        return self._uncertain_calls

    def pause(self) -> float:
        """How many seconds an optional edit should still wait; 0 if it may go now.

        Discord then accepts it, with room left for an important call. Ask again after waiting:
        other calls may have used the room.
        """
        now = self._monotonic()
        if not self._windows:
            return max(0.0, self._unknown_until - now)
        return max(each.next_edit(now, self._in_flight) - now for each in self._windows.values())

    def began(self) -> None:
        self._in_flight += 1

    def answered(self, method: str, status: int, headers: Mapping[str, str]) -> None:
        self._in_flight -= 1
        self._uncertain_calls += status >= 500
        now = self._monotonic()
        try:
            self._windows[method] = _Window(
                limit=int(headers["X-RateLimit-Limit"]),
                remaining=int(headers["X-RateLimit-Remaining"]),
                told_at=now,
                reset_at=now + float(headers["X-RateLimit-Reset-After"]),
            )
        except (KeyError, ValueError):
            if not self._windows:
                self._unknown_until = now + UNKNOWN_PAUSE

    def failed(self, error: BaseException) -> None:
        self._in_flight -= 1
        self._uncertain_calls += not isinstance(error, aiohttp.ClientConnectorError)

    def trace(self) -> aiohttp.TraceConfig:
        """A trace for one client, which reports all that the client sends and edits."""
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._on_start)
        trace.on_request_end.append(self._on_end)
        trace.on_request_exception.append(self._on_exception)
        return trace

    async def _on_start(
        self, _: object, __: object, request: aiohttp.TraceRequestStartParams
    ) -> None:
        if _is_about_messages(request.method, request.url):
            self.began()

    async def _on_end(self, _: object, __: object, request: aiohttp.TraceRequestEndParams) -> None:
        if _is_about_messages(request.method, request.url):
            self.answered(request.method, request.response.status, request.response.headers)

    async def _on_exception(
        self, _: object, __: object, request: aiohttp.TraceRequestExceptionParams
    ) -> None:
        if _is_about_messages(request.method, request.url):
            self.failed(request.exception)


def _is_about_messages(method: str, url: yarl.URL) -> bool:
    """`…/channels/<id>/messages` or `…/channels/<id>/messages/<id>`."""
    return method in _METHODS and "messages" in url.parts[-2:] and "channels" in url.parts
