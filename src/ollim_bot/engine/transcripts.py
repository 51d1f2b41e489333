"""Finds the engine's own records of sessions, where its program keeps them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from claude_agent_sdk import project_key_for_directory

from ollim_bot.agent import StoredSession, Trace
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.record import NOT_TAKEN, first_prompt, mend_left_off, texts, trace_of
from ollim_bot.errors import EngineError

# The name of a longer path ends in a hash, which the SDK and its program make in different ways.
_LONGEST_NAME = 200


class Transcripts:
    """`environment` is that of the program, which decides where its records are.

    One that is there but cannot be read is an `EngineError`, never taken for none.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        home = environment.get("HOME") or str(Path.home())
        config = environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
        self._projects = Path(config) / "projects"

    def find(self, session: SessionId) -> Path | None:
        """The newest, if a session was moved from one folder to another."""
        name = f"{session}.jsonl"
        if name != Path(name).name:
            return None
        with _readable():
            paths = [folder / name for folder in _folders(self._projects)]
        return max((path for path in paths if path.is_file()), key=_changed, default=None)

    def trace(self, session: SessionId, prompt: str) -> Trace:
        path = self.find(session)
        with _readable():
            return NOT_TAKEN if path is None else trace_of(path, prompt)

    def mend(self, session: SessionId) -> None:
        """Before it is resumed, or branched off from."""
        path = self.find(session)
        if path is not None:
            with _readable():
                mend_left_off(path)

    def sessions(self, directory: Path, limit: int) -> Sequence[StoredSession]:
        """The newest first; those of other folders whose names look alike are left out."""
        with _readable():
            folders = self._folders_of(directory)
        files = [path for folder in folders for path in folder.glob("*.jsonl")]
        newest_first = sorted(files, key=_changed, reverse=True)
        stored = (_stored(path, directory) for path in newest_first)
        return list(islice(filter(None, stored), max(0, limit)))

    def _folders_of(self, directory: Path) -> list[Path]:
        key = project_key_for_directory(directory)
        if len(key) <= _LONGEST_NAME:
            return [self._projects / key]
        return [
            folder
            for folder in _folders(self._projects)
            if folder.name.startswith(key[:_LONGEST_NAME])
        ]


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        place = f"{refused.filename}: {refused.strerror}."
        raise EngineError(f"The engine's record cannot be read. {place}") from refused


def _folders(projects: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from projects.iterdir()


def _changed(path: Path) -> int:
    """0 if it has just gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _stored(path: Path, directory: Path) -> StoredSession | None:
    try:
        state = path.stat()
        prompt = first_prompt(path)
    except OSError:
        return None
    if prompt is None or not _is_same(str(prompt.get("cwd")), directory):
        return None
    changed_at = datetime.fromtimestamp(state.st_mtime, UTC)
    said = "\n".join(texts(prompt))
    return StoredSession(SessionId(path.stem), changed_at, first_prompt=said, size=state.st_size)


def _is_same(recorded: str, directory: Path) -> bool:
    return os.path.realpath(recorded) == os.path.realpath(directory)
