"""The engine's own records of its sessions on disk."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ollim_bot.kernel.base.errors import EngineError
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.plain_files import open_file
from ollim_bot.kernel.values.events import tool_label
from ollim_bot.kernel.values.ports import StoredSession, Trace
from ollim_bot.kernel.values.usage import ModelCost, Usage

Entry = Mapping[str, Any]
NOT_TAKEN = Trace(is_taken=False)
# The model name of entries that the engine writes itself, after a failed or unanswered request.
_NO_MODEL = "<synthetic>"
_ENDS = ("end_turn", "stop_sequence")
_LINES_BEFORE_A_PROMPT = 100
_CHUNK = 1024 * 1024
# In the line that a process writes when it ends: a session resumes from its `leafUuid`.
_LAST_PROMPT = b'"type":"last-prompt"'
# In the line of the same moment that says what the session has cost.
_COST_STATE = b'"type":"cost-state"'
# A call that reads what others wrote, the path of a file that came with a message, or a fence.
_UNTRUSTED = re.compile(
    rb'"name": ?"(?:WebFetch|WebSearch|mcp__(?!discord__|docs__))|\bdownloads/'
    rb"|<untrusted-[0-9a-f]{16}>"
)
# The folder name of a longer path ends in a hash, which the SDK and its program make differently.
_LONGEST_NAME = 200
_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID_LENGTH = 36
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def project_key(directory: Path | str) -> str:
    """The name that the SDK gives to the folder with the records of a working directory.

    Made here, since the SDK takes a second to load, and a backup needs nothing else of it.
    """
    path = unicodedata.normalize("NFC", os.path.realpath(directory))
    name = re.sub("[^a-zA-Z0-9]", "-", path)
    if len(name) <= _LONGEST_NAME:
        return name
    value, digits = 0, ""
    for character in path:
        value = (31 * value + ord(character)) % 2**32
    value = min(value, 2**32 - value)
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return f"{name[:_LONGEST_NAME]}-{digits or '0'}"


def is_record_name(name: str) -> bool:
    """Whether the engine may look for a file of this name, below the folder with its records.

    It looks into these alone for a session; other names may be instructions to it.
    """
    session, rest = _SESSION.match(name), name[_ID_LENGTH:]
    is_below = rest.startswith("/") and ".." not in rest.split("/")
    return session is not None and (rest == ".jsonl" or is_below)


def config_folder(environment: Mapping[str, str]) -> Path:
    """Where the program keeps its records and its login."""
    home = environment.get("HOME") or str(Path.home())
    return Path(environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"))


@dataclass(frozen=True, slots=True)
class Utterance:
    """A prompt, or words of the agent, as the record of a session has them.

    `is_tainted`: the session itself had read untrusted text before this was said.
    """

    id: str
    at: datetime
    text: str
    is_prompt: bool
    is_tainted: bool = False


class Transcripts:
    """`environment` is that of the program, which decides where its records are.

    A record that cannot be read raises `EngineError`; it is never taken for a missing one.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._projects = config_folder(environment) / "projects"

    def find(self, session: SessionId) -> Path | None:
        """The record of the session; the newest if the session was moved between folders."""
        name = f"{session}.jsonl"
        if name != Path(name).name:
            return None
        with _readable():
            paths = [folder / name for folder in _folders(self._projects)]
        return max((path for path in paths if path.is_file()), key=time_of_change, default=None)

    def trace(self, session: SessionId, prompt: str) -> Trace:
        path = self.find(session)
        with _readable():
            return NOT_TAKEN if path is None else trace_of(path, prompt)

    def said(self, session: SessionId) -> Sequence[Utterance]:
        """The prompts and texts of the session, in order, also from before a compaction.

        A branch tells only what was said in itself. An unknown session has said nothing.
        """
        path = self.find(session)
        with _readable():
            return [] if path is None else list(_utterances(path))

    def repair(self, session: SessionId) -> None:
        """Repair the resume point. Call this before the session is resumed or branched off from."""
        path = self.find(session)
        if path is not None:
            with _readable():
                repair_resume_point(path)

    def spent(self, session: SessionId) -> Usage:
        """The cost that a process counts from if it resumes or branches off the session.

        That is what its last ended process recorded; nothing if none did.
        """
        path, said = self.find(session), dict[str, Any]()
        if path is not None:
            with _readable(), open(open_file(path), "rb") as file:
                found = _last(file, _COST_STATE, file.seek(0, os.SEEK_END), _CHUNK)
                if found >= 0:
                    file.seek(_last(file, b"\n", found, _CHUNK) + 1)
                    said = dict(_parsed(file.readline()))
        models = said.get("modelUsage")
        by_model = (
            ModelCost(model, _number(counted.get("costUSD")))
            for model, counted in (models if isinstance(models, dict) else {}).items()
            if isinstance(counted, dict)
        )
        return Usage(cost_usd=_number(said.get("totalCostUSD")), by_model=tuple(by_model))

    def sessions(self, directory: Path, limit: int) -> Sequence[StoredSession]:
        """The stored sessions, newest first, without those of other folders with similar names."""
        with _readable():
            folders = self._folders_of(directory)
        files = [path for folder in folders for path in folder.glob("*.jsonl")]
        newest_first = sorted(files, key=time_of_change, reverse=True)
        stored = (_stored(path, directory) for path in newest_first)
        return list(islice(filter(None, stored), max(0, limit)))

    def files_of(self, sessions: Collection[str]) -> Iterator[tuple[str, Path]]:
        """All records of the sessions, those of their subagents too, by their names in a folder.

        Of a session that was moved between folders the newest counts.
        """
        newest: dict[str, Path] = {}
        with _readable():
            for path in (each for folder in _folders(self._projects) for each in _records(folder)):
                known = newest.get(path.stem)
                if path.stem in sessions and (
                    known is None or time_of_change(path) > time_of_change(known)
                ):
                    newest[path.stem] = path
        for _, path in sorted(newest.items()):
            yield from _files_of_record(path)

    def files_of_one(self, session: SessionId) -> Iterator[tuple[str, Path]]:
        """As `files_of`, without a look at the other sessions."""
        path = self.find(session)
        if path is not None:
            yield from _files_of_record(path)

    def place_of(self, name: str, directory: Path) -> Path:
        """Where the file with a name from `files_of` is, or would be on this machine.

        Raises `EngineError` for a name that no record has.
        """
        if not is_record_name(name):
            raise EngineError(f"{name!r:.80} is no record of the engine.")
        record = self.find(SessionId(name[:_ID_LENGTH]))
        return (record.parent if record else self.folder_of(directory)) / name

    def all_files(self, directory: Path, sessions: Collection[str]) -> Iterator[Path]:
        """Everything that the program has stored about a working directory and these sessions.

        Also what belongs to a session outside its record, such as former versions of a file.
        """
        with _readable():
            own = [
                path
                for folder in self._folders_of(directory)
                if folder.is_dir()
                for path in _records(folder)
                if _is_of(path, directory)
            ]
            known = {*sessions, *(path.stem for path in own)}
            folders = [each for each in _folders(self._projects.parent) if each.is_dir()]
            places = dict.fromkeys(own)
            for folder in (*_folders(self._projects), *folders):
                named = folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ()
                places |= dict.fromkeys(
                    each for each in named if not known.isdisjoint(_SESSION.findall(each.name))
                )
        for place in places:
            if place.is_dir() and not place.is_symlink():
                yield from (each for each in sorted(place.rglob("*")) if each.is_file())
            elif place.is_file():
                yield place

    def folder_of(self, directory: Path) -> Path:
        """Where the program looks for the sessions of a working directory."""
        folders = self._folders_of(directory)
        return folders[0] if folders else self._projects / project_key(directory)

    def _folders_of(self, directory: Path) -> list[Path]:
        key = project_key(directory)
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


