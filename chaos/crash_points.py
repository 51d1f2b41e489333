"""The names of the points at which a process can crash while it writes a file."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePath

DATABASE = "ollim.db"
CALENDARS = "calendars"
CALENDAR_FILES = tuple(f"{CALENDARS}/*.{each}" for each in ("ics", "json", "source.json"))


class WritePhase(StrEnum):
    """How far a process is in changing a file or a folder."""

    BEFORE_WRITE = "before the writing"
    MID_WRITE = "in the middle of the writing"
    BEFORE_SYNC = "before the sync"
    AFTER_SYNC = "after the sync"
    BEFORE_RENAME = "before the renaming"
    BEFORE_LINK = "before the linking"
    BEFORE_REMOVAL = "before the removal"
    BEFORE_FOLDER_SYNC = "before the folder's sync"
    AFTER_FOLDER_SYNC = "after the folder's sync"
    BEFORE_COMMIT = "before the commit"
    AFTER_COMMIT = "after the commit"


_DRAFT_PHASES = {
    WritePhase.BEFORE_WRITE: "before the draft",
    WritePhase.MID_WRITE: "in the middle of the draft",
    WritePhase.BEFORE_SYNC: "before the draft's sync",
    WritePhase.AFTER_SYNC: "after the draft's sync",
}
# A phase is left out if nothing on the disk has changed since the phase before it.
_APPEND = (WritePhase.BEFORE_WRITE, WritePhase.MID_WRITE)
_REPLACE = (
    _DRAFT_PHASES[WritePhase.MID_WRITE],
    WritePhase.BEFORE_RENAME,
    WritePhase.BEFORE_FOLDER_SYNC,
    WritePhase.AFTER_FOLDER_SYNC,
)
_CREATE = (
    _DRAFT_PHASES[WritePhase.MID_WRITE],
    WritePhase.BEFORE_LINK,
    WritePhase.BEFORE_FOLDER_SYNC,
    WritePhase.AFTER_FOLDER_SYNC,
)


def is_draft(path: PurePath) -> bool:
    """Whether this is the temporary file that later takes the place of another one."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def label_of(path: PurePath) -> str:
    """The name of a file in `state/` or at the top; otherwise the name of the file's folder.

    `path` is relative to the data directory. A draft has the name of the file it is for. The
    files of a calendar are told apart by their endings, since they are written one by one.
    """
    name = path.name[1 : -len(".tmp")] if is_draft(path) else path.name
    if len(path.parts) < 2 or path.parts[:-1] == ("state",):
        return name
    folder = path.parts[-2]
    return f"{folder}/*.{name.partition('.')[2]}" if folder == CALENDARS else folder


def crash_point(phase: WritePhase, path: PurePath) -> str:
    words = _DRAFT_PHASES.get(phase, phase) if is_draft(path) else phase
    return f"{words}: {label_of(path)}"


def _crash_points(phases: tuple[str, ...], *labels: str) -> tuple[str, ...]:
    return tuple(f"{phase}: {label}" for label in labels for phase in phases)


CRASH_POINTS: tuple[str, ...] = (
    *_crash_points((WritePhase.BEFORE_COMMIT, WritePhase.AFTER_COMMIT), DATABASE),
    *_crash_points(_APPEND, "session_history.jsonl"),
    *_crash_points(_REPLACE, "heartbeat", "pending_updates.json", "ping_budget.json"),
    *_crash_points(_REPLACE, "fork.json", "fork_messages.json", "inquiries.json", "sessions.json"),
    *_crash_points(_REPLACE, "config.json", ".gitignore", "web_browsers.json"),
    *_crash_points(_REPLACE, "tasks.md", "task_ids.json"),
    *_crash_points(
        (WritePhase.BEFORE_REMOVAL, WritePhase.BEFORE_FOLDER_SYNC, WritePhase.AFTER_FOLDER_SYNC),
        "reminders",
    ),
    *_crash_points(
        (WritePhase.BEFORE_RENAME, WritePhase.BEFORE_REMOVAL, WritePhase.BEFORE_FOLDER_SYNC),
        "run_requests",
    ),
    *_crash_points((WritePhase.BEFORE_REMOVAL,), "pending_updates.json"),
    *_crash_points((WritePhase.BEFORE_RENAME, WritePhase.BEFORE_REMOVAL), "engine"),
    *_crash_points((WritePhase.BEFORE_FOLDER_SYNC, WritePhase.AFTER_FOLDER_SYNC), *CALENDAR_FILES),
    *_crash_points(_CREATE, "IDENTITY.md", "agents", "web_token"),
)


def labels_without_crash_point(passed: Iterable[str]) -> set[str]:
    """The files and folders that were written and are not covered by `CRASH_POINTS`.

    `passed` are the crash points that the bot has passed.
    """
    known = {each.rpartition(": ")[2] for each in CRASH_POINTS}
    return {each.rpartition(": ")[2] for each in passed} - known
