"""The whole bot on a local Discord; a test writes as the owner and reads the channel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from devtools.localdiscord.interactions import FIRST_ANSWER_WITHIN, Interaction
from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.in_process_bot import InProcessBot
from tests.e2e.killable_bot import KillableBot, serve_model
from tests.patience import patience
from tests.surfaces.discord.connection_scene import restored_addresses

from ollim_bot.kernel.conversation.sentences import CATCHING_UP
from ollim_bot.offline.server import MessagesServer

WELCOME = "Hello, I am Ollim"
FIRST_QUESTION = "Set-up, 1 of 5"


@dataclass
class DiscordScene:
    """`model` scripts the answers of `bot`, and `discord` is the local server."""

    bot: Bot
    model: ScriptedModel
    discord: LocalDiscord

    @property
    def now(self) -> float:
        """The time of the local Discord, in seconds."""
        return self.discord.state.monotonic()

    async def until(self, condition: object) -> None:
        """Wait for the condition; at the time limit, the error has the newest messages."""
        try:
            await self.bot.until(condition)  # type: ignore[arg-type]
        except TimeoutError:
            newest = [words(each)[:200] for each in self.discord.messages[-5:]]
            asked = [each.last_user_text[-200:] for each in self.model.requests[-2:]]
            raise TimeoutError(f"Discord shows {newest}; the model was asked {asked}") from None

    async def said(self, text: str) -> Message:
        """Wait for a message of the bot with exactly this text, but for the line about updates."""
        await self.until(lambda: text in map(_without_updates, self.discord.said))
        return next(each for each in self.discord.said if _without_updates(each) == text)

    async def said_with(self, part: str) -> Message:
        """Wait for a message of the bot whose text or card contains `part`."""
        await self.until(lambda: any(part in words(each) for each in self.discord.said))
        return next(each for each in self.discord.said if part in words(each))

    async def card(self, title: str) -> Message:
        """Wait for a card of this title; returns the newest message with one."""
        await self.until(lambda: self._cards(title))
        return self._cards(title)[-1]

    def card_count(self, title: str) -> int:
        return len(self._cards(title))

    async def ask(self, text: str, answer: str) -> Message:
        """Say something, and wait until the bot says this answer of the model."""
        self.model.answers(answer)
        self.discord.say(text)
        return await self.said(answer)

    async def press(self, message: Message, label: str) -> Interaction:
        """Press a button, and wait until the bot has acknowledged the click."""
        pressed = self.discord.click(message.id, custom_id(message, label))
        await self.until(lambda: pressed.answered_after is not None)
        return pressed

    async def command(self, name: str, /, **arguments: str) -> Interaction:
        """Call a slash command, and wait for its answer, which only the caller sees."""
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
    """All visible text of the message."""
    lines = [message.text]
    for embed in message.embeds:
        fields = embed.get("fields", [])
        lines += [embed.get("title", ""), embed.get("description", "")]
        lines += [f"{each['name']}: {each['value']}" for each in fields]
        lines.append(embed.get("footer", {}).get("text", ""))
    return "\n".join(line for line in lines if line)


def _without_updates(message: Message) -> str:
    return message.text.removesuffix(f"\n-# {CATCHING_UP}")


def custom_id(message: Message, label: str) -> str:
    """The custom id of the button with this label."""
    for each in message.buttons:
        if label in each.get("label", ""):
            return str(each["custom_id"])
    raise AssertionError(f"There is no button {label!r} below {words(message)!r}.")


async def trouble(bot: Bot) -> str:
    """The trouble with other surfaces that the page reports."""
    async with bot.socket() as socket:
        while (frame := await socket.receive_json(timeout=patience()))["type"] != "hello":
            pass
    return str(frame["status"]["trouble"])


@asynccontextmanager
async def real_engine_scene(home: Path) -> AsyncIterator[DiscordScene]:
    """A new bot in its own process with the real engine; it has said its welcome."""
    model = ScriptedModel()
    async with LocalDiscord() as local, MessagesServer(model) as server:
        bot = Bot(home, server.url, account(local))
        async with _welcomed(DiscordScene(bot, model, local)) as scene:
            yield scene


@asynccontextmanager
async def killable_scene(
    home: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[DiscordScene]:
    """A new bot in its own process with a doubled engine."""
    model = ScriptedModel()
    async with LocalDiscord() as local, serve_model(model) as port:
        bot = KillableBot(home, port, {**account(local), **(settings or {})})
        async with _welcomed(DiscordScene(bot, model, local)) as scene:
            yield scene


@asynccontextmanager
async def in_process_scene(
    home: Path, *, settings: Mapping[str, str] | None = None, discord: LocalDiscord | None = None
) -> AsyncIterator[DiscordScene]:
    """A new bot in this process with a doubled engine."""
    model = ScriptedModel()
    with restored_addresses():
        async with discord or LocalDiscord() as local:
            bot = InProcessBot(home, model, {**account(local), **(settings or {})})
            async with _welcomed(DiscordScene(bot, model, local)) as scene:
                yield scene


def account(local: LocalDiscord) -> Mapping[str, str]:
    return {"DISCORD_TOKEN": local.token, "DISCORD_API_URL": local.api_url}


@asynccontextmanager
async def _welcomed(scene: DiscordScene) -> AsyncIterator[DiscordScene]:
    try:
        await scene.bot.start()
        await scene.discord.connected(patience())
        await scene.card(WELCOME)
        yield scene
    finally:
        await scene.bot.kill()
