"""Reads what the engine wrote down of a session: one line of JSON for everything that happened.

A prompt is there before the model hears of it, and what the model says when it has said it; the
last line may be torn. It grows without limit, so only what is asked for is ever parsed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ollim_bot.agent import Trace
from ollim_bot.plain_files import open_file

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
