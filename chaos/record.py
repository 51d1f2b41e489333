"""Notes for the checker, as JSON lines: what the harness did, and what others saw of the bot."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message

from ollim_bot.kernel.store.codecs.message_codec import CHAT_MESSAGES
from ollim_bot.kernel.store.codecs.plain import decode_plain
from ollim_bot.kernel.values.due_items import DueItem, item_key
from ollim_bot.kernel.values.item_messages import shown_as

_ENDS = {"refused": "not_sent", "unknown": "unsure"}
# The notes about each channel.
_OUTBOXES = {"outbox": "discord", "push_outbox": "ntfy"}
Row = Mapping[str, object]
# Answers a question to a database; empty if there is none yet.
Ask = Callable[[str], list[tuple[Any, ...]]]


class Record:
    """Writes its notes to `folder`, which the bot does not know.

    `state` is the bot's own folder, which is only read. `ask` asks the database of the bot, which
    is a file in that folder unless it is given.
    """

    def __init__(self, folder: Path, state: Path, ask: Ask | None = None) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._state = state
        self._ask = ask or partial(_query, state / "ollim.db")
        self._turns: list[Row] = []
        self._digests: dict[str, Row] = {}
        self._session = ""

    def note(self, name: str, row: Mapping[str, object]) -> None:
        with (self.folder / f"{name}.jsonl").open("a") as file:
            file.write(f"{json.dumps(row)}\n")

    def replace(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (self.folder / f"{name}.jsonl").write_text(text)

    def keep_turns(self) -> None:
        """Keep the turns in the database of a stopped bot, which the next start removes."""
        with tempfile.TemporaryDirectory() as folder:
            # SQLite changes a database when its last connection closes: so read a copy.
            for path in self._state.glob("ollim.db*"):
                shutil.copy(path, folder)
            self._add_turns(partial(_query, Path(folder, "ollim.db")))

    def _add_turns(self, ask: Ask) -> None:
        taken = ask("SELECT value FROM inbox_turn ORDER BY seq")
        rows = [json.loads(row) for (row,) in taken]
        # A turn that fails because no engine starts is only in this record.
        for (value,) in ask("SELECT value FROM records WHERE name = 'failed_turns'"):
            for each in json.loads(value)["turns"]:
                inputs = [one["id"] for one in each["asked"]]
                rows.append({"row": "failed", "turn": each["turn"], "inputs": inputs})
        self._turns += [row for row in rows if row not in self._turns]

    def read_database(self) -> None:
        """Note the contents of the running bot's database."""
        ask = self._ask
        self._add_turns(ask)
        inputs = ask("SELECT id, ended FROM inputs ORDER BY seq")
        accepted = [{"row": "accepted", "input": {"id": each}} for each, _ in inputs]
        ended = [{"row": "ended", "inputs": [each], "end": end} for each, end in inputs if end]
        self.replace("inbox", [*accepted, *self._turns, *ended])
        self.replace("messages", _messages(ask, self.planned_zone() or "UTC"))
        self._note_deliveries()
        discord = ask("SELECT value FROM records WHERE name = 'discord'")
        drafts = [each for (value,) in discord for each in json.loads(value).get("drafts", ())]
        self.replace("drafts", [{"id": each} for each in drafts])
        held = ask("SELECT value FROM records WHERE name = 'held'")
        waiting = [each["message"] for (value,) in held for each in json.loads(value)]
        self.replace("held", waiting)
        kept = ask("SELECT value FROM records WHERE name = 'digests'")
        digests = [each for (value,) in kept for each in json.loads(value)["kept"]]
        self._digests |= {each["id"]: each for each in digests}
        self.replace("digests", [*self._digests.values()])
        items = ask("SELECT value FROM due_items")
        self.replace("items", [json.loads(value) for (value,) in items])
        ledger = ask("SELECT value FROM ledger ORDER BY seq")
        self.replace("ledger", [json.loads(value) for (value,) in ledger])

    def _note_deliveries(self) -> None:
        """Note what each channel may not have got, and what is on its way."""
        rows = self._ask(
            "SELECT messages.id, deliveries.channel, deliveries.state FROM deliveries"
            " JOIN messages ON messages.seq = deliveries.message ORDER BY messages.seq"
        )
        for name, channel in _OUTBOXES.items():
            bad = [
                {"row": _ENDS[state], "id": each}
                for each, on, state in rows
                if on == channel and state in _ENDS
            ]
            self.replace(name, bad)
        self.replace("waiting", [{"id": each} for each, _, state in rows if state == "open"])

    def has_open(self, channel: str) -> bool:
        """Whether something is on its way to the channel."""
        question = f"SELECT 1 FROM deliveries WHERE channel = '{channel}' AND state = 'open'"
        return bool(self._ask(question))

    def is_armed(self, job: str) -> bool:
        """Whether the bot has planned the job."""
        rows = self._ask("SELECT value FROM ledger WHERE state = 'armed'")
        return any(json.loads(value).get("job") == job for (value,) in rows)

    def planned_zone(self) -> str:
        """The zone in which the bot has planned all jobs; empty if it is not known."""
        rows = self._ask("SELECT value FROM records WHERE name = 'zone'")
        return str(json.loads(rows[0][0]).get("name", "")) if rows else ""

    def note_session(self) -> str:
        """Note the session of the main conversation if it is new, and return it, or ""."""
        path = self._state / "sessions.json"
        session = path.read_text().strip() if path.exists() else ""
        if session not in ("", self._session):
            self._session = session
            self.note("sessions", {"session": session})
        return session

    def note_state(self, discord: LocalDiscord) -> None:
        """Note what is on Discord and in the bot's files now."""
        self.read_database()
        self.note_session()
        rows = [
            {
                "id": each.id,
                "is_ours": each.author == discord.bot,
                "text": visible_text(each),
                "at": each.at.isoformat(),
                "marks": [emoji for emoji, who in each.reactions.items() if discord.bot in who],
            }
            for each in discord.messages
        ]
        self.replace("discord", rows)


