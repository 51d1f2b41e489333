"""From notes about written files to one commit: which files belong in it, and its message."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.shortening import shortened
from ollim_bot.storage.journal.git import GitFailed
from ollim_bot.storage.journal.repository import Change, Repository

_DATA = DataPaths(Path())
_NEVER_TRACKED = (
    _DATA.state,
    _DATA.downloads,
    _DATA.claude_skills,
    _DATA.routine_spec_link,
    _DATA.webhook_spec_link,
)
_SUBJECT_LENGTH = 72


class Note(NamedTuple):
    path: Path
    message: str


def is_tracked(relative: PurePath) -> bool:
    """Whether a file of the data directory may ever be committed, whatever `.gitignore` says."""
    if relative == _DATA.session_history:
        return True
    if relative.is_absolute() or any(map(relative.is_relative_to, _NEVER_TRACKED)):
        return False
    return relative.name != "" and not (
        _is_half_written(relative) or any(map(_is_never_tracked, relative.parts))
    )


def _is_half_written(relative: PurePath) -> bool:
    return relative.name.startswith(".") and relative.suffix == ".tmp"


def _is_never_tracked(part: str) -> bool:
    return part in ("..", ".env") or part.startswith(".env.") or part.lower() == ".git"


def tracked_changes(repository: Repository) -> list[Change]:
    return [change for change in repository.changes() if is_tracked(change.path)]


def record(repository: Repository, notes: Iterable[Note]) -> dict[PurePosixPath, str]:
    """Commit what the notes speak of. What cannot be committed is returned, with the reason.

    A note about a folder speaks of all files in it. Files that do not differ from the last commit
    are left out without a word, as are those that are never tracked.
    """
    root = repository.git.root
    placed = [(place, note.message) for note in notes if (place := _place(root, note.path))]
    noted = {place for place, _ in placed}
    wanted = [
        change for change in tracked_changes(repository) if noted.intersection(_line(change.path))
    ]
    refused = repository.stage([change.path for change in wanted if not change.staged])
    recorded = [change.path for change in wanted if change.path not in refused]
    seen = {place for path in recorded for place in _line(path)}
    if recorded:
        repository.commit(recorded, commit_message([each for each in placed if each[0] in seen]))
    elif refused:
        raise GitFailed(root, next(iter(refused.values())))
    return refused | _in_other_repositories(root, noted - seen)


def _place(root: Path, path: Path) -> PurePosixPath | None:
    """Where the file really is below `root`, linked folders followed; None if it is elsewhere."""
    whole = root / path
    try:
        real = Path(os.path.realpath(whole.parent), whole.name)
        return PurePosixPath(real.relative_to(root))
    except ValueError:
        return None


def _line(path: PurePosixPath) -> tuple[PurePosixPath, ...]:
    return (path, *path.parents)


def _in_other_repositories(root: Path, places: Iterable[PurePosixPath]) -> dict[PurePosixPath, str]:
    folders = {folder for place in places if is_tracked(place) for folder in _line(place)[:-1]}
    return {
        folder: "it is a repository of its own"
        for folder in sorted(folders)
        if os.path.lexists(root / folder / ".git")
    }


def commit_message(noted: Sequence[tuple[PurePosixPath, str]]) -> str:
    """The only message as it is, or a summary of several and then each on a line."""
    messages = [
        message.replace("\0", " ").strip() or f"change {place}"
        for place, message in dict.fromkeys(noted)
    ]
    if len(messages) == 1:
        return f"{messages[0]}\n"
    lines = [" ".join(message.split()) for message in messages]
    subject = _shortened(f"{len(lines)} changes: {', '.join(lines)}")
    return "\n".join((subject, "", *lines, ""))


def _shortened(line: str) -> str:
    return shortened(line, _SUBJECT_LENGTH)
