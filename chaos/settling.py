"""How a run ends: the bot settles, and what is still broken then breaks the run."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.findings import Finding
from chaos.steps import Step

# Seconds. The bot repeats what failed within half a minute, and a reminder comes within a minute.
_SETTLES_WITHIN = 120.0
# Seconds without any change after which a final finding counts as broken.
_STAYS_WRONG = 8.0
# Seconds without any change after which a finding of something missing counts as broken.
_STAYS_MISSING = 45.0
_POLL_INTERVAL = 0.25

_logger = logging.getLogger(__name__)

# Returns what is found, and what is seen; None for the latter if nothing can repair it.
Look = Callable[[], Awaitable[tuple[list[Finding], object | None]]]


@dataclass
class Outcome:
    """`steps` are those that were run, and `broken` the findings that ended the run.

    `is_harness_error` says that the harness itself failed, so that nothing is known of the bot.
    """

    steps: list[Step] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    hits: Counter[str] = field(default_factory=Counter)
    times_settled: int = 0
    is_harness_error: bool = False
    began: float = field(default_factory=time.monotonic)

    def note(self, step: Step) -> None:
        self.steps.append(step)
        _logger.info("%6.1f s  %s", time.monotonic() - self.began, step.name)


@contextmanager
def folder_of_run(outcome: Outcome, keep: Path | None) -> Iterator[Path]:
    """A folder for a run, which is copied to `keep` if something is broken.

    An error of the harness ends the run, and not more.
    """
    with tempfile.TemporaryDirectory(prefix="chaos-") as home:
        try:
            yield Path(home)
        except Exception as wrong:  # the report has to show the steps after any error
            _logger.exception("The harness itself failed")
            outcome.is_harness_error = True
            outcome.broken.append(f"{type(wrong).__name__}: {str(wrong)[-2000:]}")
        if outcome.broken and keep is not None:
            sockets = shutil.ignore_patterns("*.sock")
            shutil.copytree(home, keep, symlinks=True, ignore=sockets, dirs_exist_ok=True)


async def findings_once_settled(look: Look) -> list[Finding]:
    """Look until nothing is found.

    Returns what is found once nothing has changed for a while, or the time to settle is over.
    """
    latest = time.monotonic() + _SETTLES_WITHIN
    before: object = None
    since = 0.0
    while True:
        found, seen = await look()
        if not found or seen is None:
            return found
        now = time.monotonic()
        if (state := (found, seen)) != before:
            before, since = state, now
        is_final = all(each.is_final for each in found)
        if now > latest or now - since > (_STAYS_WRONG if is_final else _STAYS_MISSING):
            return found
        _logger.debug("not yet: %s", "; ".join(map(str, found)))
        await asyncio.sleep(_POLL_INTERVAL)
