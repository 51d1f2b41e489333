"""`ollim-bot about-me`: what the bot has written down about the owner, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby

from ollim_bot.features.about_me.known_lines import known_lines
from ollim_bot.kernel.values.about_me import KnownLine
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    columns,
    command,
    plain,
    print_json,
    zone_of,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import note, open_data

_EMPTY = (
    "The bot has written down nothing about you yet. Tell it something that it should remember, or "
    "write USER.md in its data directory."
)


@command(
    "about-me",
    "what it knows about you: each line of its notes, with its source and its day",
    "",
    JSON,
)
def run(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    problems: list[str] = []
    lines = known_lines(data.paths, zone_of(data.now), problems)
    for problem in problems:
        note(problem)
    if "json" in given:
        print_json({"lines": [_object(line) for line in lines]})
    elif lines:
        show("\n\n".join(_pages(lines, data.now.date())))
        show("\nTo have a line forgotten: `ollim-bot forget USER.md:3`, with its own name.")
    else:
        show(_EMPTY)


def _pages(lines: Sequence[KnownLine], today: date) -> Iterator[str]:
    for _, group in groupby(lines, lambda line: line.file):
        yield columns([(each.reference, each.origin(today), plain(each.text)) for each in group])


def _object(line: KnownLine) -> dict[str, object]:
    return {
        "file": line.file,
        "line": line.number,
        "text": line.text,
        "day": line.day,
        "source": line.source or None,
        "untrusted": line.untrusted or None,
    }
