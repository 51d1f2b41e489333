"""What the bot has left behind, read as anybody could: its files, and what others saw of it."""

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
# Below a reminder that came although the disk was full: it is shown once, and stands in no log.
NOT_KEPT = "The disk cannot be written, so this is not kept."

Row = Mapping[str, Any]


@dataclass
class Evidence:
    """`record` is the folder where the driver notes what it has done and what others have seen."""

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
        """The messages that wait for the end of the quiet."""
        return self.noted("held")

    @cached_property
    def notices(self) -> list[Row]:
        """What the program itself has said or will say; while it is quiet, it says so later."""
        said = (row for row in self.messages if _is_notice(row))
        return [*said, *self.held]

    @cached_property
    def ledger(self) -> list[Row]:
        return self.noted("ledger")

    @cached_property
    def inbox(self) -> list[Row]:
        return self.noted("inbox")

    @cached_property
    def outbox(self) -> list[Row]:
        """The messages that came to a bad end on a channel."""
        return self.noted("outbox")

    @cached_property
    def discord(self) -> list[Row]:
        """What stands there, from both sides."""
        return self.noted("discord")

    @cached_property
    def model(self) -> list[Row]:
        return self.noted("model")

    @cached_property
    def owner(self) -> list[Row]:
        return self.noted("owner")

    @cached_property
    def main_talk(self) -> list[str]:
        """What the model was told in the main conversation and in those that were cleared.

        A prompt that the engine has on record, and never came to send, goes out with the next one.
        """
        talks = {row["session"]: row["texts"] for row in self.noted("talks")}
        told = []
        for session in dict.fromkeys(row["session"] for row in self.noted("sessions")):
            sent = talks.get(session, [])
            told += [*sent, *(text for text in self._recorded(session) if text not in sent)]
        return told

    def _recorded(self, session: str) -> Iterator[str]:
        """The prompts in the engine's own transcript, which may have lines that it did not end."""
        for path in self.data.parent.glob(f".claude/projects/*/{session}.jsonl"):
            for line in lines_of(path):
                with suppress(ValueError):
                    row = json.loads(line)
                    content = row["message"]["content"] if row["type"] == "user" else ()
                    yield from (part["text"] for part in content if "text" in part)

    @property
    def unreadable(self) -> list[str]:
        """What nobody has torn. A process that dies in a writing leaves one torn line, and so may
        a power cut, in any of the logs.
        """
        wounds = self.noted("wounds")
        cuts = sum(row["deed"] == "cut" for row in wounds)
        halves = Counter(
            row["where"].rpartition(": ")[2] for row in wounds if "in the middle" in row["where"]
        )
        found: defaultdict[str, list[str]] = defaultdict(list)
        deque(self._rows(self.state / "session_history.jsonl"), maxlen=0)
        for name, what in dict.fromkeys(self.damaged):
            found[name].append(what)
        return [
            f"{name}: {each}"
            for name, lines in found.items()
            for each in lines[cuts + halves[name] if name.endswith(".jsonl") else 0 :]
        ]

    def noted(self, name: str) -> list[Row]:
        return list(self._rows(self.record / f"{name}.jsonl"))

    def value(self, name: str) -> Any:
        """What a file of `state/` holds; None where there is none."""
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
    """The whole lines; what is being written at this moment is not one yet."""
    if not path.exists():
        return []
    text = path.read_text(errors="replace")
    return [line for line in text.split("\n")[:-1] if line]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
