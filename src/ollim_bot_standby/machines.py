"""What the machines of one bot know of each other: who leads, and what their database is like."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from ollim_bot.domain.moments import duration_in_words

# The tables by which a database is known to be one of ours.
OUR_TABLES = frozenset(("lease", "meta", "records", "messages"))


@dataclass(frozen=True, slots=True)
class Leader:
    """The machine that leads, or led last; `seconds_left` is 0 once another one may take over.

    It took over `since` seconds ago, and has last renewed the lease `renewed` seconds ago. Two
    machines may have one name; `machine` is the random id of its installation.
    """

    name: str
    epoch: int
    seconds_left: float
    schema: int
    version: str = field(default="", compare=False)
    since: float = field(default=0.0, compare=False)
    renewed: float = field(default=0.0, compare=False)
    machine: str = field(default="", compare=False)

    def is_on(self, machine: str) -> bool:
        """Whether this is the machine with that id."""
        return bool(machine) and self.machine == machine

    @property
    def is_leading(self) -> bool:
        return self.seconds_left > 0


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A database on a server, as it is found. `schema` is 0 without our tables.

    `closed` is the move it waits for. `move` names the move that brought the rows and its epoch,
    `key_names` are keys used there.
    """

    number: int
    version: str
    encoding: str
    is_replica: bool
    user: str
    can_create: bool
    tables: frozenset[str]
    leader: Leader | None = None
    schema: int = 0
    closed: str = ""
    move: str = ""
    key_names: tuple[str, ...] = ()

    @property
    def has_tables(self) -> bool:
        return self.tables >= OUR_TABLES

    @property
    def is_ours(self) -> bool:
        return self.has_tables and self.schema > 0

    @property
    def is_empty(self) -> bool:
        return self.tables <= {"lease"}

    @property
    def epoch(self) -> int:
        return 0 if self.leader is None else self.leader.epoch


@dataclass(frozen=True, slots=True)
class HandOver:
    """Who led before, and who leads after so many seconds; `after` is None if no machine does."""

    before: Leader
    after: Leader | None
    seconds: float

    @property
    def is_done(self) -> bool:
        return self.after is not None and self.after.epoch > self.before.epoch


def in_words(seconds: float) -> str:
    return duration_in_words(timedelta(seconds=max(round(seconds), 1)))
