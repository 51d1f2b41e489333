"""The evidence for the checker: the bot's own files, and the notes of the harness."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

TORN = '{"torn-by-chaos": "'
# The last line of a reminder that came while the disk was full: it is not in the log.
NOT_KEPT = "The disk cannot be written, so this is not kept."

# The states in which the ledger ends an occurrence.
END_STATES = ("done", "failed", "timed_out", "skipped", "missed", "interrupted")

Row = Mapping[str, Any]


@dataclass
class Evidence:
    """Reads the data directory `data` and the folder `record` with the notes of a `Record`.

    `damaged` collects each line or file that cannot be read, with its file name.
    """

    data: Path
    record: Path
    damaged: list[tuple[str, str]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.data / "state"

    @cached_property
    def messages(self) -> list[Row]:
        """The messages of the log, as they are now."""
        return self.noted("messages")

    @cached_property
    def held(self) -> list[Row]:
        """The messages that wait for the end of a quiet time."""
        return self.noted("held")

    @cached_property
    def items(self) -> list[Row]:
        """What was due and was or is asked of the owner."""
        return self.noted("items")

    @cached_property
    def digests(self) -> dict[str, list[Row]]:
        """The messages that each digest with buttons has as lines, by the id of the digest."""
        kept = {row["id"]: row["entries"] for row in self.noted("digests")}
        return {name: [one["message"] for one in entries] for name, entries in kept.items()}

    @cached_property
    def turned(self) -> list[Row]:
        """The lines of digests that are on another page than the one that is shown."""
        shown = {str(row["id"]): str(row["text"]) for row in self.messages}
        return [
            line
            for digest, lines in self.digests.items()
            for line in lines
            if line["text"] not in shown.get(digest, "") and line["id"] not in shown
        ]

    @cached_property
    def notices(self) -> list[Row]:
        """The program's own messages, also those that wait for the end of a quiet time."""
        said = (row for row in self.messages if _is_notice(row))
        return [*said, *self.held, *self.turned]

    @cached_property
    def ledger(self) -> list[Row]:
        return self.noted("ledger")

    @cached_property
    def inbox(self) -> list[Row]:
        return self.noted("inbox")

    @cached_property
    def outbox(self) -> list[Row]:
        """The messages that a channel refused, or may not have got."""
        return self.noted("outbox")

    @cached_property
    def discord(self) -> list[Row]:
        """The messages on Discord, of the owner and of the bot, as they are after all edits."""
        return [*{row["id"]: row for row in self.noted("discord")}.values()]

    @cached_property
    def model(self) -> list[Row]:
        return self.noted("model")

    @cached_property
    def owner(self) -> list[Row]:
        return self.noted("owner")

    @cached_property
    def main_talk(self) -> list[str]:
        """What the model was told in the main conversation and in those that were cleared.

        Includes prompts that are only in the engine's transcript: the engine sends them with the
        next one.
        """
        talks = {row["session"]: row["texts"] for row in self.noted("talks")}
        told = []
        for session in dict.fromkeys(row["session"] for row in self.noted("sessions")):
            sent = talks.get(session, [])
            told += [*sent, *(text for text in self._recorded(session) if text not in sent)]
        return told

    def _recorded(self, session: str) -> Iterator[str]:
        """The prompts in the engine's own transcript, which may have incomplete lines."""
        for path in self.data.parent.glob(f".claude/projects/*/{session}.jsonl"):
            for line in lines_of(path):
                with suppress(ValueError):
                    row = json.loads(line)
                    content = row["message"]["content"] if row["type"] == "user" else ()
                    yield from (part["text"] for part in content if "text" in part)

    @property
    def unreadable(self) -> list[str]:
        """The damage that no injected fault explains.

        A crash in the middle of a write explains one torn line of that log. A power cut explains
        one torn line in each of the logs.
        """
        faults = self.noted("injected_faults")
        power_cuts = sum(row["kind"] == "power_cut" for row in faults)
        torn_writes = Counter(
            row["where"].rpartition(": ")[2] for row in faults if "in the middle" in row["where"]
        )
        found: defaultdict[str, list[str]] = defaultdict(list)
        deque(self._rows(self.state / "session_history.jsonl"), maxlen=0)
        for name, what in dict.fromkeys(self.damaged):
            found[name].append(what)
        return [
            f"{name}: {each}"
            for name, lines in found.items()
            for each in lines[power_cuts + torn_writes[name] if name.endswith(".jsonl") else 0 :]
        ]

    @property
    def reminder_texts(self) -> Iterator[str]:
        """The text of each reminder file; the bot may remove one while they are read."""
        for path in (self.data / "reminders").glob("*.md"):
            with suppress(FileNotFoundError):
                yield path.read_text(errors="replace")

    def noted(self, name: str) -> list[Row]:
        return list(self._rows(self.record / f"{name}.jsonl"))

    def value(self, name: str) -> Any:
        """The JSON value in a file of `state/`; None if there is no such file."""
        path = self.state / name
        try:
            return json.loads(path.read_bytes()) if path.exists() else None
        except ValueError as wrong:
            self.damaged.append((name, str(wrong)))
            return None

    def _rows(self, path: Path) -> Iterator[Row]:
        for line in lines_of(path):
            try:
                row = json.loads(line)
            except ValueError:
                if TORN not in line:
                    self.damaged.append((path.name, line[:120]))
            else:
                yield row


def _is_notice(row: Row) -> bool:
    return row["author"] == "program" or str(row["id"]).startswith("digest-")


def lines_of(path: Path) -> Sequence[str]:
    """The complete lines, without the one that is still being written."""
    if not path.exists():
        return []
    text = path.read_text(errors="replace")
    return [line for line in text.split("\n")[:-1] if line]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
