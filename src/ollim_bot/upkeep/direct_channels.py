"""The ways to reach the owner without the bot, and what else the sentinel finds outside."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from ollim_bot.domain.chat import ChatMessage

_LIMIT = 10.0
_APPLICATION = "ollim-bot"
# Words are arguments of the script, so that no text of a reminder becomes part of it.
_SCRIPT = (
    "on run words",
    "display notification (item 2 of words) with title (item 1 of words)",
    "end run",
)


class SentinelClock(Protocol):
    """Time for a program without an event loop. `now` is in the owner's zone."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class LookUp(NamedTuple):
    """How to find a message that may have arrived: not among `others`, not before `since`.

    With `is_in_doubt`, it is not sent where the channel cannot be searched.
    """

    others: Collection[str]
    since: datetime
    is_in_doubt: bool


class DirectChannel(Protocol):
    """A channel that needs no bot."""

    def deliver(self, message: ChatMessage, nonce: str, look: LookUp) -> str:
        """Look for the message, send it if it is not there, and return its id.

        Raises `Unreachable` if it was certainly not sent, `DeliveryFailed` if it is refused for
        good, and `DeliveryUncertain` if it may have been sent.
        """


class Notifier(Protocol):
    def notify(self, title: str, text: str) -> bool:
        """Show a notification on the desktop; False if that is not possible."""


@dataclass(frozen=True, slots=True)
class SentinelEnvironment:
    """What is outside of the data directory; None where there is none.

    `revive` asks the supervisor to start the bot, or to restart one that `is_running`; it returns
    whether the supervisor was asked. `maintenance` names the `update` or `restore` in progress.
    """

    channel: DirectChannel | None = None
    notifier: Notifier | None = None
    revive: Callable[[bool], bool] | None = None
    maintenance: Callable[[], str | None] = lambda: None


class DesktopNotifier:
    """Uses `notify-send` or `osascript`, as found by the search path of `environ`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def notify(self, title: str, text: str) -> bool:
        """Show a notification; False if there is no program for it, or the program fails."""
        command = self._command(title, text)
        if command is None:
            return False
        try:
            ended = subprocess.run(
                command,
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return ended.returncode == 0

    def _command(self, title: str, text: str) -> list[str] | None:
        path = self._environ.get("PATH")
        if program := shutil.which("notify-send", path=path):
            urgent = ["--urgency=critical", f"--app-name={_APPLICATION}"]
            return [program, *urgent, "--", title, text]
        if program := shutil.which("osascript", path=path):
            script = [word for line in _SCRIPT for word in ("-e", line)]
            return [program, *script, title, text]
        return None
