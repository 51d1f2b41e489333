"""`ollim-bot receipt`: what was due on a day, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.schedule.day_receipts import receipt_for
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.values.receipts import DAYS, Receipt, day_named
from ollim_bot.kernel.values.run_words import why
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    argument,
    columns,
    command,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import open_data


def _day_names(_: Caller, __: Sequence[str]) -> Iterator[Completion]:
    return (Completion(name, "") for name in DAYS)


@command(
    "receipt",
    "what was due on a day, and what came of it",
    "yesterday",
    argument(
        "day",
        nargs="?",
        metavar="DAY",
        help="today, yesterday or a date such as 2026-11-15; today if not given",
        completions=_day_names,
    ),
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    day = day_named(str(given.get("day") or "today"), data.now)
    # Read before the ledger, which then has everything that was claimed until this moment.
    watched_until = HeartbeatFile(data.paths).read()
    found = data.ask_if_used(lambda tx: receipt_for(tx, day, data.now, watched_until))
    receipt = found or Receipt(day, ())
    if "json" in given:
        print_json(_as_object(receipt, data.now))
    else:
        rows = []
        for each in receipt.notable:
            due = describe(each.due.replace(second=0, microsecond=0), data.now)
            line = each.occurrence.id
            if each.story is not None:
                sentence = each.why(data.now)
                line = f"{title(each.title)}  ({sentence})" if sentence else title(each.title)
            rows.append((f"  {due}", each.word, plain(line)))
        table = [columns(rows)] if rows else []
        show("\n".join([receipt.sentence(data.now), *table, receipt.checked]))


def _as_object(receipt: Receipt, now: datetime) -> dict[str, object]:
    return {
        "day": receipt.day,
        **{name.replace(" ", "_"): number for name, number in receipt.counts.items()},
        "things": [
            {
                "id": each.occurrence.id,
                "due": each.due.astimezone(now.tzinfo),
                "title": each.title,
                "fate": each.fate,
                "late": each.is_late,
                "why": "" if each.story is None else why(each.story, now),
            }
            for each in receipt.things
        ],
    }
