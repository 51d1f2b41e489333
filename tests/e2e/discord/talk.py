"""The real bot on a Discord of its own, talked to by the owner's hand and read from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from devtools.localdiscord.interactions import FIRST_ANSWER_WITHIN, Interaction
from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from tests.discord.connection_scene import restored_addresses
from tests.e2e.bot import LIMIT, Bot
from tests.e2e.inline import InlineBot
from tests.e2e.killable import KillableBot, asked_at

from ollim_bot.offline.scripted import ScriptedModel
from ollim_bot.offline.server import MessagesServer

WELCOME = "Hello, I am Ollim"


@dataclass
class Talk:
    """`bot` is the process, with its page; `model` says what it answers."""

    bot: Bot
    model: ScriptedModel
    discord: LocalDiscord

    async def until(self, condition: object) -> None:
        """Within the limit, unless the bot has died before; else tell what stands there."""
        try:
            await self.bot.until(condition)  # type: ignore[arg-type]
        except TimeoutError:
            newest = [words(each)[:200] for each in self.discord.messages[-5:]]
            asked = [each.last_user_text[-200:] for each in self.model.requests[-2:]]
            raise TimeoutError(f"Discord shows {newest}; the model was asked {asked}") from None

    async def said(self, text: str) -> Message:
        """Wait until the bot says just this, and give that message."""
        await self.until(lambda: text in self.discord.texts)
        return next(each for each in self.discord.said if each.text == text)

    async def said_with(self, part: str) -> Message:
        """Wait until the bot says something that holds `part`; words of a card count too."""
        await self.until(lambda: any(part in words(each) for each in self.discord.said))
        return next(each for each in self.discord.said if part in words(each))

    async def card(self, title: str) -> Message:
        """Wait for a card, and give the newest message with it."""
        await self.until(lambda: self._cards(title))
        return self._cards(title)[-1]

    def count(self, title: str) -> int:
        """How many cards of this title there are."""
        return len(self._cards(title))

    async def ask(self, text: str, answer: str) -> Message:
        """Say something; the model answers this, and the bot is waited for to say so."""
        self.model.answers(answer)
        self.discord.say(text)
        return await self.said(answer)

    async def press(self, message: Message, label: str) -> Interaction:
        """Press a button, and wait until the bot has acknowledged that."""
        pressed = self.discord.click(message.id, custom_id(message, label))
        await self.until(lambda: pressed.answered_after is not None)
        return pressed

    async def command(self, name: str, /, **arguments: str) -> Interaction:
        """Call it, and wait until nothing is left to be said to the caller, who alone reads it."""
        called = self.discord.call(name, arguments)
        await self.until(lambda: called.texts or called.is_deleted)
        assert called.answered_after is not None
        assert called.answered_after < FIRST_ANSWER_WITHIN
        assert called.is_ephemeral
        assert not called.late
        return called

    def _cards(self, title: str) -> list[Message]:
        return [
            each
            for each in self.discord.said
            if any(embed.get("title") == title for embed in each.embeds)
        ]


def words(message: Message) -> str:
    """All that can be read in it."""
    lines = [message.text]
    for embed in message.embeds:
        fields = embed.get("fields", [])
        lines += [embed.get("title", ""), embed.get("description", "")]
        lines += [f"{each['name']}: {each['value']}" for each in fields]
        lines.append(embed.get("footer", {}).get("text", ""))
    return "\n".join(line for line in lines if line)


def custom_id(message: Message, label: str) -> str:
    """Of the button with this label."""
    for each in message.buttons:
        if label in each.get("label", ""):
            return str(each["custom_id"])
    raise AssertionError(f"There is no button {label!r} below {words(message)!r}.")


async def trouble(bot: Bot) -> str:
    """What the page says does not work elsewhere."""
    async with bot.socket() as socket:
        while (frame := await socket.receive_json(timeout=LIMIT))["type"] != "hello":
            pass
    return str(frame["status"]["trouble"])


@asynccontextmanager
async def talking(home: Path) -> AsyncIterator[Talk]:
    """A newcomer's bot in a process of its own, which has said its welcome."""
    model = ScriptedModel()
    async with LocalDiscord() as local, MessagesServer(model) as server:
        bot = Bot(home, server.url, account(local))
        async with _welcomed(Talk(bot, model, local)) as talk:
            yield talk


@asynccontextmanager
async def talking_killable(home: Path) -> AsyncIterator[Talk]:
    """The same with the engine doubled."""
    model = ScriptedModel()
    async with LocalDiscord() as local, asked_at(model) as port:
        bot = KillableBot(home, port, account(local))
        async with _welcomed(Talk(bot, model, local)) as talk:
            yield talk


@asynccontextmanager
async def talking_inline(
    home: Path, *, settings: Mapping[str, str] | None = None, discord: LocalDiscord | None = None
) -> AsyncIterator[Talk]:
    """And in this process."""
    model = ScriptedModel()
    with restored_addresses():
        async with discord or LocalDiscord() as local:
            bot = InlineBot(home, model, {**account(local), **(settings or {})})
            async with _welcomed(Talk(bot, model, local)) as talk:
                yield talk


def account(local: LocalDiscord) -> Mapping[str, str]:
    return {"DISCORD_TOKEN": local.token, "DISCORD_API_URL": local.api_url}


@asynccontextmanager
async def _welcomed(talk: Talk) -> AsyncIterator[Talk]:
    try:
        await talk.bot.start()
        await talk.discord.connected(LIMIT)
        await talk.card(WELCOME)
        yield talk
    finally:
        await talk.bot.kill()