def visible_text(message: Message) -> str:
    """All text of the message and its embeds."""
    lines = [message.text]
    for embed in message.embeds:
        lines += [embed.get("title", ""), embed.get("description", "")]
        lines += [f"{each['name']}: {each['value']}" for each in embed.get("fields", [])]
        lines.append(embed.get("footer", {}).get("text", ""))
    return "\n".join(line for line in lines if line)


def _items(ask: Ask) -> dict[str, DueItem]:
    """The due items by their keys; for one that is shown again, the item that it shows."""
    rows = ask("SELECT key, value FROM due_items")
    known = {key: decode_plain(DueItem, value.encode()) for key, value in rows}
    return {key: known.get(item.same_as, item) for key, item in known.items()}


def _query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Empty if there is no database, or one that cannot be read yet."""
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=30)) as connection, suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA query_only=1")
        return connection.execute(sql).fetchall()
    return []


def _messages(ask: Ask, zone: str) -> list[Row]:
    """The log in its order, as it is shown. `refs` has the ids of each message on each channel.

    The ids are empty for a channel that has not got the message yet.
    """
    items, now = _items(ask), datetime.now(ZoneInfo(zone))
    found: dict[int, dict[str, Any]] = {}
    for seq, value in ask("SELECT seq, value FROM messages ORDER BY seq"):
        message = CHAT_MESSAGES.decode(value.encode())
        item = items.get(item_key(message.occurrence))
        if item is not None and message.card is not None:
            value = CHAT_MESSAGES.encode(shown_as(message, item, now)).decode()
        found[seq] = json.loads(value) | {"refs": {}}
    owed = "SELECT message, channel FROM deliveries WHERE state != 'closed'"
    for seq, channel in ask(owed):
        if seq in found:
            found[seq]["refs"][channel] = ""
    shown = "SELECT message, channel, ref FROM delivery_refs ORDER BY message, part"
    for seq, channel, ref in ask(shown):
        if seq in found:
            refs = found[seq]["refs"]
            refs[channel] = f"{refs.get(channel, '')} {ref}".strip()
    return list(found.values())
