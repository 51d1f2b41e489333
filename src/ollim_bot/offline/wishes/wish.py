"""What can be wished for, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from ollim_bot.domain.jobs import JobKind


@dataclass(frozen=True, slots=True)
class Remind:
    """`when` is one moment ahead, in words that the tools understand."""

    task: str
    when: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """`message` is what the owner wants to hear or to be asked, in the owner's own words."""

    message: str
    cron: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """`subject` is an id or words of the text; empty for the only one there is.

    `kind` is None where only an id was named.
    """

    kind: JobKind | None
    subject: str


@dataclass(frozen=True, slots=True)
class Unsure:
    """A wish that nothing is done about; `reason` says what to write instead."""

    reason: str


Wish = Remind | Repeat | Cancel | Unsure
