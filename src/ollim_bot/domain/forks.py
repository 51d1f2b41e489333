"""Interactive forks: a branch of the conversation, and the three ways out of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum

from ollim_bot.domain.sessions import SessionId

REPORT_LENGTH = 500


class Idleness(Enum):
    """What is to be done about a fork that nobody talks in."""

    KEEP = "keep"
    PROMPT = "prompt"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Fork:
    """The fork that is open now.

    `main` is what the main session was when the fork branched off, None if there was none, and
    `main_turns` how many turns it had had since the program began to count; `resumed_from` is
    another session than main that it goes on from. `session` is None until the engine has named it.
    """

    session: SessionId | None
    main: SessionId | None
    topic: str
    idle_limit: timedelta
    last_activity: datetime
    began: datetime
    resumed_from: SessionId | None = None
    is_prompted: bool = False
    has_answered: bool = False
    last_answer: str = ""
    main_turns: int = 0

    def touched(self, now: datetime) -> Fork:
        """The owner did something in it."""
        return replace(self, last_activity=now, is_prompted=False)

    def prompted(self, now: datetime) -> Fork:
        """The agent was told that it is idle; from now on the same time again."""
        return replace(self, last_activity=now, is_prompted=True)

    def answered(self, text: str) -> Fork:
        return replace(self, has_answered=True, last_answer=text[:REPORT_LENGTH])

    def named(self, session: SessionId) -> Fork:
        return replace(self, session=session)

    def verdict(self, now: datetime) -> Idleness:
        idle = now.astimezone(UTC) - self.last_activity.astimezone(UTC)
        if idle < self.idle_limit:
            return Idleness.KEEP
        return Idleness.CLOSE if self.is_prompted else Idleness.PROMPT

    def obstacle_to_saving(self, main: SessionId | None, main_turns: int) -> str:
        """Why it cannot take the place of the main session; empty if it can."""
        if self.resumed_from is not None and self.resumed_from != main:
            return "it goes on from another conversation than today's main one"
        if main != self.main or main_turns != self.main_turns:
            return "the main conversation has gone on since it branched off"
        return ""


@dataclass(frozen=True, slots=True)
class Save:
    """The fork becomes the main session. `is_confirmed` by the owner, as a button is."""

    is_confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Only a summary comes back."""

    summary: str


@dataclass(frozen=True, slots=True)
class Discard:
    pass


ForkExit = Save | Report | Discard

ENDINGS = {Save: "saved to main", Report: "summary queued", Discard: "discarded"}


def end_title(how: ForkExit) -> str:
    return f"Fork Ended — {ENDINGS[type(how)]}"
