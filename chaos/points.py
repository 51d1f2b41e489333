"""Names the points at which a process can die while it writes: one for each step of each file."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePath

DATABASE = "ollim.db"


class Moment(StrEnum):
    """Where in the steps of a change a process is."""

    WRITING = "before the writing"
    HALF = "in the middle of the writing"
    SYNC = "before the sync"
    SYNCED = "after the sync"
    RENAMING = "before the renaming"
    LINKING = "before the linking"
    REMOVAL = "before the removal"
    FOLDER = "before the folder's sync"
    DONE = "after the folder's sync"
    COMMIT = "before the commit"
    COMMITTED = "after the commit"


_DRAFT = {
    Moment.WRITING: "before the draft",
    Moment.HALF: "in the middle of the draft",
    Moment.SYNC: "before the draft's sync",
    Moment.SYNCED: "after the draft's sync",
}
# Where nothing on the disk has changed since the point before, there is no need to die again.
_LINE = (Moment.WRITING, Moment.HALF, Moment.SYNC, Moment.SYNCED)
_TEXT = (_DRAFT[Moment.HALF], Moment.RENAMING, Moment.FOLDER, Moment.DONE)
_FILE = (_DRAFT[Moment.HALF], Moment.LINKING, Moment.FOLDER, Moment.DONE)


def is_draft(path: PurePath) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def label_of(path: PurePath) -> str:
    """`path` is within the data directory: a file of `state/` by its name, others by the folder."""
    if len(path.parts) < 2 or path.parts[:-1] == ("state",):
        return path.name[1 : -len(".tmp")] if is_draft(path) else path.name
    return path.parts[-2]


def point(moment: Moment, path: PurePath) -> str:
    words = _DRAFT.get(moment, moment) if is_draft(path) else moment
    return f"{words}: {label_of(path)}"


def _points(moments: tuple[str, ...], *labels: str) -> tuple[str, ...]:
    return tuple(f"{moment}: {label}" for label in labels for moment in moments)


POINTS: tuple[str, ...] = (
    *_points((Moment.COMMIT, Moment.COMMITTED), DATABASE),
    *_points(_LINE[:2], "session_history.jsonl"),
    *_points(_TEXT, "heartbeat", "pending_updates.json", "ping_budget.json"),
    *_points(_TEXT, "fork.json", "fork_messages.json", "inquiries.json", "sessions.json"),
    *_points(_TEXT, "config.json", ".gitignore", "web_browsers.json"),
    *_points((Moment.REMOVAL, Moment.FOLDER, Moment.DONE), "reminders"),
    *_points((Moment.RENAMING, Moment.REMOVAL, Moment.FOLDER), "run_requests"),
    *_points((Moment.REMOVAL,), "pending_updates.json"),
    *_points((Moment.RENAMING, Moment.REMOVAL), "engine"),
    *_points(_FILE, "IDENTITY.md", "agents", "web_token"),
)


def without_point(passed: Iterable[str]) -> set[str]:
    """The files among those that were written which have no point at all."""
    known = {each.rpartition(": ")[2] for each in POINTS}
    return {each.rpartition(": ")[2] for each in passed} - known
