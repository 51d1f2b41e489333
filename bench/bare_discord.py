"""`python -m bench.bare_discord`: a discord.py client that does nothing but react at once."""

from __future__ import annotations

import asyncio
import os

import discord

from ollim_bot.surfaces.discord.client import use_api_url


class BareClient(discord.Client):
    async def on_message(self, message: discord.Message) -> None:
        if message.author != self.user:
            await message.add_reaction("👀")


async def main() -> None:
    await use_api_url(os.environ["DISCORD_API_URL"])
    intents = discord.Intents.none()
    intents.dm_messages = True
    async with BareClient(intents=intents) as client:
        await client.start(os.environ["DISCORD_TOKEN"])


if __name__ == "__main__":
    asyncio.run(main())
