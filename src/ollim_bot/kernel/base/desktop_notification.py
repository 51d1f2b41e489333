"""Shows notifications on the desktop, without a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from html import escape

from ollim_bot.kernel.base.environment import SESSION, child_environment

_LIMIT = 10.0
_APPLICATION = "ollim-bot"
_LONGEST_TITLE, _LONGEST_TEXT = 100, 400
_URGENT = ("--urgency=critical",)
_PASSING = ("--urgency=low", "--expire-time=2000")
# One of them names the desktop to which a program can speak.
_SESSIONS = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
# Words are arguments of the script, so that no text of a reminder becomes part of it.
_SCRIPT = (
    "on run words",
    "display notification (item 2 of words) with title (item 1 of words)",
    "end run",
)


class DesktopNotifier:
    """Uses `notify-send` or `osascript`, as found by the search path of `environ`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    @property
    def has_program(self) -> bool:
        """Whether this machine has a program that shows notifications."""
        return self._command("", "") is not None

    def can_show(self, mode: str) -> bool:
        """Whether notifications are wanted and can be shown; `mode` is `auto`, `on` or `off`."""
        if mode == "off" or not self.has_program:
            return False
        has_session = any(self._environ.get(name) for name in _SESSIONS)
        return mode == "on" or has_session or sys.platform == "darwin"

    def notify(self, title: str, text: str) -> bool:
        """Show a notification; False if there is no program for it, or the program fails."""
        return self._run(title, text, _URGENT) is not None

    def show(self, title: str, text: str) -> str | None:
        """Show a notification, and return its id; None if that is not possible.

        The id is empty if it cannot be replaced: `osascript` and an old `notify-send` tell none.
        """
        told = self._run(title, text, (*_URGENT, "--print-id"))
        if told is None:
            return "" if self.notify(title, text) else None
        return told.strip() if told.strip().isdigit() else ""

    def replace(self, shown: str, title: str, text: str) -> None:
        """Put these words into the notification with that id; it then goes by itself."""
        self._run(title, text, (*_PASSING, f"--replace-id={shown}"))

    def _run(self, title: str, text: str, options: Sequence[str]) -> str | None:
        """What the program prints; None if there is none, or it fails."""
        command = self._command(_plain(title, _LONGEST_TITLE), _plain(text, _LONGEST_TEXT), options)
        if command is None:
            return None
        try:
            ended = subprocess.run(
                command,
                env=child_environment(self._environ, *SESSION),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return ended.stdout.decode("utf-8", "replace") if ended.returncode == 0 else None

    def _command(self, title: str, text: str, options: Sequence[str] = ()) -> list[str] | None:
        path = self._environ.get("PATH")
        if program := shutil.which("notify-send", path=path):
            named = [*options, f"--app-name={_APPLICATION}"]
            # The body may have markup, such as links and pictures.
            return [program, *named, "--", title, escape(text, quote=False)]
        if program := shutil.which("osascript", path=path):
            script = [word for line in _SCRIPT for word in ("-e", line)]
            return [program, *script, title, text]
        return None


def _plain(text: str, longest: int) -> str:
    """The text without what no program takes as an argument."""
    kept = "".join(each for each in text if each == "\n" or each.isprintable())
    return kept if len(kept) <= longest else f"{kept[: longest - 1]}…"
