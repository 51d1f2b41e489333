"""Notes what was done and seen, as plain lines for whoever judges it later."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message

from chaos.evidence import lines_of

_SHORTENED = ("inbox", "outbox")


class Record:
    """`folder` is outside of the bot's reach; `state` is its own, from which is only read."""

    def __init__(self, folder: Path, state: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._state = state
        self._known: dict[str, set[str]] = {name: set() for name in _SHORTENED}
        self._session = ""

    def note(self, name: str, row: Mapping[str, object]) -> None:
        with (self.folder / f"{name}.jsonl").open("a") as file:
            file.write(f"{json.dumps(row)}\n")

    def replace(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (self.folder / f"{name}.jsonl").write_text(text)

    def gather(self) -> None:
        """Keep the rows of the files that the bot makes short, before it does."""
        for name, known in self._known.items():
            fresh = [each for each in lines_of(self._state / f"{name}.jsonl") if each not in known]
            known.update(fresh)
            with (self.folder / f"{name}.jsonl").open("a") as file:
                file.writelines(f"{line}\n" for line in fresh)

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
        self.gather()
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
