"""A plain client of the Messages API, for checks of the raw responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from ollim_bot.offline.server import Failure, MessagesServer, ModelRequest, Reply

LIMIT = aiohttp.ClientTimeout(total=60)


@dataclass(frozen=True)
class FixedReplyModel:
    """A model that always gives the same reply."""

    answer: Reply | Failure
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def reply(self, _: ModelRequest) -> Reply | Failure:
        self.asked.set()
        return self.answer


def said(text: str) -> list[object]:
    return [{"role": "user", "content": text}]


def question(text: str = "hi", **fields: object) -> dict[str, object]:
    return {"model": "claude-x", "max_tokens": 100, "messages": said(text), **fields}


@dataclass(frozen=True)
class MessagesClient:
    http: aiohttp.ClientSession
    url: str

    async def ask(self, path: str = "/v1/messages", **fields: object) -> tuple[int, Any]:
        async with self.http.post(self.url + path, json=question() | fields) as response:
            return response.status, await response.json()

    async def post(self, body: bytes, path: str = "/v1/messages") -> tuple[int, Any]:
        async with self.http.post(self.url + path, data=body) as response:
            return response.status, await response.json()

    async def raw(self, *, stream: bool) -> bytes:
        body = question(stream=stream)
        async with self.http.post(f"{self.url}/v1/messages", json=body) as response:
            assert not stream or response.content_type == "text/event-stream"
            return await response.read()

    async def stream(self) -> list[dict[str, Any]]:
        return list(parsed(await self.raw(stream=True)))


@asynccontextmanager
async def client_of(answer: Reply | Failure) -> AsyncIterator[MessagesClient]:
    async with (
        MessagesServer(FixedReplyModel(answer)) as server,
        aiohttp.ClientSession(timeout=LIMIT) as http,
    ):
        yield MessagesClient(http, server.url)


def parsed(stream: bytes) -> Iterable[dict[str, Any]]:
    """The data of each event. Checks that the event's name is the type in its data."""
    for block in stream.decode().split("\n\n")[:-1]:
        event, data = block.split("\n")
        fields = json.loads(data.removeprefix("data: "))
        assert event == f"event: {fields['type']}"
        yield fields


def joined(events: Iterable[dict[str, Any]], field: str) -> str:
    deltas = (event["delta"] for event in events if event["type"] == "content_block_delta")
    return "".join(delta.get(field, "") for delta in deltas)
