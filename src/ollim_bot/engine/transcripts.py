"""The engine's own record of its sessions, on disk."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from claude_agent_sdk import project_key_for_directory

from ollim_bot.agent import StoredSession, Trace
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import EngineError
from ollim_bot.plain_files import open_file

_PREFIX = "for-the-engine-"
_LONGEST_LIFE = 3600.0


@asynccontextmanager
async def private_file(folder: Path, text: str) -> AsyncIterator[Path]:
    """A file that only we can read, until the context is left. Raises `EngineError`."""
    path = folder / f"{_PREFIX}{uuid4().hex}"
    try:
        await asyncio.to_thread(_write, path, text)
    except OSError as refused:
        reason = f"{folder}: {refused.strerror}."
        raise EngineError(f"The engine could not be started: {reason}") from refused
    try:
        yield path
    finally:
        await asyncio.to_thread(_remove, path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(text.encode("utf-8", "replace"))


def _sweep(folder: Path) -> None:
    """Remove what a crash left behind."""
    longest_ago = time.time() - _LONGEST_LIFE
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_mtime < longest_ago:
                path.unlink()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


Entry = Mapping[str, Any]

NOT_TAKEN = Trace(is_taken=False)

# The engine speaks in the place of the model where a request failed or a turn was left unanswered.
_NO_MODEL = "<synthetic>"
_ENDS = ("end_turn", "stop_sequence")
_LINES_BEFORE_A_PROMPT = 100
_CHUNK = 1024 * 1024
# Of the line that a process leaves when it ends: a session is resumed from its `leafUuid` on.
_LEFT_OFF = b'"type":"last-prompt"'


def trace_of(path: Path, prompt: str, chunk: int = _CHUNK) -> Trace:
    """`chunk` is how many bytes are looked at together, from the end on."""
    try:
        with open(open_file(path), "rb") as file:
            asked = _prompt_entry(file, prompt, chunk)
            return NOT_TAKEN if asked is None else _trace(asked, _entries(file))
    except FileNotFoundError:
        return NOT_TAKEN


def mend_left_off(path: Path, chunk: int = _CHUNK) -> None:
    """Have the session go on from its end, where the engine would go back to an older place.

    A process that ends amid failing requests leaves off at the failure. The next one branches off
    before it; if that one dies without a word, all it had said would be forgotten.
    """
    with open(open_file(path), "rb") as file:
        found = _last(file, _LEFT_OFF, file.seek(0, os.SEEK_END), chunk)
        if found < 0:
            return
        file.seek(_last(file, b"\n", found, chunk) + 1)
        entries = _entries(file)
        mark, end = next(entries), None
        for entry in entries:
            if "uuid" not in entry or entry.get("isSidechain"):
                continue
            if entry.get("parentUuid") == mark.get("leafUuid"):
                return
            end = end if entry.get("subtype") == "api_error" else entry["uuid"]
        file.seek(-1, os.SEEK_END)
        is_torn = file.read(1) != b"\n"
    if end is not None:
        row = json.dumps({**mark, "leafUuid": end}, separators=(",", ":")).encode()
        # One write at the end: a process of the session may write there at the same time.
        with open(open_file(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            file.write((b"\n" if is_torn else b"") + row + b"\n")


def first_prompt(path: Path) -> Entry | None:
    """The prompt that began the session; None if it has none, or is that of a subagent."""
    with open(open_file(path), "rb") as file:
        for entry in _entries(islice(file, _LINES_BEFORE_A_PROMPT)):
            if entry.get("isSidechain"):
                return None
            if entry.get("type") == "user" and not entry.get("isMeta") and texts(entry):
                return entry
    return None


def texts(entry: Entry) -> Sequence[str]:
    """What was said in a message, without thoughts, images, calls and their results."""
    content = _message(entry).get("content")
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else ()
    return [str(block["text"]) for block in blocks if _is_text(block)]


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and "text" in block


def _message(entry: Entry) -> Entry:
    message = entry.get("message")
    return message if isinstance(message, dict) else {}


def _trace(asked: Entry, later: Iterable[Entry]) -> Trace:
    said: list[str] = []
    is_complete = False
    for entry in _of_the_same_turn(asked, later):
        message = _message(entry)
        is_answer = entry["type"] == "assistant" and message.get("model") != _NO_MODEL
        # After anything but an answer, one is still to come: to the result of a call, to a reason
        # why the turn may not end yet.
        is_complete = is_answer and message.get("stop_reason") in _ENDS
        said += texts(entry) if is_answer else ()
    return Trace(is_taken=True, is_complete=is_complete, answer="\n\n".join(filter(None, said)))


def _of_the_same_turn(asked: Entry, later: Iterable[Entry]) -> Iterator[Entry]:
    for entry in later:
        if entry.get("type") not in ("user", "assistant") or entry.get("isSidechain"):
            continue
        if entry["type"] == "user" and entry.get("promptId") != asked.get("promptId"):
            return
        yield entry


def _prompt_entry(file: BinaryIO, prompt: str, chunk: int) -> Entry | None:
    """Leaves the file behind the line of the prompt."""
    end = file.seek(0, os.SEEK_END)
    while (found := _last(file, f'"{prompt}"'.encode(), end, chunk)) >= 0:
        end = _last(file, b"\n", found, chunk) + 1
        file.seek(end)
        entry = _parsed(file.readline())
        if entry.get("type") == "user" and entry.get("uuid") == prompt:
            return entry
    return None


def _last(file: BinaryIO, sought: bytes, end: int, chunk: int) -> int:
    """Where it stands last before `end`, or -1."""
    start = end
    while start > 0:
        # One that stands across the border to the chunk before is found in either.
        end = min(end, start + len(sought) - 1)
        start = max(0, end - chunk)
        file.seek(start)
        found = file.read(end - start).rfind(sought)
        if found >= 0:
            return start + found
    return -1


def _entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    return map(_parsed, lines)


def _parsed(line: bytes) -> Entry:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


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
