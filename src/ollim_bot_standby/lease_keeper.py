"""Leading: keeps the lease while the bot runs, and ends the process when it is lost."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from ollim_bot.errors import StorageError
from ollim_bot.processes import children_of_this
from ollim_bot.store.errors import NOT_LEADING
from ollim_bot_standby.held_lease import LeaseDuty, boot_time, duty_of
from ollim_bot_standby.postgres.lease import Lease

# In seconds: how often the deadline is looked at, and how long a renewal that failed waits.
_LOOK, _AGAIN = 0.25, 1.0
# In seconds: for so long at a stretch a leader listens whether another machine shall lead.
_LISTEN = 0.5
_LOST = (
    "This machine leads no more: it could not renew its lease, or another machine has taken over. "
    "ollim-bot ends here, and stands by after the next start."
)

_logger = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews the lease, in a thread of its own: no work of the event loop can hold it up.

    Another thread watches the deadline, since a renewal may wait for the server for long. `end` is
    called once, with a sentence, if this process leads no more; nothing may be sent after that.
    `hand_over` is called once if another machine shall lead: the process ends what it does, and
    then `stop` lets the other one lead.
    """

    def __init__(
        self,
        lease: Lease,
        end: Callable[[str], None],
        boot: Callable[[], float] = boot_time,
        hand_over: Callable[[], object] = lambda: None,
    ) -> None:
        self._lease = lease
        self._end = end
        self._boot = boot
        self._hand_over = hand_over
        self._is_handing_over = False
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=each, name=name, daemon=True)
            for each, name in ((self._renew_in_time, "lease"), (self._watch, "lease-deadline"))
        ]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """Lead no more, and let another machine lead at once."""
        self._is_over.set()
        for each in filter(threading.Thread.is_alive, self._threads):
            each.join()
        try:
            self._lease.release()
        except StorageError as gone:
            _logger.warning("The lease could not be released, and expires: %s", gone)

    def renew_if_due(self) -> bool:
        """Do what is due; False if a renewal has failed that may succeed at the next try."""
        if duty_of(self._lease.held, self._boot()) is not LeaseDuty.RENEW:
            return True
        try:
            self._lease.renew()
        except StorageError as gone:
            _logger.warning("The lease could not be renewed: %s", gone)
            return False
        return True

    def end_if_lost(self) -> bool:
        """End the process if its time is over; returns whether it is."""
        if duty_of(self._lease.held, self._boot()) is not LeaseDuty.END:
            return False
        if not self._is_over.is_set():
            self._is_over.set()
            self._end(_LOST)
        return True

    def _renew_in_time(self) -> None:
        while not self._is_over.is_set():
            if not (self.renew_if_due() and self._listen()):
                self._is_over.wait(_AGAIN)

    def _listen(self) -> bool:
        """Hear for a moment whether another machine shall lead; False if the server is away."""
        try:
            self._lease.wait(_LISTEN)
        except StorageError:
            return False
        if self._is_handing_over:
            self._is_over.wait(_LISTEN)
        elif self._lease.is_wanted:
            self._is_handing_over = True
            self._hand_over()
        return True

    def _watch(self) -> None:
        while not self._is_over.is_set() and not self.end_if_lost():
            self._is_over.wait(_LOOK)


def end_process(sentence: str) -> None:
    """End this process and the engines at once: a wait could let one of them change something."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"ollim-bot: {sentence}\n")
        sys.stderr.flush()
    for group in _children():
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    os._exit(NOT_LEADING)


def _children() -> Iterator[int]:
    """The groups of the programs that this process has started; git may finish what it writes.

    Where the system does not list them, a program ends when it finds its input closed.
    """
    for child in children_of_this(but="git"):
        with suppress(OSError):
            if os.getpgid(child) == child:
                yield child
