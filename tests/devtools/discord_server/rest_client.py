"""Plain REST requests to a local Discord, as a bot makes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from devtools.localdiscord.server import LocalDiscord


@dataclass(frozen=True)
class Reply:
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def code(self) -> int:
        """The error code of Discord."""
        return int(self.body["code"])


@dataclass(frozen=True)
class RestClient:
    """A REST client with the bot's token. `channel` has the owner's direct messages."""

    server: LocalDiscord
    http: aiohttp.ClientSession

    @property
    def channel(self) -> str:
        return self.server.state.dm_with(self.server.owner).id

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        given = {} if body is None else {"json": body}
        url = self.server.api_url + path
        async with self.http.request(method, url, **given, **more) as response:
            raw = await response.read()
            return Reply(response.status, json.loads(raw) if raw else None, response.headers)

    async def send(self, text: str = "words", **fields: Any) -> Reply:
        return await self.ask(
            "POST", f"/channels/{self.channel}/messages", {"content": text, **fields}
        )

    async def upload(self, *contents: bytes) -> Reply:
        form = aiohttp.FormData()
        attachments = [{"id": number} for number in range(len(contents))]
        form.add_field("payload_json", json.dumps({"attachments": attachments}))
        for number, content in enumerate(contents):
            form.add_field(f"files[{number}]", content, filename=f"{number}.bin")
        return await self.ask("POST", f"/channels/{self.channel}/messages", data=form)

    async def edit(self, message_id: str, **fields: Any) -> Reply:
        return await self.ask("PATCH", f"/channels/{self.channel}/messages/{message_id}", fields)

    async def delete(self, message_id: str) -> Reply:
        return await self.ask("DELETE", f"/channels/{self.channel}/messages/{message_id}")

    async def react(self, message_id: str, emoji: str) -> Reply:
        path = f"/channels/{self.channel}/messages/{message_id}/reactions/{emoji}/@me"
        return await self.ask("PUT", path)

    async def history(self, **query: str) -> list[str]:
        """The texts of the messages, in the order of the reply."""
        reply = await self.ask("GET", f"/channels/{self.channel}/messages", params=query)
        return [each["content"] for each in reply.body]

    async def put_commands(self, *commands: Any) -> Reply:
        return await self.ask("PUT", f"/applications/{self.server.bot.id}/commands", list(commands))


def bot_session(server: LocalDiscord) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers={"Authorization": f"Bot {server.token}"})
