"""What is to go wrong with the next requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class Fail:
    """It is answered so and not done; with `after`, one is to come back after so many seconds."""

    status: int
    code: int = 0
    message: str = "It failed, as was asked for."
    after: float | None = None
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """The connection breaks before anything is done."""


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """It is done, and the connection breaks before the answer."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """It is done, later by so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hanging:
    """It is neither done nor answered."""


@dataclass(frozen=True, slots=True)
class AnswerHanging:
    """It is done and not answered."""


@dataclass(frozen=True, slots=True)
class Banned:
    """The proxy before Discord turns it away, as it does after too many wrong requests."""


Fault = Fail | Dropped | AnswerLost | Delayed | Hanging | AnswerHanging | Banned


@dataclass
class _Order:
    pattern: str
    fault: Fault
    times: int | None


class Faults:
    """Orders are met in the order they were given."""

    def __init__(self) -> None:
        self._orders: list[_Order] = []

    def order(self, pattern: str, fault: Fault, times: int | None) -> None:
        self._orders.append(_Order(pattern, fault, times))

    def clear(self) -> None:
        self._orders.clear()

    @property
    def left(self) -> Sequence[str]:
        """The patterns of which something is still to come."""
        return [each.pattern for each in self._orders]

    def meet(self, request: str) -> Fault | None:
        for order in self._orders:
            if fnmatchcase(request, order.pattern):
                self._use(order)
                return order.fault
        return None

    def _use(self, order: _Order) -> None:
        if order.times is not None:
            order.times -= 1
            if order.times <= 0:
                self._orders.remove(order)
