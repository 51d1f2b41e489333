"""A data directory in which a sentence stands in every place that the program has."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.engine.transcripts import project_key
from ollim_bot.kernel.store.copies import copy_database
from ollim_bot.kernel.store.journal import Git, Note, record
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.updates import PendingUpdate

SENTENCE = "My purple ulcer came back in 1987"
OTHER = "The ferns need water"
# Any of these in a file would tell of the sentence.
TRACES = (b"purple ulcer", b"purple-ulcer", b"ulcer came back", b"ulcer-came-back")
SESSION = SessionId("1a2b3c4d-0000-4000-8000-000000000000")
# The keys of two changes.
CHANGED, REMOVED = "0a1b2c3e", "0a1b2c3f"
UNRELATED = SessionId("9a2b3c4d-0000-4000-8000-000000000000")


def plant(terminal: Terminal) -> None:
    """Put the sentence everywhere, in several spellings, beside words that stay."""
    terminal.make_directory()
    terminal.done("reminder", "add", "-m", SENTENCE, "--in", "2h", "--id", "old")
    terminal.done("tasks", "add", f"Tell the doctor: {SENTENCE}")
    _write_notes(terminal)
    with closing(
        open_database(terminal.paths, lambda: SUNDAY, is_holder=True, report=print)
    ) as database:
        database.run(_rows)
        database.run(lambda tx: tx.messages.add(_message("m3", OTHER)))
    _fill_free_pages(terminal.paths.state / DATABASE)
    copy_database(terminal.paths.state / DATABASE, SUNDAY - timedelta(hours=2))
    _write_transcripts(terminal)


def _fill_free_pages(path: Path) -> None:
    """Delete rows as a SQLite does that leaves their content in the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE gone (text)")
        connection.executemany("INSERT INTO gone VALUES (?)", [[SENTENCE * 50]] * 20)
        connection.execute("DROP TABLE gone")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert SENTENCE.encode() in path.read_bytes()


def _write_notes(terminal: Terminal) -> None:
    root, first = terminal.paths.root, f"{OTHER}.\n- {SENTENCE.upper()}, she said.\nI like tea.\n"
    for number, text in enumerate((first, first.replace("tea", "coffee"))):
        terminal.write("USER.md", text)
        split = SENTENCE.replace(" ", "\n")
        terminal.write("notes/health.md", f"# {SENTENCE}\n\nOnce: {split} {number}\n")
        terminal.write("skills/doctor/SKILL.md", f"Say: {SENTENCE}.\n{OTHER}.\n")
        notes = [Note(root, f"by hand: {SENTENCE}")]
        record(Git(root.resolve()).opened(), notes)
    (root / "notes" / "health.md").unlink()
    terminal.write("downloads/letter.txt", f"{OTHER}. {SENTENCE}.")
    undo = {"version": 1, "folder": "", "name": "USER.md", "before": first, "after": ""}
    terminal.write("state/undo/0a1b2c3d.json", json.dumps(undo))
    terminal.write("state/fork.json.corrupt-20261101T000000Z", f"{{{SENTENCE}")


def _message(name: str, text: str) -> ChatMessage:
    return ChatMessage(MessageId(name), SUNDAY, Author.OWNER, text)


def _rows(tx: Transaction) -> None:
    tx.messages.add(_message("m1", f"{SENTENCE}. What now?"))
    tx.messages.add(
        replace(_message("m2", f"“{SENTENCE}” sounds bad."), author=Author.ASSISTANT,
                turn=TurnId("t"), session=SESSION)
    )  # fmt: skip
    tx.messages.add(_message("m3", SENTENCE))
    tx.messages.add(_message("m4", OTHER))
    at = SUNDAY - timedelta(hours=1)
    occurrence = Occurrence.scheduled(JobKind.REMINDER, "pill", at)
    facts = {"job": SENTENCE, "report": f"He says: {SENTENCE.lower()}"}
    tx.ledger.append(
        LedgerRow(at, "due", occurrence, facts),
        LedgerRow(at, "running", occurrence),
        LedgerRow(at, "done", occurrence, facts),
    )
    reminder = Reminder(JobSpec(id="pill", message=SENTENCE), at)
    tx.due_items.add(DueItem.of(reminder, occurrence, MessageId("m1"), at))
    leave_update(tx, PendingUpdate(SUNDAY, f"He answered: {SENTENCE}"))
    _change_rows(tx)


def _change_rows(tx: Transaction) -> None:
    """A changed line, a file that is gone, and the text that a file had when it was last read."""
    body = f'---\nid: pill\ncron: "0 9 * * *"\n---\n{SENTENCE}\n'
    tx.changes.put(
        ChangeRow(
            CHANGED,
            SUNDAY,
            "IDENTITY.md",
            Changer.AGENT,
            before=f"{OTHER}.\n",
            after=f"{OTHER}.\nOn {SENTENCE.lower()}: ask.\n",
            cause=f"conversation: {SENTENCE}",
        )
    )
    place = "routines/my-purple-ulcer-came-back-in-1987.md"
    tx.changes.put(ChangeRow(REMOVED, SUNDAY, place, Changer.HAND, before=body, after=None))
    tx.changes.remember(place, body)


def _write_transcripts(terminal: Terminal) -> None:
    config = terminal.home / ".claude"
    folder = config / "projects" / project_key(terminal.paths.root)
    prompt = {
        "type": "user",
        "uuid": "u1",
        "cwd": str(terminal.paths.root),
        "timestamp": SUNDAY.isoformat(),
        "message": {"role": "user", "content": f"{SENTENCE} – was nun?"},
    }
    answer = {
        "type": "assistant",
        "uuid": "u2",
        "timestamp": SUNDAY.isoformat(),
        "message": {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": SENTENCE, "signature": "c2lnbmVk"},
                {"type": "text", "text": f"{OTHER}. {SENTENCE}."},
            ],
        },
    }
    _write(
        folder / f"{SESSION}.jsonl", "".join(json.dumps(each) + "\n" for each in (prompt, answer))
    )
    _write(folder / str(SESSION) / "tool-results" / "a.txt", SENTENCE)
    _write(config / "file-history" / str(SESSION) / "0123@v1", f"- {SENTENCE}\n")
    other = {**prompt, "cwd": "/elsewhere"}
    _write(config / "projects" / "-elsewhere" / f"{UNRELATED}.jsonl", json.dumps(other) + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def traces(terminal: Terminal) -> list[str]:
    """Every file, and every version of the history, in which something of the sentence is left."""
    found = [
        str(path.relative_to(terminal.home))
        for path in _all_files(terminal.home)
        if _has_trace(path.read_bytes()) or _has_trace(path.name.encode())
    ]
    listed = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch", "--unordered"],
        cwd=terminal.paths.root, capture_output=True, check=True,
    ).stdout  # fmt: skip
    return found + (["history"] if _has_trace(listed) else [])


def _all_files(home: Path) -> Iterator[Path]:
    """All files but the records of another project, which are not the bot's."""
    for folder, folders, names in os.walk(home):
        folders[:] = [name for name in folders if name != "-elsewhere"]
        yield from (Path(folder, name) for name in names if Path(folder, name).is_file())


def _has_trace(content: bytes) -> bool:
    words = b" ".join(content.lower().split())
    return any(trace in words for trace in TRACES)
