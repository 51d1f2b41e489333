"""Puts an answer, or the failure that takes its place, on an HTTP connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import web

from ollim_bot.offline.messages import (
    Cut,
    EndWithoutStop,
    Fail,
    Failure,
    Garbage,
    Hang,
    Reply,
    SseError,
    Stall,
)
from ollim_bot.offline.wire import Event, Outgoing, error

Streamed = Reply | Stall | Cut | EndWithoutStop | Garbage | SseError
_GARBAGE = b"event: message_start\ndata: {not json\n\n"
_SERVER_ERROR = 500


class Delivery:
    """One answer to one HTTP request."""

    def __init__(self, http: web.Request, message_id: str, model: str, input_tokens: int) -> None:
        self._http = http
        self._id = message_id
        self._model = model
        self._input_tokens = input_tokens

    async def send(self, answer: Reply | Failure, *, stream: bool) -> web.StreamResponse:
        match answer:
            case Fail():
                return refusal(answer)
            case Hang():
                return await _never()
            case _ if stream:
                return await self._stream(answer)
            case _:
                return await self._whole(answer)

    async def _whole(self, answer: Streamed) -> web.StreamResponse:
        match answer:
            case Reply():
                return web.json_response(self._outgoing(answer).message())
            case EndWithoutStop(after):
                return web.json_response(self._outgoing(after).message() | {"stop_reason": None})
            case SseError(kind, message):
                return web.json_response(error(kind, message), status=_SERVER_ERROR)
            case Garbage():
                return web.Response(body=_GARBAGE, content_type="application/json")
            case Stall():
                return await _never()
            case Cut():
                self._hang_up()
                return web.Response()

    async def _stream(self, answer: Streamed) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
        response.content_type = "text/event-stream"
        await response.prepare(self._http)
        match answer:
            case Reply():
                await self._events(response, answer, self._outgoing(answer).complete())
            case EndWithoutStop(after):
                await self._events(response, after, self._outgoing(after).unstopped())
            case Stall(after):
                await self._events(response, after, self._outgoing(after).torn())
                await _never()
            case Cut(after):
                await self._events(response, after, self._outgoing(after).torn())
                self._hang_up()
            case SseError(kind, message):
                await response.write(self._outgoing(Reply(())).opening().encoded())
                await response.write(Event("error", error(kind, message)).encoded())
            case Garbage():
                await response.write(_GARBAGE)
        return response

    async def _events(
        self, response: web.StreamResponse, reply: Reply, events: Iterable[Event]
    ) -> None:
        for event in events:
            await response.write(event.encoded())
            if reply.pace and event.name == "content_block_delta":
                await asyncio.sleep(reply.pace)

    def _outgoing(self, reply: Reply) -> Outgoing:
        given = reply.input_tokens
        return Outgoing(
            reply, self._id, self._model, self._input_tokens if given is None else given
        )

    def _hang_up(self) -> None:
        if self._http.transport is not None:
            self._http.transport.close()


def refusal(fail: Fail) -> web.Response:
    headers = {} if fail.retry_after is None else {"Retry-After": f"{fail.retry_after:g}"}
    body = error(fail.kind, fail.message)
    return web.json_response(body, status=fail.status, headers=headers)


async def _never() -> web.Response:
    await asyncio.Event().wait()
    return web.Response()
