"""What the owner does in a day on Discord, each time until the bot is at rest, written down."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from devtools.localdiscord.state import Message
from tests.e2e.discord.scribe import Scribe
from tests.e2e.discord.talk import Talk

RUN_NOW, MORE = "Run now", "1 · More"
LEAVE_IT_AS_IT_IS = (RUN_NOW, MORE)

_AT_WORK = re.compile("^-# (Thinking…|Working…|.*(…|✓)$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Day:
    talk: Talk
    scribe: Scribe

    def say(self, text: str) -> str:
        return self.talk.discord.say(text)

    async def at_rest(self) -> None:
        """Nothing waits for an answer, and no mark or status line stands there."""
        talk = self.talk
        await talk.until(lambda: not talk.bot.open_inputs())
        await talk.until(lambda: not any(each.reactions for each in talk.discord.messages))
        await talk.until(lambda: not any(map(_AT_WORK.search, talk.discord.texts)))

    async def asks(self, text: str, answer: str) -> None:
        await self.talk.ask(text, answer)
        await self.at_rest()
        self.scribe.look()

    async def presses(
        self,
        message: Message,
        label: str,
        until: Callable[[], object] = lambda: True,
        *,
        is_told: bool = False,
    ) -> None:
        """Until something is so, the card is another one, and, with `is_told`, an answer is there.

        What can be pressed again leaves the card as it is.
        """
        self.scribe.does(f"presses {label}")
        shown = len(message.versions)
        pressed = await self.talk.press(message, label)
        await self.talk.until(until)
        await self.talk.until(lambda: label in LEAVE_IT_AS_IT_IS or len(message.versions) > shown)
        await self.talk.until(lambda: not is_told or pressed.texts)
        await self.at_rest()
        self.scribe.look()
        self.scribe.aside(pressed)

    async def calls(self, line: str, until: Callable[[], object], **arguments: str) -> None:
        self.scribe.does(f"calls /{' '.join([line, *arguments.values()])}")
        called = await self.talk.command(line, **arguments)
        await self.talk.until(until)
        await self.at_rest()
        self.scribe.look(cards_first=True)
        self.scribe.aside(called)

    def said_with(self, part: str) -> bool:
        return any(part in text for text in self.talk.discord.texts)

    def cards(self, title: str) -> int:
        """How many there are."""
        embeds = [embed for each in self.talk.discord.said for embed in each.embeds]
        return sum(embed.get("title") == title for embed in embeds)

    def remind(self, name: str, text: str, after: timedelta) -> None:
        at = (datetime.now(UTC) + after).replace(microsecond=0)
        self.write(
            f"reminders/{name}.md", f'---\nid: {name}\nrun-at: "{at.isoformat()}"\n---\n{text}\n'
        )

    def write(self, name: str, text: str) -> None:
        path = self.talk.bot.data / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    async def run_ended(self, name: str) -> None:
        def has_ended() -> bool:
            done = (row.occurrence for row in self.talk.bot.ledger() if row.state == "done")
            return any(one is not None and one.job_id == name for one in done)

        await self.talk.until(has_ended)
