"""The errors of the program, each with a sentence for a person.

OllimError                      str(error) is the sentence a person reads
├── WrongInput                  exit 2: a typed or set value is wrong
│   ├── BadSettings             the environment or `.env`, all problems at once
│   ├── BadCron                 a cron line, by field
│   ├── BadPhrase               a moment or a duration in words
│   └── BadJob                  a job that would not be valid, all problems at once
├── NotFound                    nothing has that id
│   ├── JobNotFound
│   ├── TaskNotFound
│   └── EventNotFound
├── DuplicateId                 two files claim one id
├── ChangedMeanwhile            a file is no longer as it was shown
├── AlreadyRunning              another process runs the bot
├── DeliveryFailed              a message certainly did not arrive
│   └── NotStored               our own disk could not take it, so it can only be shown
├── Unreachable                 a service did not answer; worth another try
├── DeliveryUncertain           it is unknown whether a message has arrived
├── SignInNeeded                exit 3: no login exists yet
├── GoogleRefused               Google understood a request and does not carry it out
├── ToolServerFailed            a tool server of the owner does not work
├── CalendarFailed              a calendar could not be read; its last copy remains
├── SupervisorFailed            systemd or launchd did not do what it was told
├── EngineError                 the engine could not be started
│   └── SessionLost             the engine does not know the session any more
└── StorageError                a file could not be read or written; nothing was lost
    ├── Unreadable              the file exists but cannot be read: never taken for empty
    ├── NewerFormat             written by a newer version: left untouched
    ├── WriteFailed             disk full, read-only, …: the old content remains
    └── EditRefused             a field of a document cannot be changed without harm
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class OllimError(Exception):
    """Ends a command with its sentence on stderr and `exit_code`."""

    exit_code = 1


class WrongInput(OllimError):
    exit_code = 2


class BadSettings(WrongInput):
    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class BadCron(WrongInput):
    """`field` is the name of the wrong field, or None when the line as a whole is wrong."""

    def __init__(self, text: str, reason: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.text = text
        self.field = field
        self.reason = reason


class BadRepeat(WrongInput):
    """A repeat that cannot be understood; the text says what would be right."""


class BadPhrase(WrongInput):
    """`readings` are the right phrases that may be meant by `text`."""

    def __init__(self, text: str, reason: str, readings: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.text = text
        self.readings = tuple(readings)


class BadJob(WrongInput):
    """`problems` are complete sentences with file, line and field where there are any."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class NotFound(OllimError):
    pass


class JobNotFound(NotFound):
    def __init__(self, kind: str, job_id: str) -> None:
        super().__init__(f"There is no {kind} {job_id}. `ollim-bot {kind} list` shows them all.")


class TaskNotFound(NotFound):
    def __init__(self, task_id: str, existing: str = "") -> None:
        rest = existing or "`ollim-bot tasks list` shows them all."
        super().__init__(f"There is no task {task_id}. {rest}")


class EventNotFound(NotFound):
    def __init__(self, event_id: str) -> None:
        super().__init__(f"There is no event {event_id}. `ollim-bot cal upcoming` shows them.")


class DuplicateId(OllimError):
    """`holder` is the file that is in use, where one of them is."""

    def __init__(self, job_id: str, files: Sequence[str], holder: str = "") -> None:
        rest = f" Until then, {holder} is in use." if holder else ""
        super().__init__(
            f"{' and '.join(files)} have the same id {job_id}. Give one of them another id.{rest}"
        )
        self.job_id = job_id
        self.files = tuple(files)


class ChangedMeanwhile(OllimError):
    def __init__(self, file: str) -> None:
        super().__init__(f"{file} was changed meanwhile. Nothing was saved.")


class AlreadyRunning(OllimError):
    def __init__(self, pid: int | None) -> None:
        holder = "process id unknown" if pid is None else f"process {pid}"
        super().__init__(f"ollim-bot is already running ({holder}). Stop it first.")
        self.pid = pid


class DeliveryFailed(OllimError):
    pass


class NotStored(DeliveryFailed):
    pass


class Unreachable(OllimError):
    pass


class DeliveryUncertain(OllimError):
    pass


class SignInNeeded(OllimError):
    exit_code = 3


class GoogleRefused(OllimError):
    """`reason` is Google's own word, such as `notFound` or `fullSyncRequired`, or empty."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"Google refused this ({status}): {message}")
        self.status = status
        self.reason = reason


class ToolServerFailed(OllimError):
    """The sentence completes the name of the server: `did not answer within 5 s.`"""


class CalendarFailed(OllimError):
    """The sentence holds no part of the calendar's address, and no text of the calendar."""


class SupervisorFailed(OllimError):
    pass


class EngineError(OllimError):
    pass


class SessionLost(EngineError):
    def __init__(self, session_id: str) -> None:
        super().__init__("The earlier conversation could not be found; a new one begins.")
        self.session_id = session_id


class StorageError(OllimError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class Unreadable(StorageError):
    pass


class NewerFormat(StorageError):
    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            path,
            f"was written by a newer ollim-bot (format {found}; this one knows {known}). "
            "It is left as it is. Update ollim-bot, or move the file away.",
        )
        self.found = found
        self.known = known


class WriteFailed(StorageError):
    pass


class EditRefused(StorageError):
    pass
