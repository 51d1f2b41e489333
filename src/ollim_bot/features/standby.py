"""`ollim-bot standby`: the same bot on a second machine, by the package that brings it."""

from __future__ import annotations

from collections.abc import Sequence

from ollim_bot.kernel.store.standby_loader import load_standby
from ollim_bot.surfaces.terminal.caller import Caller


def run(argv: Sequence[str], caller: Caller) -> None:
    """Raises `OllimError` if this installation has no standby."""
    load_standby("cli").run(argv, caller)