def _records(folder: Path) -> Iterator[Path]:
    # A file beside the folders of projects has none.
    with suppress(NotADirectoryError):
        yield from (path for path in folder.iterdir() if path.suffix == ".jsonl")


def _files_of_record(path: Path) -> Iterator[tuple[str, Path]]:
    yield path.name, path
    for below, _, names in sorted(os.walk(path.with_suffix(""))):
        for name in sorted(names):
            found = Path(below, name)
            yield f"{path.stem}/{found.relative_to(path.with_suffix(''))}", found


def time_of_change(path: Path) -> int:
    """The time of the last change; 0 if there is no such file."""
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
    if prompt is None or not _belongs(path, str(prompt.get("cwd")), directory):
        return None
    changed_at = datetime.fromtimestamp(state.st_mtime, UTC)
    said = "\n".join(texts(prompt))
    return StoredSession(SessionId(path.stem), changed_at, first_prompt=said, size=state.st_size)


def _is_of(path: Path, directory: Path) -> bool:
    """Whether the record may be of the directory; one without a prompt may be of any."""
    prompt = first_prompt(path)
    return prompt is None or _belongs(path, str(prompt.get("cwd")), directory)


def _belongs(path: Path, recorded: str, directory: Path) -> bool:
    """Whether the record at `path` is of `directory`, or was moved to its folder by a restore.

    Folders with similar names share a folder of records.
    """
    if os.path.realpath(recorded) == os.path.realpath(directory):
        return True
    return project_key(recorded) != path.parent.name


