"""The page's HTTP API."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.search import terms_of
from ollim_bot.errors import WrongInput
from ollim_bot.ports import ChatService, IncomingMessage, OpenAttachment
from ollim_bot.surfaces.web import texts
from ollim_bot.surfaces.web.day_html import PAGE
from ollim_bot.surfaces.web.files import Uploads, send_attachment
from ollim_bot.surfaces.web.frames import Json, answer_json, result_json
from ollim_bot.surfaces.web.limits import WebLimits
from ollim_bot.surfaces.web.panels import TodayPanel
from ollim_bot.surfaces.web.read_mark import ReadMark
from ollim_bot.surfaces.web.refusals import RequestRefused
from ollim_bot.surfaces.web.rendered_messages import RenderedMessages, rendered

NAME = "web"

_PAGE = 50
_LARGEST_PAGE = 100
_AROUND = 25
_FOUND = 30


class Api:
    def __init__(
        self,
        reception: ChatService,
        book: RenderedMessages,
        read: ReadMark,
        today: TodayPanel,
        uploads: Uploads,
        open_attachment: OpenAttachment,
        limits: WebLimits,
    ) -> None:
        self._reception = reception
        self._book = book
        self._read = read
        self._today = today
        self._uploads = uploads
        self._open_attachment = open_attachment
        self._limits = limits

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/messages", self._receive),
            web.get("/api/messages", self._older),
            web.get("/api/messages/around", self._around),
            web.get("/api/search", self._search),
            web.post("/api/commands", self._command),
            web.post("/api/clicks", self._click),
            web.get("/api/panels/today", self._show_today),
            web.post("/api/panels/today/presses", self._press_in_today),
            web.post("/api/interrupt", self._interrupt),
            web.post("/api/read", self._mark_read),
            web.get("/api/completions", self._completions),
            web.get("/api/attachments/{message}/{index:[0-9]{1,3}}", self._attachment),
        ]

    async def _receive(self, request: web.Request) -> web.Response:
        async with self._uploads.received(request) as upload:
            text = upload.fields.get("text", "")
            if not text.strip() and not upload.files:
                raise RequestRefused(400, texts.NOTHING_SAID)
            given = MessageId(upload.fields.get("reply_to", ""))
            replied_to = await self._reception.message(given) if given else None
            message = await self._reception.receive(
                IncomingMessage(
                    upload.id,
                    NAME,
                    text,
                    reply_to=None if replied_to is None else replied_to.id,
                    files=tuple(upload.files),
                )
            )
        [shown] = await self._book.shown([message])
        return web.json_response({"message": shown})

    async def _older(self, request: web.Request) -> web.Response:
        before = MessageId(request.query.get("before", "")) or None
        wanted = request.query.get("limit", "")
        limit = int(wanted) if wanted.isdecimal() and len(wanted) < 4 else _PAGE
        limit = min(max(limit, 1), _LARGEST_PAGE)
        messages = await self._reception.history(limit + 1, before)
        shown = await self._book.shown(messages[-limit:])
        return web.json_response({"messages": shown, "has_more": len(messages) > limit})

    async def _around(self, request: web.Request) -> web.Response:
        wanted = MessageId(request.query.get("id", ""))
        messages = await self._reception.around(wanted, _AROUND)
        if not messages:
            raise RequestRefused(404, texts.NO_MESSAGE)
        return web.json_response({"messages": await self._book.shown(messages)})

    async def _search(self, request: web.Request) -> web.Response:
        words = request.query.get("words", "")
        try:
            terms = terms_of(words)
        except WrongInput as refused:
            raise RequestRefused(400, str(refused)) from refused
        found = await self._reception.search(words, _FOUND)
        return web.json_response({"results": [result_json(each, terms) for each in found]})

    async def _command(self, request: web.Request) -> web.Response:
        line = _text(await self._body(request), "line")
        return await _answered(await self._reception.command(NAME, line))

    async def _click(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        wanted, custom_id = MessageId(_text(body, "message_id")), _text(body, "custom_id")
        message = await self._reception.message(wanted)
        if message is None:
            raise RequestRefused(404, texts.NO_MESSAGE)
        buttons = message.card.buttons if message.card else ()
        if custom_id not in [button.custom_id for button in buttons]:
            raise RequestRefused(404, texts.NO_BUTTON)
        words = _text(body, "words") if "words" in body else ""
        return await _answered(await self._reception.click(NAME, message.id, custom_id, words))

    async def _show_today(self, request: web.Request) -> web.Response:
        wanted = request.query.get("most", "")
        most = int(wanted) if wanted.isdecimal() and len(wanted) < 6 else PAGE
        return web.json_response(await self._today.fragment(most))

    async def _press_in_today(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        words = _text(body, "words") if "words" in body else ""
        custom_id = _text(body, "custom_id")
        return await _answered(await self._reception.day.press(NAME, custom_id, words))

    async def _interrupt(self, request: web.Request) -> web.Response:
        await self._body(request)
        return web.json_response({"stopped": await self._reception.interrupt()})

    async def _mark_read(self, request: web.Request) -> web.Response:
        await self._read.move(MessageId(_text(await self._body(request), "id")))
        return web.json_response({})

    async def _completions(self, request: web.Request) -> web.Response:
        query = request.query
        values = await self._reception.completions(
            query.get("command", ""), query.get("argument", ""), query.get("typed", "")
        )
        return web.json_response({"values": list(values)})

    async def _attachment(self, request: web.Request) -> web.StreamResponse:
        message = await self._reception.message(MessageId(request.match_info["message"]))
        index = int(request.match_info["index"])
        if message is None or index >= len(message.attachments):
            raise RequestRefused(404, texts.NO_ATTACHMENT)
        return await send_attachment(request, message.attachments[index], self._open_attachment)

    async def _body(self, request: web.Request) -> Json:
        """The JSON object of the request."""
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                raw = await request.read()
            body = json.loads(raw)
        except web.HTTPRequestEntityTooLarge:
            raise RequestRefused(413, texts.body_too_large(self._limits.body)) from None
        except TimeoutError:
            raise RequestRefused(408, texts.TOO_SLOW) from None
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise RequestRefused(400, texts.NOT_UNDERSTOOD)
        return body


async def _answered(answer: CommandAnswer) -> web.Response:
    html = await rendered(answer.text) if answer.text else ""
    return web.json_response(answer_json(answer, html))


def _text(body: Json, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RequestRefused(400, texts.NOT_UNDERSTOOD)
    return value
