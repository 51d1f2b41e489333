"""`ollim-bot today`: what waits for an answer, what comes today, and what is done."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import open_data
from ollim_bot.cli.framework import plain
from ollim_bot.cli.parser import Parser
from ollim_bot.cli.terminal import width_of, wrapped
from ollim_bot.domain.cards import Card
from ollim_bot.domain.overviews import today_card
from ollim_bot.domain.owner_choices import Skips
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.store.job_formats import REMINDERS
from ollim_bot.store.routine_format import ROUTINES
from ollim_bot.store.transaction import Transaction

_COMMAND = "ollim-bot today"
_ABOUT = "what waits for you, what comes today, and what is done"
_INDENT = "  "


def run(words: Sequence[str], caller: Caller) -> None:
    Parser(_COMMAND, _ABOUT, _COMMAND).read(words)
    data = open_data(caller)
    now, paths = data.now, data.paths
    jobs: list[ScheduledJob] = [
        *(each.item for each in data.shelf(paths.reminders, REMINDERS).all()),
        *(each.item for each in data.shelf(paths.routines, ROUTINES).all()),
    ]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)

    def question(tx: Transaction) -> Card:
        items = tx.due_items
        return today_card(items.open(), items.answered_since(midnight), jobs, tx.skips.get(), now)

    print(_shown(data.read(question) or today_card((), (), jobs, Skips(), now)))


def _shown(card: Card) -> str:
    parts = [card.title, *([card.description] if card.description else [])]
    for line in card.lines:
        parts += ["", line.heading] if line.heading else []
        parts.append(wrapped(f"{_INDENT}{line.text}", width_of(sys.stdout), _INDENT * 2))
    return plain("\n".join(parts))