def trace_of(path: Path, prompt: str, chunk: int = _CHUNK) -> Trace:
    """What the record says of the prompt. Reads backwards, `chunk` bytes at a time."""
    try:
        with open(open_file(path), "rb") as file:
            asked = _prompt_entry(file, prompt, chunk)
            if asked is None:
                return NOT_TAKEN
            found = _trace(asked, map(_parsed, file))
            return replace(found, ended=(*found.ended, *_ended_in_subagents(path, asked)))
    except FileNotFoundError:
        return NOT_TAKEN


def repair_resume_point(path: Path, chunk: int = _CHUNK) -> None:
    """Make the session resume from its end, where the engine would resume from an older entry.

    A process that ends amid failing requests records the failure as its resume point. The next
    process branches off before it; if that one dies without recording its own, all that it said
    would be lost.
    """
    with open(open_file(path), "rb") as file:
        found = _last(file, _LAST_PROMPT, file.seek(0, os.SEEK_END), chunk)
        if found < 0:
            return
        file.seek(_last(file, b"\n", found, chunk) + 1)
        entries = map(_parsed, file)
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
        # One write at the end: a process of the session may append at the same time.
        with open(open_file(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            file.write(b"\n" * is_torn + row + b"\n")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def first_prompt(path: Path) -> Entry | None:
    """The first prompt of the session; None if it has none, or belongs to a subagent."""
    with open(open_file(path), "rb") as file:
        for entry in map(_parsed, islice(file, _LINES_BEFORE_A_PROMPT)):
            if entry.get("isSidechain"):
                return None
            if entry.get("type") == "user" and not entry.get("isMeta") and texts(entry):
                return entry
    return None


def _utterances(path: Path) -> Iterator[Utterance]:
    is_tainted = False
    with open(open_file(path), "rb") as file:
        for line in file:
            entry = _parsed(line)
            is_tainted |= "forkedFrom" not in entry and _UNTRUSTED.search(line) is not None
            said, at = "\n\n".join(filter(None, texts(entry))), None
            with suppress(ValueError):
                at = datetime.fromisoformat(str(entry.get("timestamp")))
            if said and at is not None and at.tzinfo and _is_own(entry):
                is_prompt = entry["type"] == "user"
                yield Utterance(str(entry.get("uuid")), at, said, is_prompt, is_tainted)


def _is_own(entry: Entry) -> bool:
    """Whether the entry was said in this session, by the agent itself or to it."""
    is_said = entry.get("type") in ("user", "assistant")
    is_added = any(entry.get(mark) for mark in ("isMeta", "isSidechain", "isCompactSummary"))
    is_real = _message(entry).get("model") != _NO_MODEL
    return is_said and is_real and not is_added and "forkedFrom" not in entry


def texts(entry: Entry) -> Sequence[str]:
    """The texts of a message, without thoughts, images, calls and their results."""
    content = _message(entry).get("content")
    if isinstance(content, str):
        return [content]
    return [str(block["text"]) for block in _blocks(entry, "text") if "text" in block]


def _message(entry: Entry) -> Entry:
    message = entry.get("message")
    return message if isinstance(message, dict) else {}


def _trace(asked: Entry, later: Iterable[Entry]) -> Trace:
    said: list[str] = []
    calls: dict[object, str] = {}
    ended: list[str] = []
    is_complete = False
    for entry in _of_the_same_turn(asked, later):
        calls |= _calls(entry)
        ended += _ended(entry, calls)
        message = _message(entry)
        is_answer = entry["type"] == "assistant" and message.get("model") != _NO_MODEL
        # After any other entry an answer is still to come: after the result of a call, or after a
        # reason why the turn may not end yet.
        is_complete = is_answer and message.get("stop_reason") in _ENDS
        said += texts(entry) if is_answer else ()
    answer = "\n\n".join(filter(None, said))
    return Trace(is_taken=True, is_complete=is_complete, answer=answer, ended=tuple(ended))


def _calls(entry: Entry) -> dict[object, str]:
    """The labels of the calls in the entry, by their ids."""
    return {
        block.get("id"): tool_label(str(block.get("name")), block.get("input") or {})
        for block in _blocks(entry, "tool_use")
    }


def _ended(entry: Entry, calls: Mapping[object, str]) -> Iterator[str]:
    """The labels of the calls whose results are in the entry; an interrupted one has an error."""
    for block in _blocks(entry, "tool_result"):
        label = calls.get(block.get("tool_use_id"))
        if label is not None and not block.get("is_error"):
            yield label


def _ended_in_subagents(path: Path, asked: Entry) -> Iterator[str]:
    """The labels of the calls that subagents have the results of, since the prompt."""
    for record in sorted((path.with_suffix("") / "subagents").glob("*.jsonl")):
        calls: dict[object, str] = {}
        with open(open_file(record), "rb") as file:
            for entry in map(_parsed, file):
                if str(entry.get("timestamp")) >= str(asked.get("timestamp")):
                    calls |= _calls(entry)
                    yield from _ended(entry, calls)


def _blocks(entry: Entry, kind: str) -> Iterator[Entry]:
    content = _message(entry).get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield block


def _of_the_same_turn(asked: Entry, later: Iterable[Entry]) -> Iterator[Entry]:
    for entry in later:
        if entry.get("type") not in ("user", "assistant") or entry.get("isSidechain"):
            continue
        if entry["type"] == "user" and entry.get("promptId") != asked.get("promptId"):
            return
        yield entry


def _prompt_entry(file: BinaryIO, prompt: str, chunk: int) -> Entry | None:
    """The entry of the prompt. Leaves the file position after its line."""
    end = file.seek(0, os.SEEK_END)
    while (found := _last(file, f'"{prompt}"'.encode(), end, chunk)) >= 0:
        end = _last(file, b"\n", found, chunk) + 1
        file.seek(end)
        entry = _parsed(file.readline())
        if entry.get("type") == "user" and entry.get("uuid") == prompt:
            return entry
    return None


def _last(file: BinaryIO, sought: bytes, end: int, chunk: int) -> int:
    """The last position of `sought` before `end`, or -1."""
    start = end
    while start > 0:
        # The chunks overlap, so that a match across their border is found.
        end = min(end, start + len(sought) - 1)
        start = max(0, end - chunk)
        file.seek(start)
        found = file.read(end - start).rfind(sought)
        if found >= 0:
            return start + found
    return -1


def _parsed(line: bytes) -> Entry:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
