"""Reads what the model costs, for the command line and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.values.commands import slash_command
from ollim_bot.kernel.values.costs import Amount, CostReport, cost_report, job_name, month_start
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.sessions import answers, percent_used, thousands

if TYPE_CHECKING:
    from ollim_bot.kernel.base.clock import Clock
    from ollim_bot.kernel.store.message_log import LoggedMessage
    from ollim_bot.kernel.store.store import Store
    from ollim_bot.kernel.store.transaction import Transaction
    from ollim_bot.kernel.values.inbox import CommandCall
    from ollim_bot.kernel.values.usage import Price, UsageRow


_MORE_COSTS = "`ollim-bot cost` shows the month, by job and by model."


def costs_since(tx: Transaction, since: datetime, now: datetime) -> CostReport:
    """The sums since then and of this month, with the names of the jobs."""
    rows = tx.usage.since(min(since, month_start(now)))
    cap = tx.config.get().daily_cost_cap
    newest = {job_name(row.occurrence): row.occurrence for row in rows if row.occurrence}
    # Its newest run tells what a job is called: its own name may be gone with its file.
    titles = {name: tx.ledger.story(Occurrence.parse(one)).title for name, one in newest.items()}
    return cost_report(rows, since, now, cap, titles)


class CostCommands:
    def __init__(self, store: Store, clock: Clock, price: Price) -> None:
        self._store = store
        self._clock = clock
        self._price = price

    @slash_command(220, "cost", "What today has cost, and how full the context is")
    async def cost(self, _: CommandCall) -> str:
        now = self._clock.now()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)

        def question(tx: Transaction) -> tuple[Sequence[UsageRow], Sequence[LoggedMessage]]:
            return tx.usage.since(midnight), tx.messages.since(midnight)

        rows, logged = await self._store.read(question)
        messages = [each.message for each in logged]
        said = sum(each.spent is not None for each in answers(messages))
        runs = len({row.occurrence for row in rows if row.kind.is_background})
        number = counted(said, "answer")
        if runs:
            number += f" and {counted(runs, 'background run')}"
        today = Amount.of(rows) if rows else Amount(prices=frozenset({self._price}))
        more = f" {_MORE_COSTS}" if rows else ""
        last = next((each.spent for each in reversed(messages) if each.spent), None)
        percent, full = percent_used(last.context, last.window) if last else None, ""
        if last is not None and percent is not None:
            full = f" The context is {percent}% full ({thousands(last.context)} tokens)."
        return f"Today: {number}, {today.in_words()}.{full}{more}"
