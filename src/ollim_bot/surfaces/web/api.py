"""What the page asks of the bot, and the files that it sends along."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from ollim_bot.kernel.base.errors import WriteFailed, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.plain_files import open_file
from ollim_bot.kernel.base.text import with_program
from ollim_bot.kernel.store.attachments.attachment_files import media_type_of
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.chat import IMAGES, Attachment
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import ChatService, IncomingFile, IncomingMessage, OpenAttachment
from ollim_bot.kernel.values.search import terms_of
from ollim_bot.kernel.values.surface_state import WebState
from ollim_bot.surfaces.web import frames
from ollim_bot.surfaces.web.access import WebLimits
from ollim_bot.surfaces.web.frames import Json, RequestRefused, result_json
from ollim_bot.surfaces.web.marked import with_typed_commands
from ollim_bot.surfaces.web.panels import PAGE, Panels, preview_html
from ollim_bot.surfaces.web.presenter import RenderedMessages, rendered


class KeptMark(Protocol):
    """Where the mark is stored. Its methods may block on the disk."""

    def read(self) -> MessageId | None: ...

    def write(self, message_id: MessageId) -> None: ...


class RememberedMark:
    """A `KeptMark` in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> MessageId | None:
        return self._store.query(lambda tx: tx.web.get()).read

    def write(self, message_id: MessageId) -> None:
        self._store.run(lambda tx: tx.web.put(WebState(message_id)))


class ReadMark:
    """The read mark. It only moves forward, so a slow tab does not make messages unread."""

    def __init__(
        self, kept: KeptMark, reception: ChatService, send: Callable[[Json], None]
    ) -> None:
        self._kept = kept
        self._reception = reception
        self._send = send
        self._one_at_a_time = asyncio.Lock()
        self.last: MessageId | None = None

    async def load(self) -> None:
        self.last = await asyncio.to_thread(self._kept.read)

    async def move(self, message_id: MessageId) -> None:
        """Raises `RequestRefused` if there is no such message."""
        async with self._one_at_a_time:
            if message_id == self.last:
                return
            wanted = await self._reception.place_of(message_id)
            if wanted is None:
                raise RequestRefused(404, frames.NO_MESSAGE)
            last = None if self.last is None else await self._reception.place_of(self.last)
            if last is None or wanted > last:
                await asyncio.to_thread(self._kept.write, message_id)
                self.last = message_id
                self._send({"type": "read", "id": message_id})


_CHUNK = 256 * 1024
_LONGEST_MARK = 12
_BYTES_PER_CHARACTER = 4
_MOST_FIELDS = 10
_MALFORMED = (ValueError, AssertionError, RuntimeError, HttpProcessingError)
T = TypeVar("T")
R = TypeVar("R")


async def send_attachment(
    request: web.Request, attachment: Attachment, opener: OpenAttachment
) -> web.StreamResponse:
    """Send images of common kinds to be shown and all other files to be saved.

    The content decides the kind, never the name.
    """
    try:
        file = await asyncio.to_thread(opener, attachment)
    except (OSError, ValueError):
        raise RequestRefused(404, frames.NO_ATTACHMENT) from None
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise RequestRefused(404, frames.NO_ATTACHMENT)
        first = await asyncio.to_thread(file.read, _CHUNK)
        kind = media_type_of(first[:_LONGEST_MARK])
        is_image = kind in IMAGES
        how = "inline" if is_image else "attachment"
        quoted = quote(attachment.name, safe="", errors="replace")
        answer = web.StreamResponse(
            headers={
                "Content-Disposition": f"{how}; filename*=UTF-8''{quoted}",
                "Content-Type": kind if is_image else "application/octet-stream",
                "Content-Security-Policy": "default-src 'none'; sandbox",
            }
        )
        answer.content_length = status.st_size
        await answer.prepare(request)
        if request.method != "HEAD":
            # The file may have grown.
            chunk, left = first, status.st_size
            while chunk and left > 0:
                await answer.write(chunk[:left])
                left -= len(chunk)
                chunk = await asyncio.to_thread(file.read, _CHUNK)
            await answer.write_eof()
        return answer


@dataclass(slots=True)
class Upload:
    """The content of the form. Its files are removed at the end unless they were moved."""

    folder: Path
    fields: dict[str, str] = field(default_factory=dict)
    files: list[IncomingFile] = field(default_factory=list)

    @property
    def id(self) -> InputId:
        """The id of the message. Raises `RequestRefused` unless it is a UUID."""
        given = self.fields.get("id", "")
        with suppress(ValueError):
            if str(uuid.UUID(given)) == given.lower():
                return InputId(given.lower())
        raise RequestRefused(400, frames.NO_FORM)


