"""Notes what was done and seen, as plain lines for whoever judges it later."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message

_ENDS = {"refused": "not_sent", "unknown": "unsure"}
Row = Mapping[str, object]


class Record:
    """`folder` is outside of the bot's reach; `state` is its own, from which is only read."""

    def __init__(self, folder: Path, state: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._state = state
        self._turns: list[Row] = []
        self._session = ""

    def note(self, name: str, row: Mapping[str, object]) -> None:
        with (self.folder / f"{name}.jsonl").open("a") as file:
            file.write(f"{json.dumps(row)}\n")

    def replace(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (self.folder / f"{name}.jsonl").write_text(text)

    def gather(self) -> None:
        """Keep what the database of a bot that does not run will forget: its turn."""
        with tempfile.TemporaryDirectory() as folder:
            # A copy: the last one who closes a database changes it.
            for path in self._state.glob("ollim.db*"):
                shutil.copy(path, folder)
            self._keep_turns(Path(folder, "ollim.db"))

    def _keep_turns(self, path: Path) -> None:
        taken = _asked(path, "SELECT value FROM inbox_turn ORDER BY seq")
        rows = [json.loads(row) for (row,) in taken]
        # A turn that fails before it is taken, since no engine starts, is known only from here.
        for (value,) in _asked(path, "SELECT value FROM records WHERE name = 'failed_turns'"):
            for each in json.loads(value)["turns"]:
                inputs = [one["id"] for one in each["asked"]]
                rows.append({"row": "failed", "turn": each["turn"], "inputs": inputs})
        self._turns += [row for row in rows if row not in self._turns]

    def read_database(self) -> None:
        """Note what the database of the running bot says, for the judge."""
        path = self._state / "ollim.db"
        self._keep_turns(path)
        inputs = _asked(path, "SELECT id, ended FROM inputs ORDER BY seq")
        accepted = [{"row": "accepted", "input": {"id": each}} for each, _ in inputs]
        ended = [{"row": "ended", "inputs": [each], "end": end} for each, end in inputs if end]
        self.replace("inbox", [*accepted, *self._turns, *ended])
        self.replace("messages", _messages(path))
        deliveries = _asked(
            path,
            "SELECT messages.id, deliveries.state FROM deliveries"
            " JOIN messages ON messages.seq = deliveries.message ORDER BY messages.seq",
        )
        bad = [{"row": _ENDS[state], "id": each} for each, state in deliveries if state in _ENDS]
        self.replace("outbox", bad)
        self.replace("waiting", [{"id": each} for each, state in deliveries if state == "open"])
        discord = _asked(path, "SELECT value FROM records WHERE name = 'discord'")
        drafts = [each for (value,) in discord for each in json.loads(value).get("drafts", ())]
        self.replace("drafts", [{"id": each} for each in drafts])
        held = _asked(path, "SELECT value FROM records WHERE name = 'held'")
        waiting = [each["message"] for (value,) in held for each in json.loads(value)]
        self.replace("held", waiting)
        ledger = _asked(path, "SELECT value FROM ledger ORDER BY seq")
        self.replace("ledger", [json.loads(value) for (value,) in ledger])

    def note_session(self) -> str:
        """The main conversation as it is called now; empty where there is none."""
        path = self._state / "sessions.json"
        session = path.read_text().strip() if path.exists() else ""
        if session not in ("", self._session):
            self._session = session
            self.note("sessions", {"session": session})
        return session

    def look(self, discord: LocalDiscord) -> None:
        """What stands on Discord now, and what the bot has written down."""
        self.read_database()
        self.note_session()
        rows = [
            {
                "id": each.id,
                "is_ours": each.author == discord.bot,
                "text": words(each),
                "at": each.at.isoformat(),
                "marks": [emoji for emoji, who in each.reactions.items() if discord.bot in who],
            }
            for each in discord.messages
        ]
        self.replace("discord", rows)


def words(message: Message) -> str:
    """All that can be read in it."""
    lines = [message.text]
    for embed in message.embeds:
        lines += [embed.get("title", ""), embed.get("description", "")]
        lines += [f"{each['name']}: {each['value']}" for each in embed.get("fields", [])]
        lines.append(embed.get("footer", {}).get("text", ""))
    return "\n".join(line for line in lines if line)


def _asked(path: Path, question: str) -> list[tuple[Any, ...]]:
    """Nothing where there is no database, or none yet that can be read."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=30)) as connection, suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA query_only=1")
        return connection.execute(question).fetchall()
    return []


def _messages(path: Path) -> list[Row]:
    """The log in its order; each with the ids under which each channel has it, or should."""
    found: dict[int, dict[str, Any]] = {
        seq: json.loads(value) | {"refs": {}}
        for seq, value in _asked(path, "SELECT seq, value FROM messages ORDER BY seq")
    }
    owed = "SELECT message, channel FROM deliveries WHERE state != 'closed'"
    for seq, channel in _asked(path, owed):
        if seq in found:
            found[seq]["refs"][channel] = ""
    shown = "SELECT message, channel, ref FROM delivery_refs ORDER BY message, part"
    for seq, channel, ref in _asked(path, shown):
        if seq in found:
            refs = found[seq]["refs"]
            refs[channel] = f"{refs.get(channel, '')} {ref}".strip()
    return list(found.values())
