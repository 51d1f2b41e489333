"""The REST routes of interactions: the first answer, what follows it, and its changes."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from ollim_bot.testing.discord.bodies import Brought, answer, read
from ollim_bot.testing.discord.buckets import Buckets
from ollim_bot.testing.discord.interactions import Desk
from ollim_bot.testing.discord.refusals import unknown_webhook

_WEBHOOK = "/webhooks/{app}/{token}"
_MESSAGE = _WEBHOOK + "/messages/{message}"


@dataclass
class InteractionRoutes:
    desk: Desk
    buckets: Buckets
    largest_file: int

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/interactions/{id}/{token}/callback", self._callback),
            web.post(_WEBHOOK, self._follow_up),
            web.get(_MESSAGE, self._get),
            web.patch(_MESSAGE, self._change),
            web.delete(_MESSAGE, self._delete),
        ]

    async def _callback(self, request: web.Request) -> web.Response:
        brought = await self._read(request)
        names = request.match_info
        receipt = self.desk.first_answer(names["id"], names["token"], brought.body, brought.files)
        wants = request.query.get("with_response", "").lower() in ("1", "true")
        return answer(receipt if wants else None)

    async def _follow_up(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        brought = await self._read(request)
        message = self.desk.follow_up(token, brought.body, brought.files)
        return answer(self.desk.postings.papers.message(message), headers=headers)

    async def _get(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        message = self.desk.message(token, request.match_info["message"])
        return answer(self.desk.postings.papers.message(message), headers=headers)

    async def _change(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        brought = await self._read(request)
        name = request.match_info["message"]
        message = self.desk.change(token, name, brought.body, brought.files)
        return answer(self.desk.postings.papers.message(message), headers=headers)

    async def _delete(self, request: web.Request) -> web.Response:
        token, headers = self._take(request)
        self.desk.delete(token, request.match_info["message"])
        return answer(headers=headers)

    def _take(self, request: web.Request) -> tuple[str, dict[str, str]]:
        if request.match_info["app"] != self.desk.bot.id:
            raise unknown_webhook()
        token = request.match_info["token"]
        return token, dict(self.buckets.take("webhook", token))

    async def _read(self, request: web.Request) -> Brought:
        return await read(request, self.desk.world, self.largest_file)
