"""Rate limits, and failures on demand."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from devtools.localdiscord.validation import DiscordError, too_many_old_edits

Allowances = dict[str, tuple[int, float]]

# How many requests in how many seconds, by route: observed values, which Discord does not document.
_SEEN: Mapping[str, tuple[int, float]] = {
    "send": (5, 5.0),
    "edit": (5, 5.0),
    "delete": (5, 1.0),
    "delete_older": (3, 0.333),
    "delete_ancient": (30, 4.0),
    "react": (1, 0.25),
    "webhook": (5, 2.0),
}
# Sends and edits share one bucket name, but are counted apart.
_NAMES = {
    "send": "b0c4e6",
    "edit": "b0c4e6",
    "delete": "d5a101",
    "delete_older": "d5a102",
    "delete_ancient": "d5a103",
    "react": "e2c925",
    "webhook": "f1b752",
}
_GLOBAL = (50, 1.0)
_OLD_EDITS = (3, 20.0)


@dataclass
class _RateWindow:
    limit: int
    ends: float
    used: int = 0


class Buckets:
    """Discord's rate limits. `refusals` counts the 429 answers by route; `global` is one route."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._windows: dict[tuple[str, str], _RateWindow] = {}
        self.allowances: Allowances = {**_SEEN, "global": _GLOBAL, "old": _OLD_EDITS}
        self.refusals: dict[str, int] = {}

    @property
    def refused(self) -> int:
        return sum(self.refusals.values())

    def allow(self, route: str, limit: int, per: float) -> None:
        """Set the limit of a route and reset its use."""
        self.allowances[route] = (limit, per)
        self._windows = {key: each for key, each in self._windows.items() if key[0] != route}

    def take_global(self) -> None:
        window = self._take("global", "")
        if window.used > window.limit:
            raise self._refusal("global", window, {"X-RateLimit-Global": "true"})

    def take(self, route: str, major: str) -> Mapping[str, str]:
        """The headers of the answer; `major` is the channel or webhook that the limit counts by."""
        if route not in self.allowances:
            return {}
        window = self._take(route, major)
        headers = self._headers(route, window)
        if window.used > window.limit:
            raise self._refusal(route, window, headers)
        return headers

    def take_old_edit(self, channel: str) -> None:
        window = self._take("old", channel)
        if window.used > window.limit:
            self.refusals["old"] = self.refusals.get("old", 0) + 1
            raise too_many_old_edits(_up(window.ends - self._monotonic()))

    def _take(self, route: str, major: str) -> _RateWindow:
        now = self._monotonic()
        window = self._windows.get((route, major))
        if window is None or window.ends <= now:
            limit, per = self.allowances[route]
            window = self._windows[route, major] = _RateWindow(limit, now + per)
        window.used += 1
        return window

    def _headers(self, route: str, window: _RateWindow) -> dict[str, str]:
        left = max(0.0, window.ends - self._monotonic())
        return {
            "X-RateLimit-Bucket": _NAMES[route],
            "X-RateLimit-Limit": str(window.limit),
            "X-RateLimit-Remaining": str(max(0, window.limit - window.used)),
            "X-RateLimit-Reset": f"{time.time() + left:.3f}",
            "X-RateLimit-Reset-After": f"{_up(left):.3f}",
        }

    def _refusal(self, route: str, window: _RateWindow, headers: Mapping[str, str]) -> DiscordError:
        self.refusals[route] = self.refusals.get(route, 0) + 1
        after = _up(window.ends - self._monotonic())
        is_global = route == "global"
        told = {
            **headers,
            "Retry-After": str(math.ceil(after)),
            "X-RateLimit-Scope": "global" if is_global else "user",
        }
        message = "You are being rate limited."
        return DiscordError(429, 0, message, after=after, is_global=is_global, headers=told)


def _up(seconds: float) -> float:
    return math.ceil(max(0.0, seconds) * 1000) / 1000


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The request is answered with this error and not carried out; `after` asks to retry later."""

    status: int
    code: int = 0
    message: str = "It failed, as was asked for."
    after: float | None = None
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection breaks before the request is carried out."""


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The request is carried out, and the connection breaks before the answer."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """The request is carried out after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hanging:
    """The request is neither carried out nor answered."""


@dataclass(frozen=True, slots=True)
class AnswerHanging:
    """The request is carried out and not answered."""


@dataclass(frozen=True, slots=True)
class Banned:
    """The proxy before Discord refuses the request, as it does after too many invalid ones."""


Fault = ErrorResponse | Dropped | AnswerLost | Delayed | Hanging | AnswerHanging | Banned
F = TypeVar("F")


@dataclass
class _PlannedFault(Generic[F]):
    pattern: str
    fault: F
    times: int | None


class Faults(Generic[F]):
    """Planned faults, applied in the order in which they were given."""

    def __init__(self) -> None:
        self._orders: list[_PlannedFault[F]] = []

    def order(self, pattern: str, fault: F, times: int | None) -> None:
        self._orders.append(_PlannedFault(pattern, fault, times))

    def clear(self) -> None:
        self._orders.clear()

    @property
    def left(self) -> Sequence[str]:
        """The patterns of the faults that are still to come."""
        return [each.pattern for each in self._orders]

    def next_for(self, request: str) -> F | None:
        for order in self._orders:
            if fnmatchcase(request, order.pattern):
                self._use(order)
                return order.fault
        return None

    def _use(self, order: _PlannedFault[F]) -> None:
        if order.times is not None:
            order.times -= 1
            if order.times <= 0:
                self._orders.remove(order)
