"""What the parts of the local ntfy share: messages, errors in ntfy's form, and faults."""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web

Json = dict[str, Any]

MESSAGE, CLEAR, DELETE, OPEN, KEEPALIVE = (
    "message",
    "message_clear",
    "message_delete",
    "open",
    "keepalive",
)
_DOCS = "https://ntfy.sh/docs"
_NAME = re.compile(r"[-_A-Za-z0-9]{1,64}")
_LETTERS = string.ascii_letters + string.digits
_ID_LENGTH = 12


class NtfyError(Exception):
    """An answer that is not what was asked for; `code` is ntfy's own, such as 40401."""

    def __init__(
        self,
        status: int,
        code: int,
        message: str,
        page: str = "",
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.page = page
        self.retry_after = retry_after

    def response(self) -> web.Response:
        error: Json = {"code": self.code, "http": self.status, "error": self.message}
        if self.page:
            error["link"] = f"{_DOCS}/{self.page}"
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return web.json_response(error, status=self.status, headers=headers)


def not_found() -> NtfyError:
    return NtfyError(404, 40401, "page not found")


def unauthorized() -> NtfyError:
    return NtfyError(401, 40101, "unauthorized", "publish/#authentication")


def forbidden() -> NtfyError:
    return NtfyError(403, 40301, "forbidden", "publish/#authentication")


def topic_invalid() -> NtfyError:
    return NtfyError(400, 40009, "invalid request: topic invalid")


def sequence_invalid() -> NtfyError:
    return NtfyError(400, 40049, "invalid request: sequence ID invalid")


def since_invalid() -> NtfyError:
    page = "subscribe/api/#fetch-cached-messages"
    return NtfyError(400, 40008, "invalid since parameter", page)


def priority_invalid() -> NtfyError:
    return NtfyError(400, 40007, "invalid priority parameter", "publish/#message-priority")


def not_utf8() -> NtfyError:
    return NtfyError(400, 40011, "invalid message: message must be UTF-8 encoded")


def not_message_json() -> NtfyError:
    text = "invalid request: request body must be message JSON"
    return NtfyError(400, 40017, text, "publish/#publish-as-json")


def actions_invalid(reason: str) -> NtfyError:
    text = f"invalid request: actions invalid; {reason}"
    return NtfyError(400, 40018, text, "publish/#action-buttons")


def attachments_disallowed() -> NtfyError:
    text = "invalid request: attachments not allowed"
    return NtfyError(400, 40014, text, "config/#attachments")


def attachment_too_large() -> NtfyError:
    text = "attachment too large, or bandwidth limit reached"
    return NtfyError(413, 41301, text, "publish/#limitations")


def json_too_large() -> NtfyError:
    return NtfyError(413, 41303, "JSON body too large")


def too_many_requests(after: float | None) -> NtfyError:
    text = "limit reached: too many requests"
    return NtfyError(429, 42901, text, "publish/#limitations", retry_after=after)


def too_many_messages(after: float | None) -> NtfyError:
    text = "limit reached: daily message quota reached"
    return NtfyError(429, 42908, text, "publish/#limitations", retry_after=after)


def require_topic(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise topic_invalid()
    return name


def require_sequence(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise sequence_invalid()
    return name


def new_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a topic; `expires` is 0 if the server does not keep it.

    `details` has what is only there if it was given: title, tags, priority, actions and so on.
    """

    id: str
    time: int
    topic: str
    event: str = MESSAGE
    text: str = ""
    sequence_id: str = ""
    expires: int = 0
    details: Json = field(default_factory=dict)

    @property
    def payload(self) -> Json:
        shown: Json = {"id": self.id}
        if self.sequence_id and self.sequence_id != self.id:
            shown["sequence_id"] = self.sequence_id
        shown["time"] = self.time
        if self.expires:
            shown["expires"] = self.expires
        shown |= {"event": self.event, "topic": self.topic}
        if self.event == MESSAGE:
            shown["message"] = self.text
        return {**shown, **self.details}

    @property
    def title(self) -> str:
        return str(self.details.get("title", ""))

    @property
    def actions(self) -> list[Json]:
        return list(self.details.get("actions", []))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The request is answered with this error and not carried out."""

    status: int
    code: int = 0
    retry_after: float | None = None

    def response(self) -> web.Response:
        code = self.code or self.status * 100 + 1
        text = HTTPStatus(self.status).phrase.lower()
        return NtfyError(self.status, code, text, retry_after=self.retry_after).response()


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The request is answered with these bytes and not carried out."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Changes:
    """Lets others wait for a condition, which is looked at after each change."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, is_so: Callable[[], object], seconds: float | None = 60.0) -> None:
        """Wait for the condition; raises `TimeoutError`."""
        async with asyncio.timeout(seconds):
            while not is_so():
                await self._changed.wait()