class Uploads:
    """Receives forms into `folder`, which holds nothing else: `prepare` empties it."""

    def __init__(self, folder: Path, limits: WebLimits) -> None:
        self._folder = folder
        self._limits = limits

    async def prepare(self) -> None:
        def empty() -> None:
            shutil.rmtree(self._folder, ignore_errors=True)
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as refused:
                reason = f"could not be made: {refused.strerror}."
                raise WriteFailed(self._folder, reason) from refused

        await asyncio.to_thread(empty)

    @asynccontextmanager
    async def received(self, request: web.Request) -> AsyncIterator[Upload]:
        """Receive the form. Raises `RequestRefused` with what is wrong with it."""
        if request.content_type != "multipart/form-data":
            raise RequestRefused(415, frames.NO_FORM)
        upload = Upload(self._folder / uuid.uuid4().hex)
        await _on_disk("The message", lambda: upload.folder.mkdir(mode=0o700, parents=True))
        try:
            await self._read(request, upload)
            yield upload
        finally:
            await asyncio.to_thread(shutil.rmtree, upload.folder, ignore_errors=True)

    async def _read(self, request: web.Request, upload: Upload) -> None:
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                reader = await request.multipart()
                while (part := await self._in_time(reader.next())) is not None:
                    if not isinstance(part, BodyPartReader):
                        raise RequestRefused(400, frames.NO_FORM)
                    if part.filename is None:
                        await self._take_field(part, upload)
                    else:
                        await self._take_file(part, part.filename, upload)
        except TimeoutError:
            raise RequestRefused(408, frames.TOO_SLOW) from None
        except _MALFORMED:
            raise RequestRefused(400, frames.NO_FORM) from None

    async def _take_field(self, part: BodyPartReader, upload: Upload) -> None:
        most = self._limits.text_characters
        raw = bytearray()
        while chunk := await self._in_time(part.read_chunk(_CHUNK)):
            raw += chunk
            if len(raw) > _BYTES_PER_CHARACTER * most:
                break
        text = raw.decode("utf-8", "replace")
        if len(text) > most:
            raise RequestRefused(413, frames.text_too_long(most))
        if len(upload.fields) >= _MOST_FIELDS:
            raise RequestRefused(400, frames.NO_FORM)
        upload.fields[part.name or ""] = text

    async def _take_file(self, part: BodyPartReader, given: str, upload: Upload) -> None:
        if len(upload.files) >= self._limits.files:
            raise RequestRefused(413, frames.too_many_files(self._limits.files))
        # Remove folders, and characters that confuse a terminal or a file system.
        # Browsers escape only quotes in a name.
        last = given.replace("%22", '"').replace("\\", "/").rpartition("/")[2]
        name = "".join(each if each.isprintable() else " " for each in last).strip(" .")
        name = name[-120:] or "file"
        path = upload.folder / str(len(upload.files))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with await _on_disk(name, lambda: open(open_file(path, flags, 0o600), "wb")) as target:
            size = 0
            while chunk := await self._in_time(part.read_chunk(_CHUNK)):
                size += len(chunk)
                if size > self._limits.file:
                    raise RequestRefused(413, frames.file_too_large(name, self._limits.file))
                await _on_disk(name, target.write, chunk)
            await _on_disk(name, target.flush)
        upload.files.append(IncomingFile(name, path))

    async def _in_time(self, step: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(self._limits.stall_seconds):
            return await step


async def _on_disk(name: str, step: Callable[..., R], *details: object) -> R:
    try:
        return await asyncio.to_thread(step, *details)
    except OSError as refused:
        reason = refused.strerror or str(refused)
        raise RequestRefused(507, frames.not_saved(name, reason)) from refused


NAME = "web"


@dataclass(frozen=True)
class Api:
    _reception: ChatService
    _book: RenderedMessages
    _read: ReadMark
    _panels: Panels
    _uploads: Uploads
    _open_attachment: OpenAttachment
    _limits: WebLimits

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/messages", self._receive),
            web.get("/api/messages", self._older),
            web.get("/api/messages/around", self._around),
            web.get("/api/search", self._search),
            web.post("/api/commands", self._command),
            web.post("/api/clicks", self._click),
            web.post("/api/go-on", self._go_on),
            web.get("/api/panels/{name}", self._panel),
            web.post("/api/panels/{name}/actions", self._act),
            web.post("/api/panels/{name}/previews", self._preview),
            web.post("/api/interrupt", self._interrupt),
            web.post("/api/read", self._mark_read),
            web.get("/api/completions", self._completions),
            web.get("/api/attachments/{message}/{index:[0-9]{1,3}}", self._attachment),
        ]

    async def _receive(self, request: web.Request) -> web.Response:
        async with self._uploads.received(request) as upload:
            text = upload.fields.get("text", "")
            if not text.strip() and not upload.files:
                raise RequestRefused(400, frames.NOTHING_SAID)
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
        limit = int(wanted) if wanted.isdecimal() and len(wanted) < 4 else 50
        limit = min(max(limit, 1), 100)
        messages = await self._reception.history(limit + 1, before)
        shown = await self._book.shown(messages[-limit:])
        return web.json_response({"messages": shown, "has_more": len(messages) > limit})

    async def _around(self, request: web.Request) -> web.Response:
        wanted = MessageId(request.query.get("id", ""))
        messages = await self._reception.around(wanted, 25)
        if not messages:
            raise RequestRefused(404, frames.NO_MESSAGE)
        return web.json_response({"messages": await self._book.shown(messages)})

    async def _search(self, request: web.Request) -> web.Response:
        words = request.query.get("words", "")
        try:
            terms = terms_of(words)
        except WrongInput as refused:
            raise RequestRefused(400, str(refused)) from refused
        found = await self._reception.search(words, 30)
        results = await asyncio.to_thread(lambda: [result_json(each, terms) for each in found])
        return web.json_response({"results": results})

    async def _command(self, request: web.Request) -> web.Response:
        line = _text(await self._body(request), "line")
        return await _answered(await self._reception.command(NAME, line))

    async def _click(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        wanted, custom_id = MessageId(_text(body, "message_id")), _text(body, "custom_id")
        message = await self._reception.message(wanted)
        if message is None:
            raise RequestRefused(404, frames.NO_MESSAGE)
        buttons = message.card.buttons if message.card else ()
        if custom_id not in [button.custom_id for button in buttons]:
            raise RequestRefused(404, frames.NO_BUTTON)
        words = _text(body, "words") if "words" in body else ""
        return await _answered(await self._reception.click(NAME, message.id, custom_id, words))

    async def _go_on(self, request: web.Request) -> web.Response:
        key = _text(await self._body(request), "key")
        return await _answered(await self._reception.go_on(key))

    async def _panel(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        wanted = asked.pop("most", "")
        most = int(wanted) if wanted.isdecimal() and len(wanted) < 6 else PAGE
        panel = self._panels.named(request.match_info["name"])
        fragment = await panel.fragment(asked, most)
        html = with_typed_commands(str(fragment["html"]), self._reception.status.program)
        return web.json_response({**fragment, "html": html})

    async def _act(self, request: web.Request) -> web.Response:
        view = self._panels.acting(request.match_info["name"])
        action, fields = _action(await self._body(request))
        answer = await view.act(NAME, action, fields)
        html = await rendered(self._typed(answer.text)) if answer.text else ""
        return web.json_response(
            {"html": html, "is_error": answer.is_error, "field": answer.field, "go": answer.go}
        )

    async def _preview(self, request: web.Request) -> web.Response:
        view = self._panels.acting(request.match_info["name"])
        action, fields = _action(await self._body(request))
        html = preview_html(await view.preview(action, fields))
        return web.json_response({"html": self._typed(html)})

    def _typed(self, text: str) -> str:
        return with_program(text, self._reception.status.program)

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
            raise RequestRefused(404, frames.NO_ATTACHMENT)
        return await send_attachment(request, message.attachments[index], self._open_attachment)

    async def _body(self, request: web.Request) -> Json:
        """The JSON object of the request."""
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                raw = await request.read()
            body = json.loads(raw)
        except web.HTTPRequestEntityTooLarge:
            raise RequestRefused(413, frames.body_too_large(self._limits.body)) from None
        except TimeoutError:
            raise RequestRefused(408, frames.TOO_SLOW) from None
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise RequestRefused(400, frames.NOT_UNDERSTOOD)
        return body


async def _answered(answer: CommandAnswer) -> web.Response:
    html = await rendered(answer.text) if answer.text else ""
    return web.json_response(
        {
            "text": answer.text,
            "html": html,
            "is_error": answer.is_error,
            "is_shown": answer.is_shown,
        }
    )


def _action(body: Json) -> tuple[str, dict[str, str]]:
    """The name of an action and its fields, which are all texts."""
    fields = body.get("fields", {})
    if not isinstance(fields, dict) or not all(isinstance(each, str) for each in fields.values()):
        raise RequestRefused(400, frames.NOT_UNDERSTOOD)
    return _text(body, "action"), fields


def _text(body: Json, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RequestRefused(400, frames.NOT_UNDERSTOOD)
    return value
