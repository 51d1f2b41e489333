"""Reads the lists of jobs that the tools give, and shows them in few lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_MOST_SHOWN = 15

_REMINDER = re.compile(
    r"- (?P<id>\S+) · (?P<when>[^·\n]+?)(?P<paused> · paused)? · (?P<title>.*) \([^()\n]*\)"
)
_ROUTINE = re.compile(r"(?P<id>\S+) {2,}(?P<when>\S+(?: \S+)*) {2,}(?P<title>\S.*)")
_WORD = re.compile(r"[^\W_]+")
_FILLING = frozenset(
    [
        "the",
        "my",
        "a",
        "an",
        "to",
        "about",
        "of",
        "for",
        "at",
        "on",
        "in",
        "and",
        "that",
        "me",
        "i",
        "is",
        "it",
    ]
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A job of a list; `when` is its next moment in words."""

    id: str
    when: str
    title: str

    def is_about(self, subject: str) -> bool:
        """Whether every word that says something about the subject is in its text."""
        wanted = _words(subject) - _FILLING or _words(subject)
        return bool(wanted) and wanted <= _words(self.title)


def reminders_in(listed: str) -> tuple[Listed, ...]:
    return tuple(_found(_REMINDER, listed.splitlines()))


def routines_in(listed: str) -> tuple[Listed, ...]:
    return tuple(_found(_ROUTINE, listed.splitlines()))


def other_lines(listed: str) -> tuple[str, ...]:
    """What else a list says: that there are none, or what is wrong with a file."""
    lines = (line for line in listed.splitlines() if line.strip())
    return tuple(
        line for line in lines if not _REMINDER.fullmatch(line) and not _ROUTINE.fullmatch(line)
    )


def matching(jobs: Iterable[Listed], subject: str) -> tuple[Listed, ...]:
    """Those that may be meant: the one of that id or that very text, else all that are about it."""
    known = tuple(jobs)
    exact = [job for job in known if subject.lower() in (job.id.lower(), job.title.lower())]
    if len(exact) == 1:
        return tuple(exact)
    return tuple(job for job in known if not subject or job.is_about(subject))


def shown(jobs: Sequence[Listed], *, with_ids: bool = False) -> str:
    lines = [f"- {job.when}: {job.title}" for job in jobs[:_MOST_SHOWN]]
    if with_ids:
        lines = [f"{line} (`cancel {job.id}`)" for line, job in zip(lines, jobs, strict=False)]
    more = len(jobs) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more else lines)


def _found(form: re.Pattern[str], lines: Iterable[str]) -> Iterator[Listed]:
    for line in lines:
        if row := form.fullmatch(line):
            when = f"{row['when']}, paused" if row.groupdict().get("paused") else row["when"]
            yield Listed(row["id"], when, row["title"])


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
