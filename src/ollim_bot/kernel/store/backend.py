"""The seam between the store and a database: what every kind of database does for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from ollim_bot.kernel.store.connection import Statements
from ollim_bot.kernel.store.transaction import Step

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Sharing:
    """What this process may do beside the other machines that have the same rows.

    `machine` is the id of this one, empty if no other has them. `may_act` is asked right before
    everything that cannot be undone. `read_only` returns the sentence that says why nothing can be
    changed here.
    """

    machine: str = ""
    may_act: Callable[[], bool] = lambda: True
    read_only: Callable[[], str] | None = None


ALONE = Sharing()


class Backend(Protocol):
    """Keeps all rows. Steps follow each other; questions are answered beside them, from any thread.

    A commit whose outcome is unknown is looked up where the database can tell, and ends the process
    with `OutcomeUnknown` where it cannot.
    """

    @property
    def sharing(self) -> Sharing: ...

    @property
    def is_writable(self) -> bool:
        """False from the first write that was refused until one succeeds again."""

    def run(self, step: Step[R]) -> R:
        """Run `step(tx)` in a transaction, and return its result.

        When this returns, everything is durable and the mirrors are written. When the step raises,
        nothing has changed. A step may be run twice, with the first run rolled back.
        """

    def run_noting(self, step: Step[R]) -> tuple[R, frozenset[str]]:
        """As `run`, and also return the names of what was changed."""

    def query(self, question: Step[R]) -> R:
        """Return `question(tx)`, which sees one state of the database and cannot change it."""

    def note_version(self) -> bool:
        """Note the version; True if another process has committed since the last call."""

    def tidy(self, *, is_idle: bool) -> None:
        """Do the small upkeep of every second; `is_idle` says that no step waits for it."""

    def recovered(self) -> Backend:
        """The backend to go on with, after a look whether writes succeed again."""

    def copy_if_due(self) -> None:
        """Make an automatic copy, if the database keeps copies and one is due."""

    def close(self) -> None:
        """Close all connections. Further calls are harmless; steps fail from now on."""


class SharedBackend(ABC):
    """The rows of several machines, as a command uses them: only where the bot leads for steps.

    `is_holder` says that no bot leads, so that the command does for its steps; `leads`, that the
    bot here does. With `is_agent` that bot keeps this process to the limits of its agent.
    """

    sharing = ALONE
    is_writable = True
    is_holder = False
    leads = False
    is_agent = False

    def run(self, step: Step[R]) -> R:
        return self.run_noting(step)[0]

    @abstractmethod
    def run_noting(self, step: Step[R]) -> tuple[R, frozenset[str]]: ...

    @abstractmethod
    def query(self, question: Step[R]) -> R: ...

    @abstractmethod
    def check_may_change(self) -> None:
        """Raises `StorageError` if a step would be refused: another machine leads."""

    def note_version(self) -> bool:
        return False

    def tidy(self, *, is_idle: bool) -> None:  # noqa: B027  # a server tidies by itself
        pass

    def recovered(self) -> Backend:
        return self

    def copy_if_due(self) -> None:  # noqa: B027  # the copies of a server are its own
        pass

    @abstractmethod
    def close(self) -> None: ...


class ServerRows(SharedBackend):
    """As `SharedBackend`, with what upkeep asks of a server."""

    @abstractmethod
    def query_rows(self, question: Callable[[Statements], R]) -> R:
        """As `query`, for rows that no repository offers."""

    @abstractmethod
    def waiting_for_this(self) -> Sequence[tuple[str, str]]:
        """The names and versions of machines that stand by; none if this one does not lead."""

    @abstractmethod
    def copy_to(self, target: Path, now: datetime) -> None:
        """Write one state of all rows into a new file of SQLite. Raises `StorageError`."""
