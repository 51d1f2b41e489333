"""What the bot has written down about the owner: each line with its source and its day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from ollim_bot.kernel.base.moments import MONTHS
from ollim_bot.kernel.values.taint import marked_taint

# The source of a file that the agent wrote in a turn that had read nothing of others.
OWNERS_WORDS = "the owner's words"

_SOURCE = "Source of "
_SUMMARY = re.compile(r"[0-9]+ changes: ")
_BY_AGENT = re.compile(r"auto: (?:write|edit) ")


@dataclass(frozen=True, slots=True)
class KnownLine:
    """One line of a file. `day` is when it was written, and `source` what it comes from.

    `source` is `OWNERS_WORDS`, or names the text of others that the agent had read; it is empty
    where that is not known.
    """

    file: str
    number: int
    text: str
    day: date | None = None
    source: str = ""

    @property
    def reference(self) -> str:
        """How the line is named in a command: `USER.md:3`."""
        return f"{self.file}:{self.number}"

    @property
    def untrusted(self) -> str:
        """What of others the agent had read before it wrote the line; empty if that is nothing."""
        return "" if self.source == OWNERS_WORDS else self.source

    def origin(self, today: date) -> str:
        """`from your words of 3 May`, `from a web page read on 3 May`, or only the day."""
        if self.day is None:
            return ""
        year = "" if self.day.year == today.year else f" {self.day.year}"
        day = f"{self.day.day} {MONTHS[self.day.month - 1]}{year}"
        if self.source == OWNERS_WORDS:
            return f"from your words of {day}"
        return f"from {marked_taint(self.source).in_words} read on {day}" if self.source else day


@dataclass(frozen=True, slots=True)
class AboutMe:
    """All lines, file by file; `problems` names the files that cannot be read."""

    today: date
    lines: tuple[KnownLine, ...] = ()
    problems: tuple[str, ...] = ()


def source_line(path: str, source: str) -> str:
    """The line of a commit message that says where a file's new words come from; may be empty."""
    words = " ".join(source.split())
    return f"{_SOURCE}{path}: {words}" if words and path.isprintable() else ""


def source_in(message: str, path: str) -> str:
    """What the words come from that a commit with this message brought into the file.

    Empty unless it is known: a commit may have further changes of the same file.
    """
    lines = message.splitlines()
    told = [
        line.removeprefix(f"{_SOURCE}{path}: ")
        for line in lines
        if line.startswith(f"{_SOURCE}{path}: ")
    ]
    read = dict.fromkeys(each for each in told if each != OWNERS_WORDS)
    if read:
        return ", ".join(read)
    return OWNERS_WORDS if told and _is_by_agent_alone(lines, path) else ""


def _is_by_agent_alone(lines: Sequence[str], path: str) -> bool:
    notes = lines[1:] if lines and _SUMMARY.match(lines[0]) else lines
    named = [line for line in notes if line.endswith(f" {path}")]
    return bool(named) and all(_BY_AGENT.match(line) for line in named)
