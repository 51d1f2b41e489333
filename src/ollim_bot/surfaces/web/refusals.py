"""What the page's server refuses: too much, too often, or from elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from ollim_bot.domain.text import with_program
from ollim_bot.errors import NotFound, OllimError, WrongInput
from ollim_bot.ports import Status
from ollim_bot.surfaces.web import frames

_STATUSES: Mapping[type[OllimError], int] = {WrongInput: 400, NotFound: 404}
STATUS: web.AppKey[Callable[[], Status]] = web.AppKey("status")

_logger = logging.getLogger(__name__)


class RequestRefused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def refusal(request: web.BaseRequest, status: int, sentence: str) -> web.Response:
    """Answer in JSON, or in plain text for an address that was opened by hand."""
    if "text/html" in request.headers.get("Accept", ""):
        return web.Response(status=status, text=f"{sentence}\n")
    return web.json_response({"error": sentence}, status=status)


@web.middleware
async def refusals_in_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error of a handler into a refusal."""
    try:
        return await handler(request)
    except ConnectionError:
        raise
    except Exception as error:  # no detail of an error may reach a stranger
        if request.writer.output_size:
            # The answer has begun, or a socket is open: only closing is left.
            _logger.exception("An answer to the page broke off")
            raise ConnectionAbortedError from error
        return _said(request, error)


def _said(request: web.Request, error: Exception) -> web.Response:
    match error:
        case RequestRefused():
            return refusal(request, error.status, error.sentence)
        case OllimError():
            status = next(
                (code for kind, code in _STATUSES.items() if isinstance(error, kind)), 503
            )
            return refusal(request, status, with_program(str(error), request.app[STATUS]().program))
        case web.HTTPMethodNotAllowed():
            allowed = sorted(error.allowed_methods)
            answer = refusal(request, 405, frames.wrong_method(", ".join(allowed)))
            answer.headers["Allow"] = ", ".join(allowed)
            return answer
        case web.HTTPNotFound():
            return refusal(request, 404, frames.NOT_FOUND)
        case web.HTTPException():
            return refusal(request, error.status, frames.NOT_UNDERSTOOD)
        case _:
            _logger.error("A request of the page failed", exc_info=error)
            return refusal(request, 500, frames.FAILED)


_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WebLimits:
    """`file` and `body` are in bytes."""

    file: int = 25 * _MEGABYTE
    files: int = 10
    text_characters: int = 100_000
    body: int = 64 * 1024
    body_seconds: float = 15
    stall_seconds: float = 30
    upload_seconds: float = 30 * 60
    idle_seconds: float = 30
    linger_seconds: float = 2
    connections: int = 300
    strangers: int = 100
    stranger_seconds: float = 20
    hello_seconds: float = 15
    entrance_seconds: float = 5
    heartbeat_seconds: float = 20
    tabs: int = 40
    queued_frames: int = 400
    missed_messages: int = 200
