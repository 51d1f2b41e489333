"""The owner's two phones, and the server through which the bot reaches them."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from devtools.localntfy.phone import Notification, Phone
from devtools.localntfy.protocol import Message
from devtools.localntfy.server import LocalNtfy

from chaos.phone_invariants import REMINDER
from chaos.record import Record

# More than a run needs: the bot keeps the limits of the public server by itself.
_NO_LIMIT = 1_000_000


@dataclass
class Phones:
    """Both follow `topic`; their buttons write to `reply_topic`. The bot is paired with them.

    `planned` counts the faults that the server was given, by their name and their route.
    """

    server: LocalNtfy
    record: Record
    topic: str
    reply_topic: str
    both: Sequence[Phone]
    planned: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def first(self) -> Phone:
        return self.both[0]

    @property
    def pushes(self) -> list[Message]:
        """All that the topic ever got, also what takes a card off the phones."""
        return self.server.published(self.topic)

    def write_pairing(self, state: Path) -> None:
        fields = {
            "version": 1,
            "server": self.server.url,
            "topic": self.topic,
            "reply_topic": self.reply_topic,
            "paired_at": (datetime.now(UTC) - timedelta(hours=3)).isoformat(),
        }
        self.record.note("pairing", {"topic": self.topic})
        path = state / "push.json"
        path.write_text(json.dumps(fields))
        path.chmod(0o600)

    async def forget(self) -> None:
        """Restart the server, which loses what it kept: also presses that the bot has not read."""
        self.record.note("forgotten", {"pushes": len(self.pushes), "presses": self._presses()})
        await self.server.restart()

    async def press(self, phone: Phone, card: Notification, label: str) -> None:
        """Press a button and note it; it is kept if the server has answered so."""
        status = await phone.press(card, label)
        row = {"name": reminder_on(card), "label": label, "is_kept": status == 200}
        self.record.note("presses", row)

    def note_state(self) -> None:
        """Note what has rung on the phones, and what they show now."""
        rows = [
            {
                "id": each.id,
                "sequence": each.sequence_id,
                "event": each.event,
                "text": f"{each.title}\n{each.text}",
                "is_heard": each.details.get("priority", 3) >= 3,
            }
            for each in self.pushes
        ]
        self.record.replace("pushes", rows)
        shown = [
            {"phone": number, "sequence": each.sequence_id}
            for number, phone in enumerate(self.both)
            for each in phone.shown
        ]
        self.record.replace("drawers", shown)

    def _presses(self) -> int:
        path = self.record.folder / "presses.jsonl"
        return path.read_text().count("\n") if path.exists() else 0


def reminder_on(card: Notification) -> str:
    """The name of the reminder that a notification shows; empty if it shows none."""
    found = REMINDER.search(f"{card.title}\n{card.text}")
    return found[1] if found else ""


@asynccontextmanager
async def owners_phones(record: Record) -> AsyncIterator[Phones]:
    """They were paired hours ago, and the server still has what was sent to them then."""
    topic, reply_topic = (f"ollim-{secrets.token_hex(16)}" for _ in range(2))
    ago = timedelta(hours=3)
    async with LocalNtfy(now=lambda: datetime.now(UTC) - ago) as server:
        server.limits.burst = server.limits.messages_a_day = _NO_LIMIT
        server.write(topic, "Is this your phone?")
        ago = timedelta()
        phones = [Phone(server.url, topic, name=name) for name in ("phone", "tablet")]
        async with phones[0], phones[1]:
            yield Phones(server, record, topic, reply_topic, phones)
