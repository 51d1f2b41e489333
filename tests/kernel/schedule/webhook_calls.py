"""Accepted calls of webhooks in the store, without the server that accepts them."""

from __future__ import annotations

from datetime import datetime

from devtools.doubles.engine import Says
from tests.kernel.schedule.scene import ScheduleScene

from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.hook_jobs import WebhookCall
from ollim_bot.kernel.values.occurrences import LedgerRow

HOOK = """---
id: build
description: A build has ended
fields:
  properties:
    result: {enum: [passed, failed]}
    seconds: {type: number}
---
The build {{result}} after {{seconds}} s.
"""
ISSUE = """---
id: issue
description: A new issue
fields:
  properties:
    title: {type: string}
---
Look at {{title}}.
"""
WASHING = """---
id: washing
description: The washing machine
fields:
  properties:
    minutes: {type: integer}
    note: {type: string}
deliver: plain
---
The washing is done after {{minutes}} min: {{note}}
"""
SAFE, UNSAFE = Says('{"verdict": "safe"}'), Says('{"verdict": "unsafe"}')


def write(at: ScheduleScene, text: str) -> None:
    name = text.split("\n")[1].removeprefix("id: ")
    at.paths.webhooks.mkdir(exist_ok=True)
    (at.paths.webhooks / f"{name}.md").write_text(text)


def accept(tx: Transaction, hook: str, name: str, fields: dict[str, object], now: datetime) -> None:
    call = WebhookCall(hook, hook, f"bearer:{name}", name, "f00d", fields)
    assert tx.webhook_deliveries.accept(call, now).is_new


async def call(at: ScheduleScene, hook: str, name: str = "one", **fields: object) -> None:
    """Store the call as the server does before it answers 202."""
    now = at.clock.now()
    await at.store.transact(lambda tx: accept(tx, hook, name, fields, now))


async def ended(at: ScheduleScene, hook: str, number: int = 1) -> list[LedgerRow]:
    await at.until(lambda: len(at.ended(hook)) == number)
    return at.ended(hook)


def data_of(at: ScheduleScene, hook: str, name: str = "one") -> object:
    """The stored data of a call."""
    one = next(row.occurrence for row in at.rows if row.occurrence and row.occurrence.key == name)
    assert one.job_id == hook
    found = at.store.query(lambda tx: tx.webhook_deliveries.get(one))
    return None if found is None else found.fields
