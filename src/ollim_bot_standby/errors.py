"""What a shared database can refuse besides what a file can, in sentences for a person."""

from __future__ import annotations

from pathlib import Path

from ollim_bot.errors import WriteFailed

NOT_NOW = (
    "cannot be changed now: it is being moved, or another process takes the lead. Nothing was "
    "changed. Try again, or see `ollim-bot standby status`."
)


class ServerGone(WriteFailed):
    """The database server cannot be reached."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, f"cannot be reached: {reason}. Nothing was changed.")
        self.why = f"it cannot be reached ({reason})"


class OnStandby(WriteFailed):
    """Another machine leads, and this one only reads."""

    def __init__(self, path: Path, leader: str = "another machine") -> None:
        super().__init__(
            path,
            f"is led by {leader}, and this machine only reads. Nothing was changed. Do it there.",
        )
