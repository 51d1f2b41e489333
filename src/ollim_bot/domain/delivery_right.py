"""The one delivery of a `must` reminder, by its run or by the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class DeliveryRight:
    """The right to deliver: taken before the delivery, given back if it certainly failed.

    While `has_ready_ping`, the run has its message and waits for the owner's turn to end.

    Locked, since runs pay for their pings in threads.
    """

    def __init__(self, *, is_delivered: bool = False) -> None:
        self._is_taken = is_delivered
        self._ready_pings = 0
        self._lock = Lock()

    @property
    def is_taken(self) -> bool:
        return self._is_taken

    @property
    def has_ready_ping(self) -> bool:
        return self._ready_pings > 0

    @contextmanager
    def ready_ping(self) -> Iterator[None]:
        self._ready_pings += 1
        try:
            yield
        finally:
            self._ready_pings -= 1

    def take(self) -> bool:
        """Take the right; False if it is already taken."""
        with self._lock:
            is_free, self._is_taken = not self._is_taken, True
        return is_free

    def give_back(self) -> None:
        self._is_taken = False
