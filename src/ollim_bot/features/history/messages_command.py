"""The messages, as they are exported."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import Given, Noun
from ollim_bot.surfaces.terminal.terminal_data import EXPORT_ARGUMENTS, PAGE_SIZE, export

if TYPE_CHECKING:
    from ollim_bot.kernel.store.transaction import Transaction

_MESSAGES = Noun("messages")
run = _MESSAGES.run


@_MESSAGES.verb(
    "every message, one JSON object a line", "--output messages.jsonl", *EXPORT_ARGUMENTS
)
def _export(given: Given, caller: Caller) -> None:
    export(given, caller, _page)


def _page(after: int, tx: Transaction) -> tuple[list[tuple[datetime, bytes]], int]:
    from ollim_bot.kernel.store.codecs.message_codec import CHAT_MESSAGES

    found = tx.messages.after(after, PAGE_SIZE)
    rows = []
    for each in found:
        refs = {
            channel: " ".join(ids) for channel, ids in tx.deliveries.refs(each.message.id).items()
        }
        rows.append((each.message.at, CHAT_MESSAGES.encode(replace(each.message, refs=refs))))
    return rows, found[-1].seq if found else after
