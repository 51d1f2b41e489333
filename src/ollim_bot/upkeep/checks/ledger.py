"""Whether everything that was due has its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.upkeep.findings import Finding, counted, failed, passed, warned

NAME = "ledger"
_MOST_NAMED = 5
_SHOW = "`ollim-bot runs show ID`, with the id at the front, shows what is known of it."
_ALL = "`ollim-bot runs check` names them all."
_LEFT_OUT = "They stay where they are and harm nothing; copy the file if you want to look into it."


def ledger(
    rows: Sequence[LedgerRow], skipped: int, now: datetime, watched_until: datetime | None
) -> Iterator[Finding]:
    """`skipped` lines could not be read."""
    wrong = check(rows, now, watched_until)
    for sentence in wrong[:_MOST_NAMED]:
        yield failed(NAME, sentence, _SHOW)
    if len(wrong) > _MOST_NAMED:
        yield failed(NAME, f"{len(wrong) - _MOST_NAMED} more like that", _ALL)
    if skipped:
        yield warned(NAME, f"{counted(skipped, 'line')} cannot be read", _LEFT_OUT)
    if not wrong:
        runs = len({row.occurrence for row in rows if row.occurrence})
        right = f"{counted(runs, 'run')}, and nothing is missing, doubled or made up"
        yield passed(NAME, right if runs else "no runs yet")
